package guard

import (
	"fmt"
	"testing"
	"time"

	"weir/events"
)

// manyOrders is how many orders stand in the table that Check is measured with.
const manyOrders = 100_000

// loaded returns a guard that knows many orders, each of another flow.
func loaded(tb testing.TB) *Guard {
	g, err := newGuard(Options{URL: "http://weir.test", Quiet: true})
	if err != nil {
		tb.Fatal(err)
	}
	until := events.RFC3339(events.StampOf(time.Now().Add(time.Hour)))
	for i := range manyOrders {
		flow := fmt.Sprintf("flow-%08d", i)
		g.table.Take(&events.Verdict{ID: flow, Revision: 1, Mode: events.ModeEnforce, Action: "deny", Reason: events.PingPong, CorrelationID: flow,
			Scope: events.Scope{Kind: events.ScopePair, ID: "coder|planner"}, ExpiresAt: until,
			Match: &events.Match{Kind: "agent.call", Edges: []events.Edge{{From: "planner", To: "coder"}, {From: "coder", To: "planner"}}}})
	}
	g.becomeFresh()
	g.ticked.Store(int64(g.stamp())) // as a guard that runs does
	return g
}

func TestCheckAllocatesNothingAmongManyOrders(t *testing.T) {
	g := loaded(t)
	f := func(c Call, stopped bool) {
		t.Helper()
		if d := g.Check(t.Context(), c); d.Stopped() != stopped {
			t.Errorf("%+v: stopped %v", c, d.Stopped())
		}
		if n := testing.AllocsPerRun(1000, func() { g.Check(t.Context(), c) }); n > 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
	}
	f(Call{Flow: "flow-00050000", From: "planner", To: "coder"}, true)
	f(Call{Flow: "flow-00050000", From: "planner", To: "tester"}, false)
	f(Call{Flow: "no such flow", From: "planner", To: "coder"}, false)
	// Orders about agents, of which there may be as many.
	for i := range manyOrders / 10 {
		name := fmt.Sprintf("agent-%08d", i)
		g.table.Take(&events.Verdict{ID: name, Revision: 2, Mode: events.ModeEnforce, Action: "throttle", Reason: events.AgentMessageRate, Scope: events.Scope{Kind: events.ScopeAgent, ID: name},
			Match: &events.Match{Kind: "agent.call", To: []string{name}}})
	}
	f(Call{Flow: "no such flow", From: "planner", To: "agent-00005000"}, true)
	f(Call{Flow: "no such flow", From: "agent-00005000", To: "coder"}, false)
	g.o.Quiet = false
	f(Call{Flow: "flow-00050000", From: "planner", To: "coder"}, true) // also when no goroutine takes the acknowledgements
}

func BenchmarkCheck(b *testing.B) {
	g := loaded(b)
	f := func(name string, c Call) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Check(b.Context(), c)
			}
		})
	}
	f("none", Call{Flow: "no such flow", From: "planner", To: "coder"})
	f("other", Call{Flow: "flow-00050000", From: "planner", To: "tester"})
	f("refused", Call{Flow: "flow-00050000", From: "planner", To: "coder"})
	g.table.Take(&events.Verdict{ID: "wide", Revision: 2, Mode: events.ModeEnforce, Action: "halt", Reason: events.OrdersDefied, Scope: events.Scope{Kind: events.ScopeAgent, ID: "halted"}})
	f("beside orders of all flows", Call{Flow: "no such flow", From: "planner", To: "coder"})
	b.Run("parallel", func(b *testing.B) {
		c := Call{Flow: "no such flow", From: "planner", To: "coder"}
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				g.Check(b.Context(), c)
			}
		})
	})
}

func BenchmarkTake(b *testing.B) {
	g := loaded(b)
	for i := 0; b.Loop(); i++ {
		g.table.Take(&events.Verdict{Revision: int64(i + 2), Mode: events.ModeEnforce, Action: "deny", Reason: events.PingPong, CorrelationID: "flow-00050000", Scope: events.Scope{Kind: events.ScopePair, ID: "coder|planner"}})
	}
}
