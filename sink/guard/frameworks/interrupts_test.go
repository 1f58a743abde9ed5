package frameworks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// interrupted is a run behind AG-UI.
type interrupted struct {
	End, Outcome, Message string
	Metadata              []map[string]any
	Ran                   int // tools that ran so far
}

// TestHoldsAreInterrupts holds a flow of three tools in agents behind AG-UI: the run ends with an interrupt, and
// the resume entry of a person grants more.
func TestHoldsAreInterrupts(t *testing.T) {
	dir := folder(t)
	for _, c := range []struct {
		name, environment string
		still             int // interrupts of a flow for which the person who approves grants nothing
	}{
		{"pydantic_ai", "agui", 3}, // the same call interrupts again
		{"agent_framework", "agentframework", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			python := filepath.Join(dir, c.environment, "bin", "python")
			runs := playHeld(t, c.name, python, "yes")
			if len(runs) != 2 || runs[0].Outcome != "interrupt" || runs[0].Ran != 3 || len(runs[0].Metadata) != 1 || runs[1].End != "RUN_FINISHED" || runs[1].Outcome == "interrupt" || runs[1].Ran != 5 {
				t.Errorf("granted: %+v", runs)
			}
			if c.name == "pydantic_ai" {
				said, _ := runs[0].Metadata[0]["weir"].(map[string]any)
				if said["flow"] != "held" || said["limit"] != 3.0 || said["reason"] != "max_tool_calls_exceeded" {
					t.Errorf("the interrupt says %v", said)
				}
			}
			interrupts := 0
			for _, r := range playHeld(t, c.name, python, "no") {
				if r.Outcome == "interrupt" {
					interrupts++
				}
				if r.Ran != 3 {
					t.Errorf("%d tools ran in a held flow", r.Ran)
				}
			}
			if interrupts != c.still {
				t.Errorf("without a grant %d runs were interrupted, want %d", interrupts, c.still)
			}
		})
	}
}

// playHeld runs the agent against a weir of its own.
func playHeld(t *testing.T, name, python, grants string) []interrupted {
	t.Helper()
	token := strings.Repeat("admin000", 5)
	file, limits := filepath.Join(t.TempDir(), "admin"), filepath.Join(t.TempDir(), "limits.yaml")
	for path, text := range map[string]string{file: token, limits: "profile: none\nrules:\n  max_tool_calls: {max: 3, action: hold}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weir := weirtest.Run(t, "--in-memory", "--admin-token-file", file, "--limits", limits)
	var got struct {
		Versions map[string]string
		Runs     []interrupted
	}
	cmd := newScript(t.Context(), t, []string{python, "testdata/interrupt_" + name + ".py", weir.URL, token, grants})
	if cmd.prints(t, &got); len(got.Runs) == 0 {
		t.Fatalf("MISSING, or it failed: no runs\n%.3000s", &cmd.errs)
	}
	t.Logf("%v, a grant: %s", got.Versions, grants)
	for i, r := range got.Runs {
		t.Logf("run %d: %s, outcome %q, %d tools ran", i+1, r.End, r.Outcome, r.Ran)
	}
	return got.Runs
}
