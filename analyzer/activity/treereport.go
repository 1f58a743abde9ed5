package activity

import (
	"weir/analyzer/ledger"
	"weir/events"
)

// TreeReport is what a flow reports to its tree, or a tree to the one above it.
//
// In the log it is an event of the kind agent.activity, or an order to a tree that is passed on. Such an
// event has no field of its own for such a report and uses those that an event of an agent leaves
// empty. TreeReportOf, SayTree and PutRoute are the only code that knows which. The bytes stay those of
// earlier versions, so that the members of a group can be exchanged one by one.
type TreeReport struct {
	Work   string        // WorkSpent, WorkEnded or WorkBelongs
	Flow   string        // that spends or asks
	Root   string        // of WorkBelongs: the tree that the flow of the key belongs to
	Spends ledger.Amount // what the flow spent since its last report, or asks to spend

	// Parent is the flow that opened the flow, or the tree that the report came through first; "" for
	// none.
	Parent string
	Hops   int64  // trees that have passed the report on
	First  string // of these, the first by name
}

// TreeReportOf returns what an event says to the tree that it is for. Its strings alias the event.
func TreeReportOf(ev *events.Event) TreeReport {
	r := TreeReport{Flow: ev.CorrelationID, Root: ev.RootCorrelationID, Parent: ev.ParentCorrelationID, Hops: ev.Sequence, First: ev.TaskID,
		Spends: ledger.Amount{ledger.Calls: ev.Work.ToolCalls, ledger.Tokens: ev.Usage.Total, ledger.Cost: ev.Usage.CostMicroUSD}}
	if ev.AgentState != nil {
		r.Work = ev.AgentState.Status
	}
	return r
}

// PutRoute writes the way of the report to the event.
func (r *TreeReport) PutRoute(ev *events.Event) {
	ev.ParentCorrelationID, ev.Sequence, ev.TaskID = r.Parent, r.Hops, r.First
}

// SayTree adds an activity with a report to the tree of the key root. The activity is made of the event;
// SayTree returns its event to be filled in.
func (fx *Effects) SayTree(root string, ev *events.Event, when events.Stamp, r TreeReport) *events.Event {
	a := fx.SayTo(TreePrefix, root, ev, when)
	a.Kind, a.AgentState = events.AgentActivity, fx.State(r.Work)
	a.CorrelationID, a.RootCorrelationID = r.Flow, r.Root
	r.PutRoute(a)
	a.Work = events.Work{Known: r.Spends[ledger.Calls] > 0, ToolCalls: r.Spends[ledger.Calls]}
	a.Usage = events.Usage{Known: r.Spends[ledger.Tokens]+r.Spends[ledger.Cost] > 0, Total: r.Spends[ledger.Tokens], CostMicroUSD: r.Spends[ledger.Cost]}
	return a
}
