package limitfile_test

import (
	"strings"
	"testing"

	"weir/analyzer/limitfile"
)

// TestImportFrom reads what stands in testdata/frameworks.txt, of which the first line names
// the framework; "-" behind it means that there is no file.
func TestImportFrom(t *testing.T) {
	seen := map[string]bool{}
	golden(t, "frameworks.txt", func(input string) string {
		framework, text, _ := strings.Cut(input, "\n")
		data := []byte(text)
		framework, nothing := strings.CutSuffix(framework, " -")
		if nothing {
			data = nil
		}
		seen[framework] = true
		out, err := limitfile.ImportFrom(framework, "source", data)
		if err != nil {
			checkProblems(t, err)
			return err.Error()
		}
		l, err := limitfile.Parse("imported", out)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		checkLaws(t, l)
		return string(out)
	})
	for _, name := range limitfile.Frameworks() {
		if !seen[name] {
			t.Errorf("no example is from %s", name)
		}
	}
}

// FuzzImportFrom holds that whatever stands in a file, there is a limits file that can be
// read, or an error.
func FuzzImportFrom(f *testing.F) {
	f.Add("recursion_limit=5 # x", uint8(3))
	f.Add("'''max_turns: 3", uint8(5))
	f.Add("/* maxIterations: 3 */ maxIterations: 1e9", uint8(4))
	f.Fuzz(func(t *testing.T, text string, of uint8) {
		names := limitfile.Frameworks()
		out, err := limitfile.ImportFrom(names[int(of)%len(names)], "source", []byte(text))
		if err != nil {
			return
		}
		if _, err := limitfile.Parse("imported", out); err != nil {
			t.Fatalf("%q: %v\n%s", text, err, out)
		}
	})
}
