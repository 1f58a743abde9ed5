package simulate

import (
	"net/http"
	"sync"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// firstLimits are in force until the log says otherwise.
// Recovery by orders and the budgets of trees are on, so that both are tried in every run.
func firstLimits() analyzer.Limits {
	l := pumptest.Limits()
	l.Agents.Recover = true
	limitTrees(&l)
	limitFlows(&l)
	return l
}

// limitFlows sets budgets that flows use up within a run.
func limitFlows(l *analyzer.Limits) {
	for i := range l.Rules {
		if r, s := &analyzer.Rules[i], &l.Rules[i]; r.Status == http.StatusPaymentRequired && r.Unit == events.UnitCalls {
			s.Mode, s.Warn, s.Stop, s.Max = rules.ModeEnforce, rules.Off, 20, true
		}
	}
}

// treeLimit is how many calls the flows of a tree may make together, by whatever limits.
// Small, so that trees run out of calls within a run; mostAllowed is held against it.
const treeLimit = 12

// limitTrees sets what trees may do: calls of all flows together, how deep they go and how many
// flows one may open. The reserve is what each living child may count on.
func limitTrees(l *analyzer.Limits) {
	for r := range agents.RuleCount {
		set := &l.Agents.Rules[r]
		switch agents.Rules[r].Counts {
		case agents.CountedTreeCalls:
			// The stop is the observed value at which it stops, one more than what is
			// allowed (see decision 3).
			set.Stop, set.Reserve = treeLimit+1, 2
		case agents.CountedTreeDepth:
			set.Stop = 4
		case agents.CountedTreeChildren:
			set.Stop = 6
		default:
			continue
		}
		// Budgets are armed by the last call that they allow, which Max says.
		set.Mode, set.Max = rules.ModeEnforce, true
	}
}

// limits are those that the log may set.
// Profiles that differ in which rules are on, so that a change of limits takes orders back
// (decision 20) and moves deadlines. Each gets the version that its content has.
var limits = func() (out []analyzer.Limits) {
	for _, name := range []string{"balanced", "delegation", "recovery", "task", "team"} {
		l, err := limitfile.Profile(name)
		must(err)
		l.Agents.Recover = true
		limitTrees(&l)
		limitFlows(&l)
		l.Version = limitfile.Version(&l)
		out = append(out, l)
	}
	return out
}()

// parsed are the limits by their documents: to read one takes longer than hundreds of steps.
var parsed sync.Map

// parseLimits is used by pumps and by the plain fold alike: what it says is no matter of the
// simulation, only when it is said.
func parseLimits(document []byte) (analyzer.Limits, error) {
	if l, ok := parsed.Load(string(document)); ok {
		return l.(analyzer.Limits), nil
	}
	l, err := pump.ParseLimits(document)
	if err == nil {
		parsed.Store(string(document), l)
	}
	return l, err
}
