package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

const (
	datedFlows  = 4
	datedChecks = 60
	datedLimit  = 20
)

// dated returns checks of the flows of one tree that the log takes 10 ms after each other. claims
// returns how long before that the dispatcher says that it made the check.
func dated(claims func(i int) time.Duration) []events.Event {
	log := make([]events.Event, datedChecks)
	for i := range log {
		at := events.Stamp(1_795_000_000_000).Add(time.Duration(i) * 10 * time.Millisecond)
		ev := events.Event{ID: fmt.Sprint("call-", i), Source: "dispatcher", Time: at.Add(-claims(i)), Appended: at, Kind: events.AgentCall,
			CorrelationID: fmt.Sprint("flow-", i%datedFlows), RootCorrelationID: "flow-0", Ask: true, From: events.Party{Agent: "planner"}, To: events.Party{Agent: "coder"},
			HadWork: events.Yes, Content: events.Hash{Algorithm: events.XXH64, Value: uint64(i) + 1}}
		log[i] = ev
	}
	return log
}

// admits folds checks through both stages and returns how many of them are allowed.
func admits(l analyzer.Limits, log []events.Event) (allowed int) {
	var (
		e       = analyzer.New(l)
		p       analyzer.Partition
		flows   [datedFlows]analyzer.Flow
		agentsP agents.Partition
		tree    agents.Agent
		fx      analyzer.Effects
		up      activity.Effects
	)
	tree.Reset(activity.TreeKey("flow-0"))
	for i := range log {
		fx.Reset()
		e.Step(&p, &flows[i%datedFlows], &log[i], &fx)
		stopped := fx.Answer.Stops()
		for j := range fx.Activity {
			if a := &fx.Activity[j]; a.Key == activity.TreeKey("flow-0") {
				up.Reset()
				ev := a.Event
				e.Agents().Step(&agentsP, &tree, &ev, &up)
				stopped = stopped || ev.Ask && up.Answer.Stops()
			}
		}
		if !stopped {
			allowed++
		}
	}
	return allowed
}

// TestDatedChecksRestoreNoBudget dates checks of less than a second to times before they were made:
// days late and in another order, or each a while after the one before, as if the flow had been
// silent. The budget of a flow and that of a tree admit as many calls as with correct times.
func TestDatedChecksRestoreNoBudget(t *testing.T) {
	none := analyzer.Balanced()
	for i := range none.Rules {
		none.Rules[i].Mode = rules.ModeOff
	}
	for i := range none.Agents.Rules {
		none.Agents.Rules[i].Mode = rules.ModeOff
	}
	ofFlow, ofTree := none, none
	ofFlow.Rules[analyzer.RuleTotalCalls] = rules.Setting{Warn: rules.Off, Stop: datedLimit/datedFlows + 1, Max: true}
	ofTree.Agents.Rules[agents.RuleTreeCalls] = rules.Setting{Warn: rules.Off, Stop: datedLimit + 1, Max: true}
	claims := map[string]func(i int) time.Duration{
		"correct times":              func(int) time.Duration { return 0 },
		"half a minute slow":         func(int) time.Duration { return 30 * time.Second },
		"nine days slow":             func(int) time.Duration { return 9 * 24 * time.Hour },
		"nine days slow, disordered": func(i int) time.Duration { return 9*24*time.Hour + time.Duration(i*7%13)*time.Second },
		"one caller slow": func(i int) time.Duration {
			if i/datedFlows%3 == 0 {
				return 0
			}
			return time.Hour
		},
		"one flow slow": func(i int) time.Duration {
			if i%datedFlows != 1 {
				return 0
			}
			return 3 * time.Hour
		},
		"as if silent": func(i int) time.Duration { return time.Duration(datedChecks-i) * 15 * time.Minute },
		"as if old":    func(i int) time.Duration { return time.Duration(datedChecks-i) * 3 * time.Hour },
	}
	for name, claim := range claims {
		for of, limits := range map[string]analyzer.Limits{"flow": ofFlow, "tree": ofTree} {
			if got := admits(limits, dated(claim)); got != datedLimit {
				t.Errorf("%s: the budget of a %s admits %d calls, want %d", name, of, got, datedLimit)
			}
		}
	}
}
