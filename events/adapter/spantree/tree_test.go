package spantree

import (
	"fmt"
	"testing"
	"time"

	"weir/events"
	"weir/events/adapter"
)

// TestBounds holds that neither a trace without end nor traces without number make
// the tree grow, whatever is missing in them, and that nothing is lost for it.
func TestBounds(t *testing.T) {
	const most, runs = 400, 20_000
	f := func(name string, run func(i int) (string, Span)) {
		t.Helper()
		told := 0
		tree := New(adapter.Options{MaxHeld: most}, "test")
		emit := func(e *events.Event) {
			if e.Kind == events.ToolCall {
				told++
			}
		}
		for i := range runs {
			id, r := run(i)
			tree.Name(id, Names{Conversation: "c"})
			tree.Add(id, r)
			tree.Settle(emit)
			held := tree.traces.Len()
			for _, tr := range tree.traces.All() {
				held += len(tr.spans)
				if len(tr.awaited) > most || len(tr.pending) > 2*most || len(tr.said) > maxParties || len(tr.last) > maxParties || tr.worked.Len() > maxParties {
					t.Fatalf("%s: run %d: %d awaited, %d pending", name, i, len(tr.awaited), len(tr.pending))
				}
			}
			if held != tree.held || held > most+1 {
				t.Fatalf("%s: run %d: %d held, %d counted, want at most %d", name, i, held, tree.held, most)
			}
		}
		tree.Flush(emit)
		if told != runs || tree.held != 0 {
			t.Errorf("%s: %d calls told of %d, %d still held", name, told, runs, tree.held)
		}
	}
	tool := func(i int, parent string) Span {
		return Span{ID: fmt.Sprint("r", i), Parent: parent, Kind: Tool, Tool: events.Tool{Name: "x"}, Start: int64(i) * 1000, End: int64(i)*1000 + 500}
	}
	f("one trace whose root never comes", func(i int) (string, Span) { return "t", tool(i, "root") })
	f("one trace of orphans", func(i int) (string, Span) { return "t", tool(i, fmt.Sprint("p", i)) })
	f("one trace of roots", func(i int) (string, Span) { return "t", tool(i, "") })
	f("many traces", func(i int) (string, Span) { return fmt.Sprint("t", i), tool(i, "root") })
	f("a chain", func(i int) (string, Span) { return "t", tool(i, fmt.Sprint("r", i-1)) })
	f("a chain upside down", func(i int) (string, Span) { return "t", tool(i, fmt.Sprint("r", i+1)) })
	f("tools that do not end", func(i int) (string, Span) {
		r := tool(i, "")
		r.End = 0
		return "t", r
	})
}

// TestHold holds that a span without a parent is emitted when it has been held back long enough,
// and not before.
func TestHold(t *testing.T) {
	tree := New(adapter.Options{Hold: time.Second}, "test")
	told := 0
	at := func(ms int64) {
		tree.Add("t", Span{ID: fmt.Sprint(ms), Parent: "never", Kind: Tool, Tool: events.Tool{Name: "x"}, Start: ms * 1000, End: ms*1000 + 1})
		tree.Settle(func(*events.Event) { told++ })
	}
	at(1)
	at(1000)
	if told != 0 {
		t.Errorf("%d events before the time", told)
	}
	at(1600)
	if told != 2 {
		t.Errorf("%d events after the time, want the call and the result of the first run", told)
	}
}

// TestLoops holds that spans that lie inside each other in a circle are emitted.
func TestLoops(t *testing.T) {
	tree := New(adapter.Options{}, "test")
	told := 0
	emit := func(*events.Event) { told++ }
	for i, r := range []Span{{ID: "a", Parent: "b", Kind: Agent, Agent: "x"}, {ID: "b", Parent: "c", Kind: Node, Agent: "y"}, {ID: "c", Parent: "a", Kind: Tool},
		{ID: "d", Parent: "d", Kind: Inference, Usage: events.Usage{Known: true}}, {ID: "e", Parent: "c", Kind: Handoff, To: "z"}} {
		r.Start, r.End = int64(i+1)*1000, int64(i+9)*1000
		tree.Add("t", r)
		tree.Settle(emit)
	}
	tree.Flush(emit)
	if told == 0 {
		t.Error("nothing told")
	}
}

