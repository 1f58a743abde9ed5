package analyzer

import (
	"fmt"
	"slices"
	"testing"

	"weir/events"
)

// Orders keep the memory of their lists when they go, and no two may share it: the
// next order to come would write into the lists of one that stands.
func TestOrdersAreApart(t *testing.T) {
	fill := func(f *Flow) {
		for i := range uint8(4) {
			o := f.addOrder()
			o.rule, o.a, o.b = RulePingPongSame, i, i+1
			o.edges = append(o.edges, edge{i, i + 1}, edge{i + 1, i})
			o.calls = append(o.calls, callRef{tool: i}, callRef{tool: i + 1})
		}
	}
	check := func(what string, f *Flow) {
		t.Helper()
		var before []string
		for i := range f.orders {
			before = append(before, fmt.Sprint(f.orders[i].edges, f.orders[i].calls))
		}
		n := len(f.orders)
		for len(f.orders) < n+4 {
			o := f.addOrder()
			o.edges = append(o.edges, edge{9, 9}, edge{9, 9})
			o.calls = append(o.calls, callRef{tool: 9}, callRef{tool: 9})
		}
		var after []string
		for i := range before {
			after = append(after, fmt.Sprint(f.orders[i].edges, f.orders[i].calls))
		}
		if n == 0 || !slices.Equal(before, after) {
			t.Errorf("%s: %d orders stand,\nbefore others come %v\nand after that     %v", what, n, before, after)
		}
	}

	for party := range uint8(5) {
		var f Flow
		f.Reset("f")
		for i := range 6 {
			f.addParty().name = fmt.Sprint("p", i)
		}
		fill(&f)
		f.forgetParty(party)
		check(fmt.Sprint("party ", party, " is forgotten"), &f)
	}
	for i := range 4 {
		var f Flow
		f.Reset("f")
		fill(&f)
		f.dropOrder(i)
		check(fmt.Sprint("order ", i, " ends"), &f)
	}
	for keep := range 4 { // a person's word outlives the longest episode
		var f Flow
		f.Reset("f")
		fill(&f)
		f.orders[keep].rule, f.orders[keep].Expires = RuleOperator, 1<<50
		f.events, f.start, f.last, f.clock = 1, 1, 1, 1
		e := New(Balanced())
		ev := events.Event{ID: "late", Kind: events.AgentCall, Time: 1 + events.Stamp(e.limits.Flow.MaxAge.Milliseconds())*2, CorrelationID: "f"}
		var fx Effects
		fx.m.begin(ev.Time)
		fx.m.ev, fx.m.when = &ev, ev.Time
		e.beginEpisode(&f, &fx.m, &fx)
		check(fmt.Sprint("order ", keep, " outlives the episode"), &f)
	}
}
