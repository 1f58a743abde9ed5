package analyzer_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/scenario"
)

var update = flag.Bool("update", false, "rewrite the outcomes in rulebook/*.flow; commit only what you can explain")

// TestScenarios runs every case of the rule book and compares what was said.
func TestScenarios(t *testing.T) {
	for _, file := range flowFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".flow"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cases, err := scenario.Parse(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			for i := range cases {
				c := &cases[i]
				out := c.Run(c.Limits(analyzer.Balanced()))
				if diff := c.Diff(&out); diff != "" && !*update {
					t.Errorf("%s:%d: %s\n%s", c.File, c.Line, c.Title(), diff)
				}
				if *update {
					c.Accept(&out)
				}
			}
			canonical := scenario.Format(cases)
			if bytes.Equal(canonical, data) {
				return
			}
			if !*update {
				t.Fatalf("%s is not in canonical form; run the tests with -update", file)
			}
			if err := os.WriteFile(file, canonical, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestEveryRuleHasScenarios fails when a row of the tables has no file of cases.
func TestEveryRuleHasScenarios(t *testing.T) {
	if stray, err := filepath.Glob("testdata/*.flow"); err != nil || len(stray) > 0 {
		t.Errorf("%q: nothing plays these cases: the rule book is in rulebook (%v)", stray, err)
	}
	for _, r := range analyzer.Rows() {
		data, err := os.ReadFile(filepath.Join("rulebook", "rule_"+r.Name+".flow"))
		if err != nil {
			t.Errorf("rule %s has no cases: write rulebook/rule_%s.flow (just under, at and over the limit, how it ends, off)", r.Name, r.Name)
			continue
		}
		if !bytes.Contains(data, []byte(" "+string(r.Reason)+" ")) {
			t.Errorf("rule_%s.flow never gives its verdict %s", r.Name, r.Reason)
		}
	}
}

func flowFiles(t testing.TB) []string {
	files, err := filepath.Glob("rulebook/*.flow")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rulebook/*.flow: %v", err)
	}
	return files
}

// scenarioCases reads all cases of the rule book.
func scenarioCases(t testing.TB) (out []scenario.Case) {
	for _, file := range flowFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cs, err := scenario.Parse(filepath.Base(file), data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, cs...)
	}
	return out
}
