package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a run of tests by name in the Makefile: in which folder, and the pattern.
type named struct {
	line            int
	folder, pattern string
}

var (
	runFlag = regexp.MustCompile(`-(?:test\.)?run '?([^' ]+)'?`)
	cdTo    = regexp.MustCompile(`\bcd (\S+) &&`)
	pkgArg  = regexp.MustCompile(`\s\./([\w/]+)(?:\s|$)`)
)

// namedRuns finds each run of tests by name. Within a recipe a folder holds until its line ends, as in the shell.
func namedRuns(makefile string) (runs []named) {
	text := strings.NewReplacer("$(E2E)", "cmd/internal/app/e2e", "$(on_stack)", "cd cmd/weir/deploy/stack && ", "$$", "$").Replace(makefile)
	folder := ""
	for i, line := range strings.Split(text, "\n") {
		if cd := cdTo.FindStringSubmatch(line); cd != nil {
			folder = cd[1]
		}
		for _, at := range runFlag.FindAllStringSubmatchIndex(line, -1) {
			pattern, rest := line[at[2]:at[3]], line[at[1]:]
			if pattern == "^$" { // no test, for benchmarks and fuzzing
				continue
			}
			r := named{i + 1, folder, pattern}
			if pkg := pkgArg.FindStringSubmatch(rest); pkg != nil {
				r.folder = filepath.Join(folder, pkg[1])
			}
			runs = append(runs, r)
		}
		if !strings.HasSuffix(line, `\`) {
			folder = ""
		}
	}
	return runs
}

// tests returns the names of the tests in a folder.
func tests(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, name[1])
		}
	}
	return names
}

// TestMakefileNamesTests holds that each test that the Makefile runs by name exists. go test passes
// if no test has the name, so a renamed test would never run again.
func TestMakefileNamesTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	runs := namedRuns(string(text))
	if len(runs) < 10 {
		t.Fatalf("found %d runs by name: %v", len(runs), runs)
	}
	for _, r := range runs {
		for pattern := range strings.SplitSeq(r.pattern, "|") {
			found := false
			for _, name := range tests(t, r.folder) {
				found = found || regexp.MustCompile(pattern).MatchString(name)
			}
			if !found {
				t.Errorf("Makefile:%d: no test in %s is named %s", r.line, r.folder, pattern)
			}
		}
	}
}

func TestNamedRuns(t *testing.T) {
	runs := namedRuns("a:\n\tX=1 $(GO) test -v -run TestA ./sink/x\n\tcd $(E2E) && $(GO) test \\\n\t  -run '^TestB$$|TestC' .\n\t$(on_stack) -test.run TestD\n\t$(GO) test -run '^$$' -bench . ./y\n")
	want := []named{{2, "sink/x", "TestA"}, {4, "cmd/internal/app/e2e", "^TestB$|TestC"}, {5, "cmd/weir/deploy/stack", "TestD"}}
	if len(runs) != len(want) {
		t.Fatalf("%+v", runs)
	}
	for i := range want {
		if runs[i] != want[i] {
			t.Errorf("%+v, want %+v", runs[i], want[i])
		}
	}
}
