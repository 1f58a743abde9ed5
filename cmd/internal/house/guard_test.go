package house

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGuardNeedsNoModule holds that a program which imports the guard gets nothing but weir's own packages and the
// standard library.
func TestGuardNeedsNoModule(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./sink/guard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for other := range strings.FieldsSeq(string(out)) {
		if other != module {
			t.Errorf("sink/guard brings module %s", other)
		}
	}
}
