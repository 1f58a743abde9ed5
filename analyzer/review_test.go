package analyzer_test

import (
	"testing"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// TestRaisedLimitsHoldForStoppedFlows changes the limits between the events of a flow
// that is stopped, as a reload does.
func TestRaisedLimitsHoldForStoppedFlows(t *testing.T) {
	budget := func(version string, most int64, mode rules.Mode) *analyzer.Engine {
		l := analyzer.Balanced()
		l.Version = version
		l.Rules[analyzer.RuleTotalCalls] = rules.Setting{Warn: rules.Off, Stop: most + 1, Max: true, Mode: mode}
		return analyzer.New(l)
	}
	f := func(name string, second *analyzer.Engine, want string, cleared bool) {
		t.Helper()
		var (
			p    analyzer.Partition
			flow analyzer.Flow
			fx   analyzer.Effects
		)
		ask := func(e *analyzer.Engine, id string, second events.Stamp) string {
			fx.Reset()
			e.Step(&p, &flow, &events.Event{ID: id, Time: 1_700_000_000_000 + second*1000, Kind: events.AgentCall, CorrelationID: "flow", Ask: true,
				HadWork: events.Yes, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}, &fx)
			return string(fx.Answer.Action)
		}
		first := budget("one", 2, rules.ModeEnforce)
		for i, want := range []string{"allow", "allow", "deny"} {
			if got := ask(first, string(rune('p'+i)), events.Stamp(i)); got != want {
				t.Fatalf("%s: ask %d: got %s, want %s", name, i+1, got, want)
			}
		}
		if got := ask(second, "x", 10); got != want {
			t.Errorf("%s: after the change got %s, want %s", name, got, want)
		}
		took := len(fx.Verdicts) > 0 && fx.Verdicts[0].Action == events.Allow
		if took != cleared {
			t.Errorf("%s: the order was taken back: %v, want %v", name, took, cleared)
		}
	}
	f("the limit is raised", budget("two", 5, rules.ModeEnforce), "allow", true)
	f("the rule is turned off", budget("three", 2, rules.ModeOff), "allow", true)
	f("something else was changed", budget("four", 2, rules.ModeEnforce), "deny", false)
	f("the limit is lowered", budget("five", 1, rules.ModeEnforce), "deny", false)
}
