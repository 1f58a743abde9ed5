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

// TestA2AFlowByTheSDK lets two agents of the official A2A SDKs, whose cards declare weir's extension, hand each
// message to the other. Without weir the hop count ends it, with weir what remains of its limit.
func TestA2AFlowByTheSDK(t *testing.T) {
	t.Run("a2a-sdk", func(t *testing.T) {
		python := newAsker(t, "python")
		python.version("a2a-sdk")
		passMessages(t, python.python, "testdata/ring.py", "../../guard/python")
	})
	t.Run("@a2a-js/sdk", func(t *testing.T) {
		node := filepath.Join(folder(t), "node")
		for _, name := range []string{"@a2a-js/sdk", "typescript"} {
			if _, err := os.Stat(filepath.Join(node, "node_modules", name)); err != nil {
				t.Skipf("*** NOT TESTED: %s is not installed ***", name)
			}
		}
		passMessages(t, "node", "testdata/ring.mjs", node, "../../guard/typescript")
	})
}

// passMessages runs a program with two agents, without weir and with it.
func passMessages(t *testing.T, command ...string) {
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
		args := slices.Concat(command[1:], []string{c.url, c.most})
		out, err := exec.CommandContext(t.Context(), command[0], args...).Output()
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
		t.Logf("%s, ended by %s: the agents worked on %d and %d messages, hops %v, end %v", got.Version, c.name, got.Left, got.Right, got.Hops, got.End)
	}
}
