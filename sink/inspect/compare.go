package inspect

import (
	"slices"

	"weir/analyzer"
	"weir/events"
)

// Comparison is what two limits say of the same events.
type Comparison struct {
	Events int          `json:"events"`
	Flows  int          `json:"flows"`
	A      string       `json:"a"` // version of the limits
	B      string       `json:"b"`
	Rules  []RuleTally  `json:"rules"`  // those that spoke
	Differ []Difference `json:"differ"` // flows of which A and B say different things, at most MaxDiffer
	More   int          `json:"more,omitempty"`
}

// MaxDiffer is how many flows that differ are listed.
const MaxDiffer = 200

// RuleTally is in how many flows a rule stopped something.
type RuleTally struct {
	Rule  string `json:"rule"`
	A     int    `json:"a"`
	B     int    `json:"b"`
	OnlyA int    `json:"only_a"`
	OnlyB int    `json:"only_b"`
}

// Difference is a flow of which the limits say different things.
type Difference struct {
	Flow string  `json:"flow"`
	A    *Halted `json:"a"` // nil when it was not stopped
	B    *Halted `json:"b"`
}

// Halted is the first stop of a flow.
type Halted struct {
	Rule string `json:"rule"`
	Call int    `json:"call"` // the n-th call of agents or tools of the flow
}

// Compare folds the events by both limits.
func Compare(a, b analyzer.Limits, evs []events.Event) Comparison {
	byA, keys := judge(a, evs)
	byB, _ := judge(b, evs)
	out := Comparison{Events: len(evs), Flows: len(keys), A: a.Version, B: b.Version, Rules: []RuleTally{}, Differ: []Difference{}}
	for i := range analyzer.Rules {
		t := RuleTally{Rule: analyzer.Rules[i].Name}
		for _, key := range keys {
			inA, inB := slices.Contains(byA[key].rules, t.Rule), slices.Contains(byB[key].rules, t.Rule)
			t.A, t.B = t.A+one(inA), t.B+one(inB)
			t.OnlyA, t.OnlyB = t.OnlyA+one(inA && !inB), t.OnlyB+one(inB && !inA)
		}
		if t.A+t.B > 0 {
			out.Rules = append(out.Rules, t)
		}
	}
	for _, key := range keys {
		x, y := byA[key].first, byB[key].first
		if x == nil && y == nil || x != nil && y != nil && *x == *y {
			continue
		}
		if len(out.Differ) == MaxDiffer {
			out.More++
			continue
		}
		out.Differ = append(out.Differ, Difference{key, x, y})
	}
	return out
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// judged is what was said of one flow.
type judged struct {
	rules []string
	first *Halted
}

// judge returns what limits say of the events, and the flows in order.
func judge(l analyzer.Limits, evs []events.Event) (map[string]*judged, []string) {
	tale := Tell(l, evs, 0)
	byFlow := make(map[string]*judged)
	var keys []string
	calls := make([]int, len(tale.Steps)+1) // of the flow, up to each step
	count := make(map[string]int)
	for i := range tale.Steps {
		s := &tale.Steps[i]
		if byFlow[s.Flow] == nil {
			byFlow[s.Flow], keys = new(judged), append(keys, s.Flow)
		}
		if s.Kind == events.AgentCall.String() || s.Kind == events.ToolCall.String() {
			count[s.Flow]++
		}
		calls[s.N] = count[s.Flow]
	}
	for i := range tale.Said {
		s := &tale.Said[i]
		v := &s.Verdict
		// A budget that is used up (next) stops nothing until a call is made beyond it.
		if v.Mode == events.ModeShadow || !s.Ask && v.Effective != events.EffectiveNow || s.Step >= len(calls) {
			continue
		}
		j := byFlow[tale.Steps[s.Step-1].Flow]
		if !slices.Contains(j.rules, v.RuleID) {
			j.rules = append(j.rules, v.RuleID)
		}
		if j.first == nil {
			j.first = &Halted{v.RuleID, calls[s.Step]}
		}
	}
	return byFlow, keys
}