// TestOldestIsOfTheFlowsAround holds that the trace which a flow descends from is read again as
// long as the flow is open, and the other way round.
func TestOldestIsOfTheFlowsAround(t *testing.T) {
	const second = int64(time.Second / time.Microsecond)
	f := func(name string, order ...string) {
		t.Helper()
		tree := New(adapter.Options{}, "test")
		emit := func(*events.Event) {}
		add := func(place int64, trace string, r Span, at int64) {
			tree.At(place)
			r.Kind, r.Agent, r.Start, r.End = Agent, trace, at*second, at*second+1
			tree.Add(trace, r)
			tree.Settle(emit)
		}
		spans := map[string]Span{"above": {ID: "1", Parent: "0"}, "below": {ID: "2", Parent: "1"}}
		for i, trace := range order {
			add(int64(i), trace, spans[trace], int64(i+1))
		}
		// Only the trace that came last goes on, until the first is forgotten.
		last := order[len(order)-1]
		add(2, last, Span{ID: "3", Parent: spans[last].ID}, 25)
		add(3, "else", Span{ID: "4"}, 45)
		if tree.traces.Len() != 2 {
			t.Fatalf("%s: %d traces are remembered, want 2", name, tree.traces.Len())
		}
		if place, ok := tree.Oldest(); place != 0 || !ok {
			t.Errorf("%s: from %d, %t; want 0", name, place, ok)
		}
	}
	f("the one below goes on", "above", "below")
	f("the one above goes on", "below", "above")
}

// TestForgottenWorkIsUnknown has more agents work than are remembered, before the first of them
// calls another.
func TestForgottenWorkIsUnknown(t *testing.T) {
	tree := New(adapter.Options{}, "test")
	got := []events.Tri(nil)
	emit := func(e *events.Event) {
		if e.Kind == events.AgentCall && e.From.Agent == "a0" {
			got = append(got, e.HadWork)
		}
	}
	tree.Add("t", Span{ID: "root", Kind: Agent, Agent: "a0", Start: 1, End: 1_000_000})
	for i := range 2 * maxParties {
		at := int64(i+1) * 10
		tree.Add("t", Span{ID: fmt.Sprint(i), Parent: "root", Kind: Tool, Agent: fmt.Sprint("a", i), Tool: events.Tool{Name: "x"}, Start: at, End: at + 5})
	}
	tree.Add("t", Span{ID: "last", Parent: "root", Kind: Agent, Agent: "z", Start: 900_000, End: 900_001})
	tree.Settle(emit)
	tree.Flush(emit)
	if len(got) != 1 || got[0] != events.Unknown {
		t.Errorf("%v, want one call of which nothing is known", got)
	}
}

// TestWildTimes holds that spans whose parent never comes are emitted about a hold after they
// came. Wrong times of single other spans do not change that, and these emit nothing early.
func TestWildTimes(t *testing.T) {
	const spans, year9999 = 600, 253402300799000000
	for name, wild := range map[string]func(now int64) (at int64, ok bool){
		"none":            func(int64) (int64, bool) { return 0, false },
		"one far ahead":   func(now int64) (int64, bool) { return year9999, now%100_000_000 == 0 },
		"one of 1970":     func(now int64) (int64, bool) { return 1000, now%100_000_000 == 0 },
		"one of four":     func(now int64) (int64, bool) { return year9999, now%4_000_000 == 0 },
		"another machine": func(now int64) (int64, bool) { return now + 3_600_000_000, now%4_000_000 == 0 },
	} {
		told := map[string]bool{}
		tree := New(adapter.Options{}, "test")
		emit := func(e *events.Event) { told[e.CorrelationID] = true }
		add := func(id string, at int64) {
			tree.Add(id, Span{ID: id, Parent: "root of " + id, Kind: Tool, Tool: events.Tool{Name: "x"}, Start: at, End: at + 500})
			tree.Settle(emit)
		}
		early := 0
		for i := range spans {
			now := 1771900000000000 + int64(i)*1_000_000
			add(fmt.Sprint("t", i), now)
			if at, ok := wild(now); ok {
				add(fmt.Sprint("w", i), at)
			}
			if told[fmt.Sprint("t", i)] || told[fmt.Sprint("t", max(0, i-28))] {
				early++
			}
		}
		late := 0
		for i := range spans - 40 {
			if !told[fmt.Sprint("t", i)] {
				late++
			}
		}
		if early+late > 0 {
			t.Errorf("%s: %d spans told early and %d not yet, of %d", name, early, late, spans)
		}
	}
}
