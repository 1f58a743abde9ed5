package journeys

import (
	"strings"
	"testing"
)

// TestSubagents has a background agent wait for a person, who agrees, and then meet the limit of its kind.
func TestSubagents(t *testing.T) {
	j := follow(t, "J18 subagents", "cmd/weir/BUDGETS.md", "Subagents", "a background agent waits for a person and has limits of its own")
	j.save("yaml", "limits.yaml")
	j.serve()
	j.save("sh", "night.sh")
	out := j.run()
	_, after, agreed := strings.Cut(out, "night has more of max_spawns, max_background_spawns")
	if !agreed {
		t.Fatalf("no grant in:\n%s", out)
	}
	j.has(out[:len(out)-len(after)], `"status":402`, `"action":"hold"`, `"reason_code":"max_background_spawns_exceeded"`, "night  held")
	if n := strings.Count(after, `"allowed":true`); n != 3 {
		t.Errorf("%d calls are allowed after the grant, want the start and two calls:\n%s", n, after)
	}
	j.has(after, `"reason_code":"max_subagent_calls_exceeded"`, "subagent night/1 (Explore): 2 of 2 calls, 0 of 200,000 tokens")
	j.Saw("held, agreed to, two calls of two")
	j.save("yaml", "session.yaml")
	j.done()
}
