package agents

import (
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// Terms are what of the limits holds for orders about agents as for those about flows.
// They are copied out of the limits of flows by who makes the engine, because this package
// knows no flow (decision 58).
type Terms struct {
	TTL          time.Duration // of an order; renewed while it holds
	Grace        time.Duration // calls seen this soon after an order were in flight and did not ignore it
	Hold         time.Duration // how long a tree that is held waits for a person; then it is halted
	Idle, MaxAge time.Duration // silence that ends a tree, and its greatest age
	WarnOnly     uint16        // bit set of 1<<CorrelationSource of what is never stopped
	Exempt       []rules.Exemption
	Version      string // of the limits, in every verdict
	Budgets      []budgets.Budget
}

// Engine folds what concerns agents, projects and trees by one set of limits. It is
// immutable and safe for use by many goroutines; a change of limits is a new one.
type Engine struct{ treeJudge }

// settings are the limits by which agents, trees and budgets are judged.
type settings struct {
	limits  Limits
	terms   Terms
	version uint32 // of the limits, as orders keep it
	// What tags do to each row; nil where they do nothing.
	byTag [RuleCount]rules.Exempt
	trees bool // some row about trees is on
	tells bool // and some row reports the remaining budget to the caller
	// In the order of the table, so verdicts of one event come in one order.
	counting []RuleID // the rows that are on and count events of agents and projects
}

// orderWriter counts, gives orders and writes verdicts about agents.
type orderWriter struct{ settings }

// recoverer follows the silence of agents and climbs the ladder of recovery.
type recoverer struct{ orderWriter }

// treeJudge judges trees of flows and budgets over flows.
type treeJudge struct{ recoverer }

// New returns an engine for limits, which must be valid (see limitfile.Validate).
func New(l Limits, t Terms) *Engine {
	e := new(Engine)
	e.limits, e.terms, e.version = l, t, standing.VersionOf(t.Version)
	for r := range RuleCount {
		e.byTag[r] = rules.ExemptOf(Rules[r].Name, t.Exempt)
		if l.Rules[r].Mute() {
			continue
		}
		c := Rules[r].Counts
		if c != CountedNothing && !c.OfTree() {
			e.counting = append(e.counting, r)
		}
		e.trees = e.trees || c.OfTree()
		e.tells = e.tells || l.Rules[r].Tell != 0
	}
	return e
}

// Step folds one event of the activity log into the agent, in place, and adds the
// effects to fx. The event must belong to the agent: a was Reset with the key, or was
// folded from events with the same key. What it keeps of ev it keeps by reference;
// encode or clone the agent before the bytes under ev change.
// Deadlines of silence do not fire by the time of an event, only in Advance: another source may
// know of earlier activity of the agent, and may not have reported it yet.
// The partition is that of the activity log; the step changes its possible reviewers and its
// number of stuck agents.
func (e *Engine) Step(p *Partition, a *Agent, ev *events.Event, fx *activity.Effects) {
	fx.Answer, fx.Asked = nil, false
	if !e.concerns(a, ev) {
		return
	}
	// The agent is counted where it was before and after the step, whatever the step does in
	// between.
	was := a.gaugeCell()
	m := new(moment)
	if !e.begin(a, ev, m, fx) {
		return
	}
	switch ev.Kind {
	case events.AgentCall:
		e.defied(a, m, fx)
		e.count(a, m, fx)
	case events.AgentStatus:
		e.reported(p, a, m, fx)
	case events.NoteAdded:
		e.noted(p, a, m, fx)
	case events.RescueRequest:
		e.rescueAsked(p, a, m, fx)
	case events.ReviewResult:
		e.reviewed(p, a, m, fx)
	case events.VerdictAck:
		if a.isTree() {
			e.heardOfTree(a, m, fx)
			// An acknowledgement is about an order of the tree that refused, which may be one
			// further up.
			if a.passUp(m, fx) {
				break
			}
			e.beginWait(a, m, fx)
		}
		if !e.refusedBy(a, m, fx) {
			e.acknowledged(p, a, m, fx)
		}
	case events.OverrideSet:
		if a.isBudget() {
			e.payment(a, m, fx).grant()
			break
		}
		e.grantTree(a, m, fx)
	case events.OperatorRelease:
		e.releaseTree(a, m, fx)
	case events.AgentActivity:
		if a.isBudget() {
			e.payment(a, m, fx).pay()
			break
		}
		e.flowReported(a, m, fx)
	}
	p.gauge.move(was, a.gaugeCell())
}

// flowReported folds what a flow reports of the agent.
func (e *Engine) flowReported(a *Agent, m *moment, fx *activity.Effects) {
	ev := m.ev
	switch work(ev) {
	case activity.WorkOpened:
		e.defied(a, m, fx)
		e.count(a, m, fx)
	case activity.WorkWoken:
		e.woken(a, m, fx)
	case activity.WorkBegun:
		e.begun(a, m, fx)
	case activity.WorkCame:
		e.came(a, m, fx)
	case activity.WorkMoved:
		e.moved(a, m, fx)
	case activity.WorkRefused:
		e.countRefusals(a, m, fx)
	case activity.WorkSpent, activity.WorkEnded:
		e.spend(a, m, fx)
	case activity.WorkBelongs:
		e.belongs(a, m, fx)
	case activity.WorkSpoken:
		e.heard(a, m, m.when, fx)
	default: // of an older weir, which reported each party in an event
		// Such events may stand in an activity log that is folded again.
		if w, ok := activity.WorkNamed(work(ev)); ok {
			e.atWork(a, m, xxhash.Sum64String(ev.CorrelationID), w, fx)
		}
	}
}

// Watched reports whether what flows report of the agent can change anything about it.
// The pump remembers a no, so that agents that never report cost one look into memory
// (decision 75).
func (e *settings) Watched(a *Agent) bool {
	return !a.isProject() && !a.isTree() && !a.isBudget() && !a.isWake() && e.watched(a)
}

// StepReport folds what a flow reports of the agent, as Step does events.
// It makes events of the report, because the rest of the fold works with events. Their ids
// are hashes of the report's content, so that a repeated report counts once.
func (e *Engine) StepReport(p *Partition, a *Agent, r *activity.Report, fx *activity.Effects) {
	fx.Answer = nil
	if r.Tries > 0 {
		ev := eventOf(r, uint64(r.Tries)<<16|uint64(r.Nth), r.Tried, fx)
		ev.AgentState = fx.State(activity.WorkRefused)
		ev.AgentState.TotalUpdates = int64(r.Tries)
		e.Step(p, a, ev, fx)
	}
	if r.Did == 0 || !e.Watched(a) {
		return
	}
	was := a.gaugeCell()
	m := new(moment)
	if e.begin(a, eventOf(r, uint64(r.Work), r.Did, fx), m, fx) {
		e.atWork(a, m, r.Flow, r.Work, fx)
		p.gauge.move(was, a.gaugeCell())
	}
}

// eventOf makes an event of what a report says of a time. The id is a hash of that and of what. The
// event is good until the next.
func eventOf(r *activity.Report, what uint64, at events.Stamp, fx *activity.Effects) *events.Event {
	ev := fx.Event()
	*ev = events.Event{ID: fx.ID(r.Flow^what, r.Name, at), Source: "weir", Time: at, Kind: events.AgentActivity, CorrelationSource: r.Source, From: r.Who()}
	return ev
}

// begin counts an event that concerns the agent, and says what is known of it; false when it
// was folded before.
// The time of an event is taken as it is, late or not: windows are filled in whatever order
// events come (decision 41).
func (e *orderWriter) begin(a *Agent, ev *events.Event, m *moment, fx *activity.Effects) bool {
	if !a.isTree() && (!a.isBudget() || ev.Kind == events.OverrideSet) && a.repeats(ev) { // a flow reports each event once to its tree and to the accounts of budgets
		fx.Counts.Duplicates++
		return false
	}
	when := min(max(ev.Time, 1), lastStamp)
	// Orders that had run out by the time of the event refused nothing. Deadlines of silence
	// are left to Advance.
	e.advanceOrders(a, when, fx)
	*m = moment{ev: ev, when: when, at: max(when, a.clock), late: when < a.clock}
	if m.late {
		fx.Counts.Late++
	}
	a.clock = m.at
	if a.events < 1<<32-1 {
		a.events++
	}
	fx.Counts.Events++
	if !a.isTree() && !a.isProject() && !a.isBudget() && !a.isWake() {
		a.mark(ev)
	}
	if len(a.orders) > 0 {
		e.reviewOrders(a, m, fx)
	}
	return true
}

// mark keeps the tags that the event reports of the agent.
func (a *subject) mark(ev *events.Event) {
	for _, p := range [...]*events.Party{&ev.From, &ev.To} {
		if len(p.Tags) > 0 && activity.AgentKey(*p) == a.key {
			a.marks.Add(0, p.Tags)
		}
	}
	if ev.Kind == events.AgentStatus {
		a.marks.Add(0, ev.Tags)
	}
}

// mode returns what the row may do about the agent at a time: as the limits say, or what its tags
// leave of that.
func (e *settings) mode(r RuleID, a *Agent, at events.Stamp) rules.Mode {
	mode := e.limits.Rules[r].Mode
	if x := e.byTag[r]; x != nil && len(a.marks) > 0 {
		return x.Mode(mode, at, a.marks, 0)
	}
	return mode
}

// lastStamp is the latest time that is folded, so that what is added to one stays a time.
// It is some 140,000 years from 1970.
const lastStamp events.Stamp = 1 << 52

// concerns reports whether the event can change anything about the agent. An event that cannot is
// dropped without a trace, so that agents that need no state need no record.
// A review or an acknowledgement of an unknown agent cannot be about an active
// order.
func (e *settings) concerns(a *Agent, ev *events.Event) bool {
	// A tree is begun by what a flow spends, or by a grant that comes before that.
	if a.isTree() {
		return e.trees && (a.events > 0 || ev.Kind == events.AgentActivity || ev.Kind == events.OverrideSet && ev.Override != nil)
	}
	if a.isBudget() {
		return ev.Kind == events.AgentActivity && len(ev.Attributes) > 0 || ev.Kind == events.OverrideSet && ev.Override != nil
	}
	for _, r := range e.counting {
		if e.countsEvent(r, a, ev) {
			return true
		}
	}
	if a.isWake() {
		return a.events > 0 && ev.Kind != events.AgentCall
	}
	if a.isProject() {
		return false
	}
	switch ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest:
		return true
	case events.ReviewResult, events.VerdictAck:
		return a.events > 0
	case events.AgentActivity:
		w := work(ev)
		return w != activity.WorkOpened && w != activity.WorkRefused && e.watched(a)
	}
	return false
}

