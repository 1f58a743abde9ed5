package app

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/guard"
)

// heldAnswers are what a held call gets by each way to check: member is how the answer gives the end.
func (h hand) heldAnswers(t *testing.T, kind string, line func() string, until func(string) bool) {
	t.Helper()
	for name, got := range map[string]reply{
		"request": h.do("POST", "/v1/check", line()),
		"bare":    h.do("POST", "/v1/check?deny=bare", line()),
		"batch":   h.do("POST", "/v1/check", line()+"\n", "Content-Type", "application/x-ndjson"),
		"stream":  h.do("POST", "/v1/check/stream", line()+"\n", "Content-Type", "application/x-ndjson"),
	} {
		if name == "request" || name == "bare" {
			h.wantHeld(t, kind+" by "+name, got, `"held_until":"([^"]*)"`, true, until)
			continue
		}
		h.wantHeld(t, kind+" by "+name, got, `"held_until":"([^"]*)"`, false, until)
	}
}

// wantHeld requires that an answer gives the end of the hold, and invites to no retry.
func (h hand) wantHeld(t *testing.T, what string, got reply, member string, headers bool, until func(string) bool) {
	t.Helper()
	found := regexp.MustCompile(member).FindStringSubmatch(got.body)
	if found == nil || !until(found[1]) || strings.Contains(got.body, "retry_after_s") {
		t.Errorf("%s: %d %s", what, got.status, got.body)
		return
	}
	if headers && (got.header.Get("Weir-Held-Until") != found[1] || got.header.Get("Retry-After") != "" || got.header.Get("X-Should-Retry") != "false") {
		t.Errorf("%s: headers %v", what, got.header)
	}
}

// TestHeldAnswersGiveTheEnd requires the end of each kind of hold in the answers of each entrance.
func TestHeldAnswersGiveTheEnd(t *testing.T) {
	tool := func(ev *events.Event) {
		ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "ls"
	}
	for kind, x := range map[string]struct {
		limits  string
		allowed int
		change  func(ev *events.Event)
		after   time.Duration // of the end; 0: that of the day
	}{
		"a rule":            {"rules: {max_tool_calls: {max: 1, action: hold}}", 1, tool, 63 * time.Minute},
		"a spawn":           {"rules: {max_spawns: {stop: 1, action: hold}}", 0, func(*events.Event) {}, 63 * time.Minute},
		"a tree":            {"rules: {max_tree_calls: {max: 1, action: hold}}", 1, tool, 63 * time.Minute},
		"a spawn of a tree": {"rules: {max_tree_spawns: {stop: 1, action: hold}}", 0, func(ev *events.Event) { ev.ParentCorrelationID, ev.RootCorrelationID = "root", "root" }, time.Minute},
		"a budget":          {"budgets: [{name: b, scope: all, measure: calls, window: day, hard: 1, action: hold}]", 1, tool, 0},
		"a rolling budget":  {"budgets: [{name: b, scope: all, measure: calls, window: day, hard: 1, rolling: true, action: hold}]", 1, tool, 24 * time.Hour},
	} {
		limits, err := limitfile.Parse("limits.yaml", []byte("profile: none\n"+x.limits+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		fake := clock.NewFake()
		h := beginHand(t, Options{Limits: limits, Clock: fake})
		line := func() string { return startOf(h, "f", x.change) }
		for range x.allowed {
			h.want(h.do("POST", "/v1/check", line()), 200)
		}
		now := fake.Now().UTC()
		end := now.Add(x.after)
		if x.after == 0 {
			end = now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		h.heldAnswers(t, kind, line, func(text string) bool {
			is, err := time.Parse(time.RFC3339, text)
			return err == nil && is.Sub(end).Abs() <= 25*time.Minute && is.After(now) // a rolling window frees its oldest sixtieth
		})
	}
}

// TestHeldSpend holds a flow by what it has spent.
func TestHeldSpend(t *testing.T) {
	limits, err := limitfile.Parse("limits.yaml", []byte("profile: none\nrules: {max_cost_usd: {max: 0.1, action: hold}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := beginHand(t, Options{Limits: limits, Clock: clock.NewFake()})
	line := func() string { return startOf(h, "f", func(*events.Event) {}) }
	h.want(h.do("POST", "/v1/check", line()), 200)
	h.want(h.do("POST", "/v1/events", `{"id":"m","kind":"llm.call","correlation_id":"f","from":{"agent":"a-f"},"model":"m","usage":{"cost_usd":0.2}}`), 202)
	eventually(t, "the hold", func() bool { return h.do("POST", "/v1/check", line()).status == 402 })
	h.heldAnswers(t, "spend", line, func(text string) bool { _, err := time.Parse(time.RFC3339, text); return err == nil })
}

// TestHeldAtGatewaysAndHooks has gateways, hooks and guards of SDKs give the end of a hold.
func TestHeldAtGatewaysAndHooks(t *testing.T) {
	limits, err := limitfile.Parse("limits.yaml", []byte("profile: none\nrules: {max_tool_calls: {stop: 1, action: hold}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := beginHand(t, Options{Authz: true, AuthzGRPC: "127.0.0.1:0", Limits: limits, Clock: clock.NewFake()})
	const mcp = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}`
	valid := func(text string) bool { _, err := time.Parse(time.RFC3339, text); return err == nil }
	const member, sentence = `"held_until":"([^"]*)"`, `The hold ends at ([^ ]*) at the latest`
	for _, gateway := range []string{"envoy/x", "traefik", "caddy", "nginx"} {
		for _, format := range []string{"problem", "bare"} {
			got := h.do("POST", "/authz/"+gateway, mcp, "X-Correlation-Id", "f", "X-Forwarded-Method", "POST", "X-Original-Method", "POST", "X-Forwarded-Uri", "/x", "X-Original-Uri", "/x",
				"Content-Type", "application/json", "Weir-Deny", format)
			h.wantHeld(t, gateway+" "+format, got, member, true, valid)
		}
	}
	for name, body := range map[string]string{
		"Claude Code": `{"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"Codex":       `{"session_id":"s2","turn_id":"1","hook_event_name":"PreToolUse","tool_name":"shell","tool_input":{"command":"ls"}}`,
	} {
		h.wantHeld(t, name, h.do("POST", "/v1/hook", body), sentence, false, valid)
	}
	got := h.do("POST", "/api/v1/hooks:evaluate", fmt.Sprintf(`{"context":{"agent_name":"a","conversation_id":"c","model":{"provider":"p","name":"m"}},%s}`,
		`"phase":"postflight","input":{"output":[{"role":"assistant","parts":[{"tool_call":{"name":"search","input_json":{}}}]}]}`))
	h.wantHeld(t, "evaluate", got, sentence, false, valid)
	for n := range 2 { // by an answer, and perhaps by the order
		d := h.guardOf("a dispatcher").Ask(t.Context(), guard.Call{Flow: "g", From: "a", Tool: "t", CallID: fmt.Sprint(n)})
		if stop, ok := errors.AsType[*guard.Stop](d.Err()); !ok || stop.HeldUntil.IsZero() || stop.RetryAfter != 0 || stop.Advice != guard.AskUser {
			t.Errorf("the guard decides %+v", d)
		}
	}
}
