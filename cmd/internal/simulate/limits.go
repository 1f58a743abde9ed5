package simulate

import (
	"sync"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
)

// firstLimits are in force until the log says otherwise.
func firstLimits() analyzer.Limits {
	l := pumptest.Limits()
	l.Agents.Recover = true
	limitTrees(&l)
	return l
}

// treeLimit is how many calls the flows of a tree may make together, by whatever limits.
const treeLimit = 12

func limitTrees(l *analyzer.Limits) {
	for r := range agents.RuleCount {
		set := &l.Agents.Rules[r]
		switch agents.Rules[r].Counts {
		case agents.CountedTreeCalls:
			set.Stop, set.Reserve = treeLimit+1, 2
		case agents.CountedTreeDepth:
			set.Stop = 4
		case agents.CountedTreeChildren:
			set.Stop = 6
		default:
			continue
		}
		set.Mode, set.Max = rules.ModeEnforce, true
	}
}

// limits are those that the log may set.
var limits = func() (out []analyzer.Limits) {
	for _, name := range []string{"balanced", "delegation", "recovery", "task", "team"} {
		l, err := limitfile.Profile(name)
		must(err)
		l.Agents.Recover = true
		limitTrees(&l)
		l.Version = limitfile.Version(&l)
		out = append(out, l)
	}
	return out
}()

// parsed are the limits by their documents: to read one takes longer than hundreds of steps.
var parsed sync.Map

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