// isProject reports by the key whether only caps are counted.
func (a *subject) isProject() bool { return strings.HasPrefix(a.key, activity.ProjectPrefix) }

// repeats reports whether the event was folded before, as far as that is remembered. One
// call may be reported as a message, as the opening of a flow and as refused.
// It remembers the event if it returns false. The kind is part of what is remembered, and so
// is whether it reports a refused call.
func (a *Agent) repeats(ev *events.Event) bool {
	id := idOf(ev)
	if slices.Contains(a.ids, id) {
		return true
	}
	if len(a.ids) >= a.mostIDs() {
		a.ids = a.ids[:copy(a.ids, a.ids[1:])]
	}
	a.ids = append(a.ids, id)
	return false
}

// idOf is by what an event is remembered.
func idOf(ev *events.Event) uint64 {
	id := xxhash.Sum64String(ev.ID) + uint64(ev.Kind)*0xff51afd7ed558ccd
	if ev.Source != "" {
		id ^= xxhash.Sum64String(ev.Source) * 0x9e3779b97f4a7c15
	}
	if work(ev) == activity.WorkRefused {
		id = ^id
	}
	return id
}

// mostIDs is how many events are remembered by their ids.
// Of a tree only asks are remembered, of which many callers have some under way at once.
func (a *Agent) mostIDs() int {
	if a.isTree() || a.isBudget() {
		return maxTreeIDs
	}
	return maxIDs
}

