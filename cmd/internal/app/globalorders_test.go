package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/state"
)

// give puts a verdict into the log that another stage gives.
func (r *running) give(v events.Verdict) {
	r.t.Helper()
	if v.Mode == "" {
		v.Mode = "enforce"
	}
	if _, err := r.verdicts.Append([]state.Entry{{Value: v.AppendJSON(nil)}}); err != nil {
		r.t.Fatal(err)
	}
}

// tooMany is an order against those who call an agent, halted one against an agent.
func tooMany(agent string, revision int64, until time.Time) events.Verdict {
	ten := 10.0
	return events.Verdict{ID: fmt.Sprintf("00000000000000a1-%x", revision), Revision: revision, Scope: events.Scope{Kind: "agent", ID: agent}, Agent: agent,
		Action: "throttle", Effective: "next", Reason: events.AgentMessageRate, RuleID: "agent_message_rate", Limit: &ten, Observed: &ten, Unit: events.UnitMessages,
		ExpiresAt: events.RFC3339(events.StampOf(until)), RetryAfterS: 60, HTTPStatus: 429,
		Message: "Limit used up, the next call will be rejected: 10 messages", AgentMessage: "Wait.", Match: &events.Match{Kind: "agent.call", To: []string{agent}}}
}

func halted(agent string) events.Verdict {
	return events.Verdict{ID: "00000000000000a2-1", Revision: 1, Scope: events.Scope{Kind: "agent", ID: agent}, Agent: agent, Action: "halt",
		Effective: "now", Reason: events.OrdersDefied, HTTPStatus: 403, Message: "halted", AgentMessage: "Stop.", Match: &events.Match{From: []string{agent}}}
}

func TestOrdersOfAllFlowsRefuseAsks(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, Options{StateDir: dir, Limits: profile(t, "balanced")})
	sent := 0
	ask := func(flow, from, to string, more ...func(*events.Event)) reply {
		t.Helper()
		sent++
		ev := call(flow, sent, from, to)
		ev.From, ev.To = events.Party{Session: "s-" + from, Agent: from}, events.Party{Agent: to}
		for _, change := range more {
			change(ev)
		}
		return r.do("POST", "/v1/check", string(ev.AppendJSON(nil)))
	}
	id := func(id string) func(*events.Event) {
		return func(ev *events.Event) { ev.ID, ev.Time = id, events.StampOf(r.fake.Now()) }
	}
	r.want(ask("f1", "planner", "coder", id("first")), 200, `"action":"allow"`)

	r.give(tooMany("coder", 1, r.fake.Now().Add(40*time.Second)))
	before := len(r.journalLines())
	refused := ask("f2", "planner", "coder", id("second"))
	r.want(refused, 429, `"reason_code":"agent_message_rate_exceeded"`, `"limit":10,"observed":11`, `"instance":"urn:weir:verdict:00000000000000a1-1"`,
		`"detail":"Agent call rejected: 10 messages"`, `"retry_after_s":40`, `"correlation_id":"f2"`, `"agent_message":"Wait."`)
	if refused.header.Get("Retry-After") != "40" {
		t.Errorf("Retry-After %q", refused.header.Get("Retry-After"))
	}
	// The attempt stands in the log in place of the ask, and once for each id.
	r.want(ask("f2", "planner", "coder", id("second")), 429)
	got := r.journalLines()[before:]
	if len(got) != 2 || got[0] != got[1] {
		t.Fatalf("the journal got %q", got)
	}
	var ack events.Event
	if err := events.Decode([]byte(got[0]), &ack); err != nil {
		t.Fatal(err)
	}
	if ack.Kind != events.VerdictAck || !ack.Ack.Applied || ack.Ack.VerdictID != "00000000000000a1-1" || ack.CorrelationID != "f2" || ack.From.Agent != "planner" || ack.To.Agent != "coder" {
		t.Errorf("the attempt is %s", got[0])
	}
	r.want(ask("f1", "planner", "coder", id("first")), 429, "agent_message_rate")            // asked again: by what stands now
	r.want(ask("f2", "coder", "planner"), 200)                                               // by the agent that it calls
	r.want(ask("", "planner", "coder"), 429, "agent_message_rate")                           // without a flow
	r.want(ask("f3", "", "coder", func(ev *events.Event) { ev.From = events.Party{} }), 200) // a person

	r.give(events.Verdict{ID: "00000000000000a1-2", Revision: 2, Scope: events.Scope{Kind: "agent", ID: "coder"}, Action: "allow", Reason: events.AgentMessageRate})
	r.want(ask("f2", "planner", "coder"), 200)
	r.give(tooMany("coder", 3, r.fake.Now().Add(40*time.Second)))
	r.want(ask("f2", "planner", "coder"), 429)
	r.fake.Advance(41 * time.Second)
	r.want(ask("f2", "planner", "coder"), 200)

	for _, action := range []events.Action{"resume", "review", "archive", "notify", "warn"} {
		v := halted("tester")
		v.Action = action
		r.give(v)
	}
	r.want(ask("f4", "tester", "coder"), 200)
	project := halted("p")
	project.ID, project.Scope, project.Match = "00000000000000a3-1", events.Scope{Kind: "project", ID: "p"}, &events.Match{Kind: "agent.call", ProjectID: "p"}
	r.give(project)
	r.want(ask("f5", "a", "b", func(ev *events.Event) { ev.ProjectID = "p" }), 403, "orders_defied")
	r.want(ask("f5", "a", "b", func(ev *events.Event) { ev.ProjectID = "q" }), 200)

	// The orders are known again after a new start.
	r.give(halted("tester"))
	r.stop()
	again := begin(t, Options{StateDir: dir, Clock: r.fake})
	ev := call("f6", 1, "x", "y")
	ev.From = events.Party{Session: "x", Agent: "tester"}
	again.want(again.do("POST", "/v1/check", string(ev.AppendJSON(nil))), 403, "orders_defied")
}

// TestOrdersOfAllFlowsHoldForGateways asks by the other routes.
func TestOrdersOfAllFlowsHoldForGateways(t *testing.T) {
	r := begin(t, Options{Authz: true})
	r.give(halted("tester"))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{}}}`
	r.want(r.do("POST", "/authz/traefik", body, "Mcp-Session-Id", "s", "X-Agent-Id", "tester"), 403, "orders_defied")
	r.want(r.do("POST", "/authz/traefik", body, "Mcp-Session-Id", "s", "X-Agent-Id", "other"), 200)

	hook := map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": map[string]any{"command": "ls"}, "cwd": "/"}
	text, err := json.Marshal(hook)
	if err != nil {
		t.Fatal(err)
	}
	r.want(r.do("POST", "/v1/hook", string(text)), 200)
	lines := r.journalLines()
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"Bash"`) })
	var ev events.Event
	if at < 0 || events.Decode([]byte(lines[at]), &ev) != nil {
		t.Fatalf("the hook's call is not in the journal: %q", lines)
	}
	stop := halted(ev.From.ID())
	stop.ID = "00000000000000a4-1"
	r.give(stop)
	got := r.do("POST", "/v1/hook", strings.ReplaceAll(string(text), `"ls"`, `"pwd"`))
	r.want(got, 200, `"deny"`, "Stop.")
	if n := strings.Count(strings.Join(r.journalLines(), "\n"), `"verdict.ack"`); n != 2 {
		t.Errorf("%d attempts in the journal, want 2", n)
	}
}
