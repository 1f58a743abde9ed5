package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/events"
)

// TestRecordKeepsWhoPays holds that a flow remembers through its record which team it named first.
func TestRecordKeepsWhoPays(t *testing.T) {
	t.Parallel()
	l := analyzer.Balanced()
	for _, s := range []string{"team", "tenant", "tag:centre", "model"} {
		scope, _ := budgets.ParseScope(s)
		l.Budgets = append(l.Budgets, budgets.Budget{Name: "b-" + scope.Kind.String(), Scope: scope, Measure: budgets.Calls, Window: budgets.Window{Period: budgets.Day}, Hard: 9, Soft: budgets.Off, Hint: budgets.Off, Action: events.Deny})
	}
	e := analyzer.New(l)
	var p analyzer.Partition
	var fx analyzer.Effects
	var f analyzer.Flow
	told := func(ev events.Event) (keys []string) {
		fx.Reset()
		ev.Source, ev.Time, ev.CorrelationID, ev.From, ev.To = "s", 1_795_780_800_000, "f", events.Party{Agent: "a"}, events.Party{Agent: "b"}
		e.Step(&p, &f, &ev, &fx)
		for i := range fx.Activity {
			if a := &fx.Activity[i]; strings.HasPrefix(a.Key, budgets.Prefix) {
				keys = append(keys, a.Key)
			}
		}
		record, err := f.AppendBinary(nil)
		if err != nil || f.AtMost() < len(record) {
			t.Fatalf("%d bytes of at most %d: %v", len(record), f.AtMost(), err)
		}
		f = analyzer.Flow{}
		if err := f.UnmarshalBinary("f", record); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	for i, x := range []struct {
		ev   events.Event
		want string
	}{
		{events.Event{Kind: events.AgentCall, TeamID: "t1", Tags: []string{"centre=c1"}}, "budget:b-tag:c1 budget:b-team:t1"},
		{events.Event{Kind: events.LLMCall, Model: "m1", TenantID: "x"}, "budget:b-model:m1"},
		{events.Event{Kind: events.AgentCall, TeamID: "t2"}, "budget:b-tag:c1 budget:b-team:t2 budget:b-tenant:x"},
		{events.Event{Kind: events.LLMCall, Model: "m2"}, "budget:b-model:m2"},
		{events.Event{Kind: events.AgentCall}, "budget:b-tag:c1 budget:b-team:t1 budget:b-tenant:x"},
		{events.Event{Kind: events.LLMCall}, "budget:b-model:m2"},
	} {
		x.ev.ID = string(rune('a' + i))
		got := map[string]bool{}
		for _, k := range told(x.ev) {
			got[k] = true
		}
		want := map[string]bool{}
		for _, k := range strings.Fields(x.want) {
			want[k] = true
		}
		if len(got) != len(want) {
			t.Errorf("event %d: %v; want %s", i, got, x.want)
		}
		for k := range want {
			if !got[k] {
				t.Errorf("event %d: %v; want %s", i, got, x.want)
			}
		}
	}
}

// TestChecksOfABacklog folds checks of several flows, repeats among them, with effects that are gathered,
// as a backlog is folded, and with effects that are taken after each step. Both send the same to the
// accounts and to trees.
func TestChecksOfABacklog(t *testing.T) {
	t.Parallel()
	scope, _ := budgets.ParseScope("team")
	team := budgets.Budget{Name: "team-day", Scope: scope, Measure: budgets.Calls, Window: budgets.Window{Period: budgets.Day}, Hard: 90, Soft: budgets.Off, Hint: budgets.Off, Action: events.Deny}
	for _, trees := range []bool{false, true} {
		l := analyzer.Balanced()
		l.Budgets = append(l.Budgets, team)
		if !trees {
			for i := range l.Agents.Rules {
				l.Agents.Rules[i].Mode = rules.ModeOff
			}
		}
		e := analyzer.New(l)
		sent := func(gathered bool) (out []string) {
			var p analyzer.Partition
			var flows [3]analyzer.Flow
			var fx analyzer.Effects
			take := func() {
				for i := range fx.Activity {
					out = append(out, fx.Activity[i].Key+" "+string(fx.Activity[i].Event.AppendJSON(nil)))
				}
				fx.Reset()
			}
			for i := range 12 {
				ev := events.Event{ID: fmt.Sprint("c", i/6), Source: "s", Time: 1_795_780_800_000 + events.Stamp(i), CorrelationID: fmt.Sprint("f", i%3), TeamID: fmt.Sprint("t", i%3),
					Kind: events.AgentCall, Ask: true, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
				e.Step(&p, &flows[i%3], &ev, &fx)
				if !gathered {
					take()
				}
			}
			take()
			return out
		}
		one, gathered := sent(false), sent(true)
		if !slices.Equal(one, gathered) || len(one) < 12 {
			t.Errorf("trees %v: one by one\n%s\ngathered\n%s", trees, strings.Join(one, "\n"), strings.Join(gathered, "\n"))
		}
	}
}
