package agents

import (
	"weir/analyzer/budgets"
	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/events"
)

// Bounds of what is remembered of one agent. Together they keep its record below
// MaxRecord whatever its producers send.
const (
	// When there are more, flows in which the agent rests give way first, see addWork.
	maxFlows     = 16  // flows in which it is at work
	maxStamps    = 128 // of one row: no threshold of agent_message_rate, agent_flow_rate and agent_attempts may be above
	maxGaps      = 16  // reports by which the cadence is known
	maxNotes     = 8
	maxNoteBytes = 512 // of one note's summary
	maxNoteTags  = 8
	maxTagBytes  = 48
	maxOrders    = 8
	// An event that is repeated after more than this number of other events counts twice.
	maxIDs     = 32
	maxTreeIDs = 240 // of asks: many callers ask at once, and one whose answer was lost asks again
	// The bits of one uint64 say which of them are not 0, so there may be 64 at most.
	capBuckets = 60 // of the window of a cap
)

// MaxRecord is the most bytes that the record of one agent takes.
// Twice that of a flow, because a ledger remembers the children of a tree one by one.
const MaxRecord = 16 << 10

// Agent is the state of one agent over all flows. It is also the state of a project (only the caps are
// counted), of a tree of flows (only the ledger is kept), and of an account of a budget.
// The zero Agent is one of which nothing was seen.
// Every slice has a cap.
//
// Strings of a decoded Agent alias the record that it was decoded from.
// It belongs to the one goroutine that steps it. Only the kind in its key shows what it is the state
// of: the fields of the other kinds stay empty.
type Agent struct {
	agentState
	// Their memory is kept by Reset, as that of the slices.
	tree   ledger.Ledger   // of a tree of flows
	budget budgets.Account // of a budget over flows
}

// agentState is what Reset sets to zero but for the memory of its slices.
type agentState struct {
	subject
	clock events.Stamp // latest time folded; never runs backwards
	last  events.Stamp // when it did something last
	// It grows by at least one with each verdict, also when the stuck episode that it was
	// about is over.
	revision int64 // of the last verdict
	// Only what concerned the agent counts, so an agent that need not be remembered stays at 0 and
	// is never stored.
	events uint32
	ids    []uint64 // (source, id) of the last reports, notes and requests

	selfReport

	// What flows report of it.
	// Written only for agents whose silence is judged, see watched.
	workList

	// What is counted, per row with a window.
	messages []events.Stamp // that escaped, or all; by true time, newest last
	opened   []events.Stamp // flows that agents opened by calling it
	tries    []events.Stamp // calls against standing orders
	caps     agentCap

	orderList
	stuck stuck
	// It runs beside stuck with its own deadlines, so that a row may be tried without touching
	// what is done.
	shadow stuck // by rows in shadow mode: it has no ladder
	notes  []Note

	within string // root of the tree that this one belongs to: "" for none, its own where flows name each other in a circle
	// At most one for each row about trees.
	grants []treeGrant // by persons

	tags []string // memory of the tags of notes that were decoded
}

// subject is what the state is of.
type subject struct {
	// With the kind before the colon, as activity.AgentKey gives it.
	key   string
	marks rules.Marks // tags of the agent, by which limits may exempt
}

// selfReport is what an agent reports of itself.
type selfReport struct {
	reports uint32 // agent.status events
	// maxGaps of them, sorted; the mean gap of them is what cadence_broken goes by.
	stamps []events.Stamp // of the last reports, newest last
	// The last report as it came: what it did not contain is empty, and figures says which figures
	// it had.
	status string
	margin string
	health string
	// From 0 to 1, as the agent says.
	coherence float64
	risk      float64
	figures   figureSet
	reported  events.Stamp // the last report
}

// orderList is the orders about an agent.
type orderList struct{ orders []order }

// workList is what flows last reported of an agent.
type workList struct{ works []agentWork }

// figureSet says which figures the last report had. One that is missing is
// never safe, see safe.
type figureSet uint8

const (
	hasCoherence figureSet = 1 << iota
	hasRisk
	hasVoid
)

// agentWork is what one flow last reported of the agent.
// Of each flow only the last report is kept. The flow is a hash, because it is never looked up
// again, and names would not fit sixteen times.
type agentWork struct {
	flow  uint64 // hash of the flow's key
	state doing
	at    events.Stamp
}

// moment is what one step knows: the event and when it counts.
// A deadline's is made by deadlineOf.
type moment struct {
	ev   *events.Event // nil for a deadline
	when events.Stamp  // true time of the event; for a deadline its own time
	at   events.Stamp  // the agent's clock after it: the time of verdicts; for a deadline its own time
	late bool          // behind the agent's clock
}

// deadlineOf is the moment of a deadline, which fires at its own time whenever it is looked
// at.
func deadlineOf(at events.Stamp) moment { return moment{when: at, at: at} }

// stuck is the episode in which an agent is stuck, or may be; the zero stuck is none.
// An episode begins when silence is found or help is asked for and ends with a sign of life.
// All its verdicts are one order (stuckGroup) with rising revisions.
type stuck struct {
	rule    RuleID
	certain bool         // stuck, not only potentially
	since   events.Stamp // when it was found; 0 for never
	// Since when it was silent as it was found. It outlives the episode when a reviewer or an
	// acknowledgement has the silence counted anew.
	silentSince events.Stamp
	step        recoveryStep
	due         events.Stamp // when the step has to be over; 0 for never
	issued      events.Stamp
	// Of the last order of the episode: an acknowledgement of an older one changes nothing.
	revision int64
	// Who was chosen; it stays known through the steps after it, since an agent is reviewed
	// once.
	reviewer string
	// Who asked for help; "" where silence was found.
	requestedBy string
	extended    bool // the reviewer has acknowledged, once
}

// It stands in stored state, so that numbers are never reused. From stepArchived on the ladder
// is over.
type recoveryStep uint8

// The steps of the ladder.
const (
	stepNone recoveryStep = iota
	stepResume
	stepReview
	stepArchived
	stepNotified
)

// Note is a knowledge note about an agent, as far as it is kept.
type Note struct {
	Time    events.Stamp
	Author  string
	Tags    []string
	Summary string // cut at 512 bytes
}

// Key returns the key of the agent or project (see activity.AgentKey).
func (a *subject) Key() string { return a.key }

// Events returns how many events were folded. An agent that was never worth
// remembering has none and needs no record.
func (a *Agent) Events() int64 { return int64(a.events) }

// Reset forgets everything but keeps the memory of its slices.
// The key is kept and not copied: it must not alias memory that the caller is about to
// overwrite.
func (a *Agent) Reset(key string) {
	// In place, as of a flow: to build an Agent and copy it here would write all of it twice, for each
	// event. The account of a budget is most of it.
	marks, ids, stamps, works, messages, opened, tries := a.marks, a.ids, a.stamps, a.works, a.messages, a.opened, a.tries
	orders, notes, tags, grants := a.orders, a.notes, a.tags, a.grants
	a.tree.Reset()
	a.budget.Reset()
	a.agentState = agentState{}
	a.key = key
	a.marks, a.ids, a.stamps, a.works, a.messages, a.opened, a.tries = marks[:0], ids[:0], stamps[:0], works[:0], messages[:0], opened[:0], tries[:0]
	a.orders, a.notes, a.tags, a.grants = orders[:0], notes[:0], tags[:0], grants[:0]
}
