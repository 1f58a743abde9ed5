package clients

import (
	"strings"
	"testing"
)

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
