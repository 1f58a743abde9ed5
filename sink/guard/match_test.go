package guard_test

import (
	"testing"

	"weir/events"
	"weir/sink/guard"
)

func TestMatches(t *testing.T) {
	call := guard.Call{Flow: "f", From: "s1", FromAgent: "a", To: "b", ContentHash: "xxh64:0123456789abcdef", Turn: "t1", Task: "k"}
	tool := guard.Call{Flow: "f", From: "s1", FromAgent: "a", Tool: "search", ArgsHash: "sha256:0123456789abcdef"}
	f := func(c guard.Call, want bool, scope events.Scope, m *events.Match) {
		t.Helper()
		if got := guard.Matches(&events.Verdict{CorrelationID: "f", Scope: scope, Match: m}, &c); got != want {
			t.Errorf("%+v %+v: %v, want %v", scope, m, got, want)
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
	f(call, false, flow, &events.Match{To: []string{"x"}})
	f(call, false, flow, &events.Match{NotFrom: []string{"s1"}})
	f(call, false, flow, &events.Match{NotTo: []string{"b"}})
	f(call, true, flow, &events.Match{NotTo: []string{"c"}})
	f(call, true, flow, &events.Match{Edges: []events.Edge{{From: "b", To: "a"}, {From: "a", To: "b"}}})
	f(call, false, flow, &events.Match{Edges: []events.Edge{{From: "b", To: "a"}}})
	f(call, true, flow, &events.Match{ContentHash: []string{"xxh64:01234567"}})
	f(call, false, flow, &events.Match{ContentHash: []string{"sha256:0123456789abcdef"}})
	f(call, true, flow, &events.Match{TurnID: "t1", TaskID: "k"})
	f(call, false, flow, &events.Match{NotTurnID: "t1"})
	f(call, true, flow, &events.Match{NotTurnID: "t0"})
	f(call, false, flow, &events.Match{ConversationID: "c"})
	f(tool, true, flow, &events.Match{Tool: []string{"search"}, ArgsHash: []string{"sha256:0123456789abcdef00"}})
	f(tool, false, flow, &events.Match{Tool: []string{"fetch"}})
	f(tool, false, flow, &events.Match{NotTurnID: "t1"}) // of no turn at all
	f(call, true, events.Scope{Kind: "session", ID: "a"}, nil)
	f(call, false, events.Scope{Kind: "session", ID: "b"}, nil)
	f(call, false, events.Scope{Kind: "task", ID: "other"}, nil)
	f(call, true, events.Scope{Kind: "pair", ID: "a|b"}, nil)
	f(call, false, events.Scope{Kind: "pair", ID: "a|c"}, nil)
	f(call, false, events.Scope{Kind: "galaxy", ID: "f"}, nil)
	other := call
	other.Flow = "g"
	f(other, false, flow, nil)
}

func TestTable(t *testing.T) {
	var table guard.Table
	v := events.Verdict{ID: "1", Revision: 1, CorrelationID: "f", Mode: "enforce", Action: "deny", Reason: events.SelfCall, Scope: events.Scope{Kind: "flow", ID: "f"}, ExpiresAt: 5000}
	call := guard.Call{Flow: "f", From: "a", Tool: "x"}
	now := events.Stamp(1000)
	f := func(want string, orders int, what string) {
		t.Helper()
		got := ""
		if v := table.Refusing(&call, now); v != nil {
			got = v.ID
		}
		if got != want || table.Len() != orders {
			t.Errorf("%s: refused by %q with %d orders, want %q with %d", what, got, table.Len(), want, orders)
		}
	}
	take := func(change func(*events.Verdict)) {
		other := v
		change(&other)
		table.Take(&other)
	}
	f("", 0, "nothing stands")
	take(func(v *events.Verdict) { v.Mode = "shadow" })
	take(func(v *events.Verdict) { v.Action = "warn" })
	f("", 0, "a shadow and a warning")
	take(func(*events.Verdict) {})
	f("1", 1, "an order")
	take(func(v *events.Verdict) { v.ID, v.Revision, v.Reason = "0", 2, events.MaxTotalCalls })
	f("1", 2, "of two the first that was given")
	take(func(v *events.Verdict) { v.ID, v.Revision = "3", 3 })
	f("0", 2, "a later revision takes the place of the order")
	take(func(v *events.Verdict) { v.ID, v.Revision = "4", 2 })
	f("0", 2, "an earlier revision is passed over")
	take(func(v *events.Verdict) { v.Action, v.Revision = "allow", 2 })
	f("0", 2, "so is an earlier clearance")
	now = 5000
	f("", 2, "they have expired")
	now = 1000
	call.Origin = events.OriginUser
	f("", 2, "a person")
	call.Origin = events.OriginUnset
	call.Flow = "g"
	f("", 2, "another flow")
	call.Flow = "f"
	take(func(v *events.Verdict) { v.Action, v.Revision, v.Reason = "allow", 9, events.MaxTotalCalls })
	f("3", 1, "one was cleared")
	table.Sweep(4999)
	f("3", 1, "swept too early")
	table.Sweep(5000)
	f("", 0, "swept")

	wide := func(id string, scope events.Scope, m *events.Match, reason events.Reason) {
		table.Take(&events.Verdict{ID: id, Revision: 1, Mode: "enforce", Action: "throttle", Reason: reason, Scope: scope, Match: m})
	}
	call = guard.Call{Flow: "f", From: "a", To: "s9", ToAgent: "coder", Project: "p"}
	wide("to", events.Scope{Kind: "agent", ID: "coder"}, nil, events.AgentMessageRate)
	f("to", 1, "an order about all who call an agent")
	call.To, call.ToAgent, call.From = "b", "", "coder"
	f("", 1, "not about those whom it calls")
	wide("from", events.Scope{Kind: "agent", ID: "coder"}, nil, events.MaxCost)
	f("from", 2, "an order about an agent")
	call.From = "a"
	wide("pair", events.Scope{Kind: "pair", ID: "a|b"}, nil, events.PingPong)
	f("pair", 3, "an order about a pair in all flows")
	call.To = "c"
	wide("project", events.Scope{Kind: "project", ID: "p"}, nil, events.MaxCost)
	f("project", 4, "an order about a project")
	call.Project = ""
	call.Conversation, call.Tenant = "chat", "acme"
	woken := func(id, tenant string) {
		table.Take(&events.Verdict{ID: id, Revision: 1, Mode: "enforce", Action: "throttle", Reason: events.RepeatedWakes, TenantID: tenant,
			Scope: events.Scope{Kind: "agent", ID: "a"}, Match: &events.Match{Kind: "agent.call", From: []string{"c", "a"}, ConversationID: "chat"}})
	}
	woken("00000000000000c1-1", "rival")
	f("", 5, "not about a conversation of another tenant")
	woken("00000000000000c2-1", "")
	f("", 6, "nor about one of no tenant")
	woken("00000000000000c3-1", "acme")
	f("00000000000000c3-1", 7, "an order about a conversation of the tenant")
	call.Conversation, call.Tenant = "", ""
	for _, id := range []string{"00000000000000c1-2", "00000000000000c2-2", "00000000000000c3-2"} {
		table.Take(&events.Verdict{ID: id, Revision: 2, Mode: "enforce", Action: "allow", Reason: events.RepeatedWakes, Scope: events.Scope{Kind: "agent", ID: "a"}})
	}
	wide("flow", events.Scope{Kind: "flow", ID: "f"}, nil, events.MaxCost)
	f("flow", 5, "an order that names its flow as scope alone")
	for _, scope := range []events.Scope{{Kind: "agent", ID: "coder"}, {Kind: "pair", ID: "a|b"}, {Kind: "project", ID: "p"}, {Kind: "flow", ID: "f"}} {
		for _, reason := range []events.Reason{events.AgentMessageRate, events.MaxCost, events.PingPong} {
			table.Take(&events.Verdict{ID: "c", Revision: 2, Mode: "enforce", Action: "allow", Reason: reason, Scope: scope})
		}
	}
	f("", 0, "all are cleared")
}

func TestCallOf(t *testing.T) {
	f := func(ev events.Event, want guard.Call, ok bool) {
		t.Helper()
		if got, is := guard.CallOf(&ev); got != want || is != ok {
			t.Errorf("%+v %v, want %+v %v", got, is, want, ok)
		}
	}
	f(events.Event{Kind: events.AgentReturn}, guard.Call{}, false)
	f(events.Event{Kind: events.AgentCall, To: events.Party{Agent: "b"}}, guard.Call{}, false) // a person's
	f(events.Event{Kind: events.AgentCall, CorrelationID: "f", From: events.Party{Session: "s", Agent: "a"}, To: events.Party{Agent: "b"}},
		guard.Call{Flow: "f", From: "s", FromAgent: "a", To: "b", ToAgent: "b", Origin: events.OriginAgent}, true)
	f(events.Event{Kind: events.ToolCall, Tool: events.Tool{Name: "x", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: 1}}},
		guard.Call{Tool: "x", ArgsHash: "xxh64:0000000000000001", Origin: events.OriginAgent}, true)
}
