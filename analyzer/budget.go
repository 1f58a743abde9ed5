package analyzer

import (
	"slices"
	"strconv"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/events"
)

// Budgets over flows, in the stage of flows. A flow passes on what each of its events adds to its own
// counters, to the account of each budget that the event counts for; deltas commute, so the sums do
// not depend on the order in which flows report.
//
// A check is answered by the accounts one after the other, and last by the tree of the flow: the
// event that asks names all of them, and each passes it on when it allows the call. The one that
// refuses has those before it take the call back.

// payer is a value of a scope that a flow keeps for its events that name none.
type payer struct {
	kind  budgets.Kind
	tag   string
	value string
}

// maxPayers is how many values a flow keeps.
const maxPayers = 8

// funds is what a flow has spent so far in its episode.
type funds struct{ calls, hops, tokens, cost int64 }

// fundsOf returns what the flow has spent.
func fundsOf(f *Flow) funds {
	return funds{int64(f.hops) + int64(f.toolCalls), int64(f.hops), f.tokens[2], f.cost}
}

// beginCharge notes what the flow had spent before the event, and what the event says of who pays.
func (e *relay) beginCharge(f *Flow, m *moment) {
	m.funds = fundsOf(f)
	for i := range e.limits.Budgets {
		s := &e.limits.Budgets[i].Scope
		if !s.Kind.OfFlow() {
			continue
		}
		value := s.ValueOf(m.ev)
		if value == "" {
			continue
		}
		at := payerOf(f.payers, s)
		switch {
		case at < 0 && len(f.payers) < maxPayers:
			f.payers = append(f.payers, payer{s.Kind, s.Tag, budgets.Value(value)})
		case at >= 0 && s.Kind == budgets.OfModel: // the model that is used now; of all else the first value counts
			f.payers[at].value = budgets.Value(value)
		}
	}
}

// payerOf is the place of the value that the flow keeps for a scope; -1 for none.
func payerOf(payers []payer, s *budgets.Scope) int {
	return slices.IndexFunc(payers, func(p payer) bool { return p.kind == s.Kind && p.tag == s.Tag })
}

// accountOf returns the value of the scope that an event counts for: what it names itself, else
// the first one reported for its flow; "" for none.
func accountOf(f *Flow, s *budgets.Scope, ev *events.Event) string {
	if value := s.ValueOf(ev); value != "" {
		return value
	}
	if i := payerOf(f.payers, s); i >= 0 && s.Kind.OfFlow() {
		return f.payers[i].value
	}
	if s.Kind == budgets.OfTree { // it names none, so it is a root
		return f.key
	}
	return ""
}

// spentOn is what the event has added to what a budget counts.
func spentOn(b *budgets.Budget, was, is funds, ev *events.Event) int64 {
	switch b.Measure {
	case budgets.USD:
		return max(0, is.cost-was.cost)
	case budgets.Tokens:
		return max(0, is.tokens-was.tokens)
	case budgets.Spawns:
		return max(0, is.hops-was.hops)
	case budgets.BackgroundSpawns:
		if !ev.Background {
			return 0
		}
		return max(0, is.hops-was.hops)
	case budgets.Seconds:
		if (ev.Kind == events.ToolResult || ev.Kind == events.LLMCall) && ev.DurationMS > 0 {
			return int64(min(ev.DurationMS, events.MaxNumber)) * max(1, sampleOf(ev))
		}
		return 0
	}
	if b.Scope.Kind != budgets.OfModel {
		return max(0, is.calls-was.calls)
	}
	if ev.Kind == events.LLMCall {
		return max(1, sampleOf(ev))
	}
	return 0
}

// charge passes on what the event has spent, or asks, to the account of each budget. It runs behind
// passSpent: where a check asks the tree of the flow, the accounts are asked before it.
func (e *relay) charge(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationSource == events.CorrelationPrincipal {
		return // it is counted in the flow that its caller names
	}
	if ev.Ask && !m.user && ev.Kind.Asked() {
		e.askAccounts(f, ev, m.when, m.funds, fundsOf(f), fx)
		return
	}
	status, is := activity.WorkSpent, fundsOf(f)
	switch ev.Kind {
	case events.FlowEnd:
		status = activity.WorkEnded
	case events.ToolResult, events.AgentReturn:
		status = activity.WorkSettled
	}
	for i := range e.limits.Budgets {
		b := &e.limits.Budgets[i]
		n := spentOn(b, m.funds, is, ev)
		if n == 0 && (status == activity.WorkSpent || b.Reserve == 0) {
			continue
		}
		if value := accountOf(f, &b.Scope, ev); value != "" {
			a := sayCharge(f, ev, m.when, status, b.Key(value), fx)
			a.Attributes = []events.Attribute{{Name: b.Key(value), Value: strconv.AppendInt(nil, n, 10)}}
		}
	}
}

// askAgain asks the accounts about a check that was folded before, because its answer was lost. An
// account knows the check by its id and counts nothing.
func (e *relay) askAgain(f *Flow, ev *events.Event, fx *Effects) {
	is := funds{calls: 1}
	if ev.Kind == events.AgentCall {
		is.hops = 1
	}
	e.askAccounts(f, ev, f.clock, funds{}, is, fx)
}

// askAccounts asks the first account about a check. The event names all accounts, and the tree last
// where it was to be asked.
func (e *relay) askAccounts(f *Flow, ev *events.Event, when events.Stamp, was, is funds, fx *Effects) {
	var chain []events.Attribute
	for i := range e.limits.Budgets {
		b := &e.limits.Budgets[i]
		if b.Action == events.Warn {
			if n := spentOn(b, was, is, ev); n > 0 { // it refuses nothing
				if value := accountOf(f, &b.Scope, ev); value != "" {
					a := sayCharge(f, ev, checked(ev, when), activity.WorkSpent, b.Key(value), fx)
					a.Attributes = []events.Attribute{{Name: b.Key(value), Value: strconv.AppendInt(nil, n, 10)}}
				}
			}
			continue
		}
		if value := accountOf(f, &b.Scope, ev); value != "" {
			chain = append(chain, events.Attribute{Name: b.Key(value), Value: strconv.AppendInt(nil, spentOn(b, was, is, ev), 10)})
		}
	}
	if len(chain) == 0 {
		return
	}
	// The tree is asked by the activity that passSpent has made, if there is one.
	// fx may hold that of other steps as well.
	mine := fx.Activity[fx.began:]
	tree := slices.IndexFunc(mine, func(a activity.Activity) bool { return a.Event.Ask })
	if tree >= 0 {
		a := &mine[tree]
		chain = append(chain, events.Attribute{Name: a.Key, Value: []byte("0")})
		a.Key, a.Event.Attributes, a.Event.Time = chain[0].Name, chain, checked(ev, when)
	} else {
		a := sayCharge(f, ev, checked(ev, when), activity.WorkSpent, chain[0].Name, fx)
		a.Ask, a.Attributes = true, chain
	}
	fx.Asked = true
}

// checked is when a check is made: when the log took it, so that no check can choose its window.
func checked(ev *events.Event, when events.Stamp) events.Stamp {
	if isCheck(ev) && ev.Appended != 0 {
		return ev.Appended
	}
	return when
}

// sayCharge adds an activity for the account of the key, made of the event.
func sayCharge(f *Flow, ev *events.Event, when events.Stamp, status, key string, fx *Effects) *events.Event {
	a := fx.SayTo("", key, ev, when)
	a.Kind, a.AgentState = events.AgentActivity, fx.State(status)
	a.CorrelationID, a.Tell, a.SampledRate = f.key, ev.Tell, ev.SampledRate
	return a
}
