package analyzer

import (
	"weir/analyzer/activity"
	"weir/analyzer/ledger"
	"weir/events"
)

// A tree is a flow and all that descend from it. Each flow of it reports to the agent stage what
// it has spent since its last report, under the key of the root. There the sum is held against
// the limits. A requested call is judged there last, after its flow has allowed it, because only
// there all flows of the tree meet.
//
// A flow that names neither a parent nor a root is the root of its own tree. It learns of its
// children last, so it reports what it spends from its first event on.
//
// A flow that names only its parent reports to that one's tree. A parent that has a parent in
// turn has reported so under its own key. What arrives there is passed on to the tree above.

// join notes to which tree the flow belongs, when an event first names it, and what the flow had
// spent before that event. What it spent before it is known to belong to another tree is reported
// to that tree at that moment. A report to its own tree says that this no longer counts there.
// With each episode the flow reports its tree to its descendants, under its own key.
// It runs before the event is counted, so that m.before is what the event did not add. Flows
// of a principal report nothing: their calls are counted in the flow that the caller names
// (decision 63).
func (e *relay) join(f *Flow, m *moment, began bool, fx *Effects) {
	m.before = f.spent()
	var moved ledger.Amount
	// Only the first name counts: what was reported to one tree stays there.
	if f.root == "" && m.ev.Root() != "" {
		f.root = m.ev.Root()
		if p := m.ev.ParentCorrelationID; p != f.root && p != f.key {
			f.parent = p
		}
		began, m.joins = true, true
		if f.root != f.key {
			m.before, moved = moved, m.before
		}
	}
	if !began || f.root == "" || m.ev.CorrelationSource == events.CorrelationPrincipal {
		return
	}
	e.belong(f, f.key, moved, m, fx)
	if m.ev.CorrelationSource == events.CorrelationPrompt {
		e.belong(f, m.ev.ConversationID, ledger.Amount{}, m, fx) // of a session that opens another one no more is known there
	}
}

// belong reports, under a name by which others know the flow, to which tree it belongs. It also
// reports how much of what was counted there the flow itself reports to that tree.
func (e *relay) belong(f *Flow, name string, moved ledger.Amount, m *moment, fx *Effects) {
	if name != "" && name != f.root {
		a := fx.SayTree(name, m.ev, m.when, activity.TreeReport{Work: activity.WorkBelongs, Flow: m.ev.CorrelationID, Root: f.root, Spends: moved})
		a.SampledRate, a.Tell = m.ev.SampledRate, m.ev.Tell
	}
}

// treeOf is the root of the tree of the flow, which may be the flow itself.
func (f *identity) treeOf() string {
	if f.root != "" {
		return f.root
	}
	return f.key
}

// spent is what the flow has spent in this episode.
// Calls are hops and tool calls together. It is always reported as a difference, so that trees
// can add up reports in any order.
func (f *counts) spent() ledger.Amount {
	return ledger.Amount{ledger.Calls: int64(f.hops) + int64(f.toolCalls), ledger.Tokens: f.tokens[2], ledger.Cost: f.cost}
}

// passSpent reports to the tree what the flow spent by the event, or that it asks, or ended. The
// tree then gives the answer to a check request.
// An event that spends nothing and is no check request is not passed on. It sets fx.Asked, by
// which the pump knows that the tree decides last.
func (e *relay) passSpent(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationSource == events.CorrelationPrincipal {
		return // it is counted in the flow that its caller names
	}
	n := f.spent()
	for i := range n {
		n[i] -= m.before[i]
	}
	status := activity.WorkSpent
	if ev.Kind == events.FlowEnd || ev.Kind == events.AgentReturn && m.to == none {
		status = activity.WorkEnded
	}
	asks := ev.Ask && !m.user && ev.Kind.Asked()
	if n == (ledger.Amount{}) && status == activity.WorkSpent && !asks && !m.joins {
		return // a flow that joins is a child for which a share is set aside, from then on
	}
	f.saySpent(ev, m.when, status, n, asks, fx)
	fx.Asked = asks
}

// passAgain asks the tree about a call that was asked for before, as when the answer was lost.
// It is given as one call; the tree knows the ask by its id and counts nothing.
func (f *identity) passAgain(at events.Stamp, ev *events.Event, fx *Effects) {
	f.saySpent(ev, at, activity.WorkSpent, ledger.Amount{ledger.Calls: 1}, true, fx)
	fx.Asked = true
}

// saySpent fills in the flow that reports. The id of the activity is that of the event, so the
// tree detects repeats by it.
func (f *identity) saySpent(ev *events.Event, when events.Stamp, status string, n ledger.Amount, asks bool, fx *Effects) {
	a := fx.SayTree(f.treeOf(), ev, when, activity.TreeReport{Work: status, Flow: f.key, Parent: f.parent, Spends: n})
	a.SampledRate, a.Tell, a.Ask = ev.SampledRate, ev.Tell, asks
	if n[ledger.Cost] > 0 && ev.Usage.CostMicroUSD == 0 {
		a.Model = ev.Model // says that the table of prices has priced it
	}
}
