package analyzer

import (
	"strings"
	"testing"

	"weir/events"
)

func TestKindsFitPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, kind string
		want          bool
	}{
		{"Explore", "Explore", true}, {"Explore", "Explorer", false}, {"*", "", true}, {"*", "anything", true},
		{"Explore*", "Explorer", true}, {"*er", "Explorer", true}, {"*er", "err", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "abc", true},
		{"a*b*c", "acb", false}, {"a*a", "a", false}, {"*x*", "axa", true}, {"**", "a", true}, {"tool:*", "tool:reviewer", true},
	} {
		if got := fits(c.pattern, c.kind); got != c.want {
			t.Errorf("%q fits %q: %v, want %v", c.kind, c.pattern, got, c.want)
		}
	}
}

// TestViewNamesTheSubagent holds a view to name the party that an order is about, also without an event at hand.
func TestViewNamesTheSubagent(t *testing.T) {
	l := Balanced()
	l.Subagents = []KindLimits{{Kind: "Exp*", Most: [jobRows]events.Optional{{Set: true, Value: 1}}}}
	e, f := New(l), new(Flow)
	var p Partition
	sub := events.Party{Session: "s1", Agent: "Explore"}
	for i, ev := range []events.Event{
		{Kind: events.AgentCall, From: events.Party{Agent: "lead"}, To: sub},
		{Kind: events.ToolCall, From: sub, Tool: events.Tool{Name: "read"}},
		{Kind: events.ToolCall, From: sub, Tool: events.Tool{Name: "write"}},
	} {
		ev.ID, ev.Time, ev.CorrelationID = string(rune('a'+i)), events.Stamp(1_700_000_000_000+1000*i), "f"
		p, f, _ = e.Fold(p, f, &ev)
	}
	v := e.View(f)
	if len(v.Orders) != 1 || !strings.Contains(v.Orders[0].Message, "calls of the subagent s1 ") {
		t.Errorf("the orders are %+v, want one that names s1", v.Orders)
	}
	if j := v.Parties[1].Job; j == nil || j.Kind != "Explore" || j.Calls != 2 || j.MaxCalls != 1 {
		t.Errorf("the job of the subagent is %+v", j)
	}
}
