package agents

import (
	"cmp"
	"math"

	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// SayRefused words an answer by the order of a tree that was armed as the tree words its own refusals. The
// order itself speaks of the next call. Other answers are not changed.
func (l *Limits) SayRefused(answer, order *events.Verdict) {
	r, known := RuleNamed(order.RuleID)
	if !known || order.Scope.Kind != events.ScopeTree || order.Effective != events.EffectiveNext || answer.Limit == nil || answer.Observed == nil {
		return
	}
	rule := &Rules[r]
	unit := rules.InUnit(rule.Unit)
	inside := func(figure float64) int64 { return int64(math.Round(figure * unit)) }
	x := &finding{rule: r, Order: standing.Order{Phase: standing.Stop, Action: order.Action, Limit: inside(*answer.Limit), Observed: inside(*answer.Observed)}}
	answer.Message = x.fill(cmp.Or(l.Texts[r], rule.Sentence()), &l.Rules[r])
	answer.AgentMessage = x.agentMessage()
}

// BeginsWait reports whether a tree begins to wait for a person with the call that the order refuses.
func BeginsWait(v *events.Verdict) bool {
	return v.Scope.Kind == events.ScopeTree && v.Action == events.Hold && v.Effective == events.EffectiveNext
}
