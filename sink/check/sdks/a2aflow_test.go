package sdks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"weir/cmd/weirtest"
)

// TestA2AFlowByTheSDK lets two agents of the official A2A SDK, whose cards declare weir's extension, hand each
// message to the other. Without weir the hop count ends it, with weir what remains of its limit.
func TestA2AFlowByTheSDK(t *testing.T) {
	python := newAsker(t, "python")
	python.version("a2a-sdk")
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: none\nrules:\n  max_total_calls: {max: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := weirtest.Run(t, "--in-memory", "--limits", limits)
	for _, c := range []struct {
		name, url, most string
		left, right     int
		end             []string
	}{
		{"hops, without weir", "-", "5", 3, 3, []string{"hops"}},
		{"calls that weir says remain", weir.URL, "50", 2, 2, []string{"calls"}},
	} {
		out, err := exec.CommandContext(t.Context(), python.python, "testdata/ring.py", "../../guard/python", c.url, c.most).Output()
		var got struct {
			Version     string
			Left, Right int
			End         []string
			Hops        []int
		}
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, out)
		}
		if got.Left != c.left || got.Right != c.right || !slices.Equal(got.End, c.end) || !slices.IsSorted(got.Hops) {
			t.Errorf("%s: %+v", c.name, got)
		}
		t.Logf("a2a-sdk %s, ended by %s: the agents worked on %d and %d messages, hops %v, end %v", got.Version, c.name, got.Left, got.Right, got.Hops, got.End)
	}
}
