package adapter_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/events/adapter"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden reads testdata/golden/<format>/<case>.in and compares the events, one
// per line, and then the faults with <case>.golden.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*.in")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases (%v)", err)
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heard := hear(t, bytes.NewReader(in), adapter.Options{IgnoreArgs: ignoring("search", "cursor")})
		got := heard.String()
		for _, fault := range heard.faults {
			got += "! " + fault + "\n"
		}
		golden := strings.TrimSuffix(file, ".in") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: came\n%swant\n%s", file, got, want)
		}
	}
}

// ignoring leaves arguments of one tool out.
func ignoring(tool string, args ...string) adapter.IgnoreArgs {
	return func(name string) []string {
		if name != tool {
			return nil
		}
		return args
	}
}
