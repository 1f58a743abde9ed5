package analyzer_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestSourcesAreThere holds the table of the systems that weir follows to what it names.
func TestSourcesAreThere(t *testing.T) {
	text, err := os.ReadFile("rulebook/SOURCES.md")
	if err != nil {
		t.Fatal(err)
	}
	flows := regexp.MustCompile("`([a-z0-9_]+\\.flow)`").FindAllSubmatch(text, -1)
	tests := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllSubmatch(text, -1)
	if len(flows) < 20 || len(tests) < 3 {
		t.Fatalf("the table names %d scenarios and %d tests: it was read wrongly", len(flows), len(tests))
	}
	for _, f := range flows {
		if _, err := os.Stat("rulebook/" + string(f[1])); err != nil {
			t.Error(err)
		}
	}
	for _, f := range tests {
		if exec.Command("grep", "-rqE", "^func "+string(f[1])+"\\(", "--include=*_test.go", "..").Run() != nil {
			t.Errorf("there is no %s", f[1])
		}
	}
}
