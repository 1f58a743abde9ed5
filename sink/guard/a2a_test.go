package guard

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// TestA2AFlowOfOtherLanguages holds the guards to the cases of the A2A extension, which Go's own reading of
// it passes in events/a2aflow.
func TestA2AFlowOfOtherLanguages(t *testing.T) {
	given, err := os.ReadFile("../../events/a2aflow/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Name        string         `json:"name"`
		Want        map[string]any `json:"want"`
		Refused     string         `json:"refused"`
		Next        map[string]any `json:"next"`
		NextRefused string         `json:"next_refused"`
	}
	var wants []answer
	if err := json.Unmarshal(given, &wants); err != nil {
		t.Fatal(err)
	}
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			command := l.command(t)
			args := []string{"testdata/a2a.py", command[2]}
			if l.name == "typescript" {
				args = []string{"testdata/a2a.mjs", filepath.Dir(command[2])}
			}
			run := exec.Command(command[0], args...)
			run.Stdin, run.Stderr = bytes.NewReader(given), os.Stderr
			out, err := run.Output()
			var got []answer
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil || len(got) != len(wants) {
				t.Fatalf("%v: %d answers of %d", err, len(got), len(wants))
			}
			for i, want := range wants {
				g := got[i]
				if !reflect.DeepEqual(g.Want, want.Want) || g.Refused != want.Refused || g.NextRefused != want.NextRefused || want.Next != nil && !reflect.DeepEqual(g.Next, want.Next) {
					t.Errorf("%s: %+v, want %+v", want.Name, g, want)
				}
			}
		})
	}
}