// work is the status of an agent.activity; empty for none.
func work(ev *events.Event) string {
	if ev.AgentState == nil {
		return ""
	}
	return ev.AgentState.Status
}

// Advance fires every deadline up to now, each at its own time. The pump calls it
// when the watermark of the activity passes Due.
// It goes by what was reported and not by the time of events: the watermark is the least of what
// all sources promise (decision 38).
func (e *Engine) Advance(p *Partition, a *Agent, now events.Stamp, fx *activity.Effects) {
	was := a.gaugeCell()
	for {
		at, what := e.next(a)
		if at == 0 || at > now {
			p.gauge.move(was, a.gaugeCell())
			return
		}
		switch what {
		// orderDue moves the clock itself.
		case dueOrder:
			e.orderDue(a, a.earliestOrder(), fx)
		case dueRecovery:
			a.clock = max(a.clock, at)
			e.recoveryDue(p, a, at, fx)
		case dueSilence:
			a.clock = max(a.clock, at)
			e.silent(p, a, at, fx)
		case dueBudget:
			e.budgetDue(a, at, fx)
		}
	}
}

// Due is when the agent wants to be looked at even if nothing comes; zero for never.
func (e *settings) Due(a *Agent) events.Stamp {
	at, _ := e.next(a)
	return at
}

// agentDue is what a deadline of an agent is about.
type agentDue uint8

// The deadlines, in the order in which they fire when they fall together.
const (
	dueOrder agentDue = iota
	dueRecovery
	dueSilence
	dueBudget
)

// next returns the next deadline and what it is about. Each that fires must move
// or end its deadline: one that stays where it was would fire for ever.
// Of those that fall together orders come first, then recovery, then silence.
func (e *settings) next(a *Agent) (at events.Stamp, what agentDue) {
	if o := a.earliestOrder(); o != nil {
		at = o.Due
	}
	if d := a.stuck.due; d != 0 && (at == 0 || d < at) {
		at, what = d, dueRecovery
	}
	if d := e.silenceDue(a); d != 0 && (at == 0 || d < at) {
		at, what = d, dueSilence
	}
	if d := a.budget.Due(); d != 0 && (at == 0 || d < at) {
		at, what = d, dueBudget
	}
	return at, what
}

// advanceOrders fires the deadlines of orders up to now: what is counted goes by the
// time of events at once.
func (e *orderWriter) advanceOrders(a *Agent, now events.Stamp, fx *activity.Effects) {
	for o := a.earliestOrder(); o != nil && o.Due <= now; o = a.earliestOrder() {
		e.orderDue(a, o, fx)
	}
}
