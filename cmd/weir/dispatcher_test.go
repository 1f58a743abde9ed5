package main

import (
	"testing"

	"weir/events"
)

func TestRefuses(t *testing.T) {
	hash := func(s string) events.Hash {
		h, err := events.ParseHash(s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	call := events.Event{Kind: events.AgentCall, CorrelationID: "f", From: events.Party{Session: "s1", Agent: "a"}, To: events.Party{Agent: "b"},
		Content: hash("xxh64:0123456789abcdef"), TurnID: "t1", TaskID: "k", Time: 1000}
	tool := events.Event{Kind: events.ToolCall, CorrelationID: "f", From: call.From, Tool: events.Tool{Name: "search", ArgsHash: hash("sha256:0123456789abcdef")}}
	f := func(ev events.Event, want bool, scope events.Scope, m *events.Match) {
		t.Helper()
		if got := refuses(&events.Verdict{Scope: scope, Match: m}, &ev); got != want {
			t.Errorf("%+v: %v, want %v", m, got, want)
		}
	}
	flow := events.Scope{Kind: "flow", ID: "f"}
	f(call, true, flow, nil)
	f(call, true, flow, &events.Match{})
	f(call, true, flow, &events.Match{Kind: "agent.call"})
	f(call, false, flow, &events.Match{Kind: "tool.call"})
	f(call, true, flow, &events.Match{From: []string{"x", "a"}, To: []string{"b"}})
	f(call, true, flow, &events.Match{From: []string{"s1"}})
	f(call, false, flow, &events.Match{From: []string{"x"}})
	f(call, false, flow, &events.Match{NotTo: []string{"b"}})
	f(call, true, flow, &events.Match{NotTo: []string{"c"}})
	f(call, true, flow, &events.Match{Edges: []events.Edge{{From: "b", To: "a"}, {From: "a", To: "b"}}})
	f(call, false, flow, &events.Match{Edges: []events.Edge{{From: "b", To: "a"}}})
	f(call, true, flow, &events.Match{ContentHash: []string{"xxh64:01234567"}})
	f(call, false, flow, &events.Match{ContentHash: []string{"sha256:0123456789abcdef"}})
	f(call, true, flow, &events.Match{TurnID: "t1", TaskID: "k"})
	f(call, false, flow, &events.Match{NotTurnID: "t1"})
	f(call, true, flow, &events.Match{NotTurnID: "t0"})
	f(tool, true, flow, &events.Match{Tool: []string{"search"}, ArgsHash: []string{"sha256:0123456789abcdef00"}})
	f(tool, false, flow, &events.Match{Tool: []string{"fetch"}})
	f(tool, false, flow, &events.Match{NotTurnID: "t1"}) // of no turn at all
	f(call, true, events.Scope{Kind: "session", ID: "a"}, nil)
	f(call, false, events.Scope{Kind: "session", ID: "b"}, nil)
	f(call, false, events.Scope{Kind: "task", ID: "other"}, nil)
}

func TestOrders(t *testing.T) {
	o := orders{}
	v := events.Verdict{ID: "1", CorrelationID: "f", Mode: "enforce", Action: "deny", Reason: events.SelfCall, Scope: events.Scope{Kind: "flow", ID: "f"}, ExpiresAt: 5000}
	call := events.Event{Kind: events.ToolCall, CorrelationID: "f", Time: 1000}
	f := func(want bool, what string) {
		t.Helper()
		if got := o.refusing(&call) != nil; got != want {
			t.Errorf("%s: refused %v, want %v", what, got, want)
		}
	}
	f(false, "nothing stands")
	shadow := v
	shadow.Mode = "shadow"
	o.take(&shadow)
	f(false, "a shadow")
	o.take(&v)
	f(true, "an order")
	call.Time = 5000
	f(false, "it has expired")
	call.Time = 1000
	call.Origin = events.OriginUser
	f(false, "a user")
	call.Origin = events.OriginUnset
	call.CorrelationID = "g"
	f(false, "another flow")
	call.CorrelationID = "f"
	v.Action = "allow"
	o.take(&v)
	f(false, "it was cleared")
}
