package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRulesShowHold requires that weir rules reports the action of the limits file, and what waits.
func TestRulesShowHold(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	text := `profile: balanced
rules:
  max_tool_calls: {max: 5, action: hold}
  max_subagent_calls: {max: 2, action: hold}
  max_tree_calls: {max: 9, action: hold}
  max_tree_spawns: {max: 3, action: hold}
  max_cost_usd: {max: 5}
subagents:
- {kind: "Explore*", max_duration: 5m, action: hold}
orders: {hold: 30m}
`
	if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string][3]string{
		"max_tool_calls":        {"hold", "flow", "hold, for the flow, HTTP 402\nwaits        for a person, at most 30m; then the flow is halted"},
		"max_subagent_calls":    {"hold", "session", "hold, for the refused calls alone, HTTP 402\nwaits        for a person, at most 30m; then the calls are denied"},
		"max_tree_calls":        {"hold", "tree", "hold, for the tree, HTTP 402\nwaits        for a person, at most 30m; then the tree is halted"},
		"max_tree_spawns":       {"hold", "flow", "hold, for the flow, HTTP 403\nwaits        for a person; the caller checks again each minute"},
		"max_cost_usd":          {"halt", "flow", "halt, for the flow, HTTP 402\nmode"},
		"max_subagent_duration": {"deny", "session", "hold, for the refused calls alone, HTTP 402, of kinds Explore*\nwaits        for a person, at most 30m"},
	} {
		_, out, errs := weir(t, "", "rules", "show", rule, "--limits", limits)
		if errs != "" || !strings.Contains(out, want[2]) {
			t.Errorf("%s: %s%s", rule, out, errs)
		}
		_, out, errs = weir(t, "", "rules", "show", rule, "--limits", limits, "-o", "json")
		var v struct{ Action, Scope string }
		if err := json.Unmarshal([]byte(out), &v); err != nil || errs != "" || v.Action != want[0] || v.Scope != want[1] {
			t.Errorf("%s: %v: %s%s", rule, err, out, errs)
		}
	}
	_, out, errs := weir(t, "", "rules", "ls", "--limits", limits, "-o", "json")
	for line := range strings.Lines(out) {
		var v struct{ Name, Action string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if hold := v.Action == "hold"; hold != (v.Name == "max_tool_calls" || v.Name == "max_subagent_calls" || v.Name == "max_tree_calls" || v.Name == "max_tree_spawns") {
			t.Errorf("%s %s: %s", v.Name, v.Action, errs)
		}
	}
}
