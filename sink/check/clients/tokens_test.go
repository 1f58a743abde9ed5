package clients

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestHooksCountTokens holds that weir knows the tokens of all model calls of an agent that only runs hooks: the
// three that ask for commands, and the last one, which ends the turn.
func TestHooksCountTokens(t *testing.T) {
	dir, weir := begin(t)
	for _, c := range all {
		if !slices.Contains([]string{"codex", "gemini-cli", "qwen-code"}, c.name) {
			continue // Claude Code has tests of its own, the hooks of the others report no tokens
		}
		t.Run(c.name, func(t *testing.T) {
			c.find(t, dir)
			r := run{T: t, client: c, weir: weir}
			url := startWeir(t, weir)
			out, err := r.live(t.TempDir(), url, false, different[:3])
			res, failed := http.Get(url + "/v1/flows")
			if failed != nil {
				t.Fatal(failed)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			var list struct{ Flows []struct{ Tokens int64 } }
			if failed := json.Unmarshal(body, &list); failed != nil || len(list.Flows) != 1 || list.Flows[0].Tokens != 4*70 {
				t.Fatalf("the flows are %.2000s (%v), want one of 280 tokens; the client ends with %v\n%s", body, failed, err, tail(out))
			}
			t.Logf("%s %s: %d tokens", c.name, c.installed(t), list.Flows[0].Tokens)
		})
	}
}

// TestClaudeCodeCapsTheTokensOfSubagents limits the tokens of subagents of a kind. The hook reads them from the
// transcript of the subagent: one is refused its next call and returns, its caller and other kinds go on.
func TestClaudeCodeCapsTheTokensOfSubagents(t *testing.T) {
	// A model call has 50 tokens of input and 20 of output.
	s := newBudgeted(t, "rules:\n  max_total_tokens: {max: 100000}\nsubagents:\n- {kind: \"general-*\", max_tokens: 150}\n")
	model, ran := s.drive(map[string][]use{
		"lead": {echo("one"), {tool: "Agent", input: object{"description": "part", "prompt": "mate: do your part", "subagent_type": "general-purpose"}}, echo("six")},
		"mate": {echo("two"), echo("three"), echo("four"), echo("five"), echo("never")},
	})
	if !strings.HasPrefix(ran, "one two three ") || !strings.HasSuffix(ran, " six") || strings.Contains(ran, "never") {
		t.Errorf("%q ran, want all of the lead, and of its subagent what 150 tokens allow", ran)
	}
	model.hears("mate2", "flow guard", false)
	model.hears("mate5", "max_subagent_tokens_exceeded", true)
	var list string
	if list = s.command("flows", "ls"); strings.Contains(list, "  -     -  ") {
		t.Errorf("no tokens are known:\n%s", list)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	t.Logf("%s: %q ran\n%s\nof the last call of the subagent the model reads %.600s", s.client.installed(t), ran, s.transcript.String(), model.heard["toolu_mate5"])
}
