package agents

import (
	"weir/analyzer/ledger"
	"weir/events"
)

// Bounds of what is remembered of one agent. Together they keep its record below
// MaxRecord whatever its producers send.
const (
	maxFlows     = 16  // flows in which it is at work
	maxStamps    = 128 // of one row: no threshold of agent_message_rate, agent_flow_rate and agent_attempts may be above
	maxGaps      = 16  // reports by which the cadence is known
	maxNotes     = 8
	maxNoteBytes = 512 // of one note's summary
	maxNoteTags  = 8
	maxTagBytes  = 48
	maxOrders    = 8
	maxIDs       = 32
	maxTreeIDs   = 240 // of asks: many callers ask at once, and one whose answer was lost asks again
	capBuckets   = 60  // of the window of a cap
)

// MaxRecord is the most bytes that the record of one agent takes.
const MaxRecord = 16 << 10

// Agent is all that is remembered of one agent over all flows, or of one project, of
// which only the caps are counted, or of one tree of flows, of which only the ledger is kept. The zero Agent is one of which nothing was seen.
// Every slice has a cap.
//
// Strings of a decoded Agent alias the record that it was decoded from.
type Agent struct {
	key      string
	clock    events.Stamp // latest time folded; never runs backwards
	last     events.Stamp // when it did something last
	revision int64        // of the last verdict
	events   uint32
	ids      []uint64 // (source, id) of the last reports, notes and requests

	// What it tells of itself.
	reports   uint32         // agent.status events
	stamps    []events.Stamp // of the last reports, newest last
	status    string
	margin    string
	health    string
	coherence float64
	risk      float64
	told      agentTold
	reported  events.Stamp // the last report

	// What flows tell of it.
	works []agentWork

	// What is counted, per row with a window.
	messages []events.Stamp // that escaped, or all; by true time, newest last
	opened   []events.Stamp // flows that agents opened by calling it
	tries    []events.Stamp // calls against standing orders
	caps     agentCap

	orders []order
	stuck  stuck
	shadow stuck // by rows in shadow mode: it has no ladder
	notes  []Note

	tree   ledger.Ledger // of a tree of flows
	within string        // root of the tree that this one belongs to: "" for none, its own where flows name each other in a circle
	grants []treeGrant   // by persons

	tags []string // memory of the tags of notes that were decoded
}

type agentTold uint8

const (
	toldCoherence agentTold = 1 << iota
	toldRisk
	toldVoid
)

// agentWork is what one flow last told of the agent.
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

func deadlineOf(at events.Stamp) moment { return moment{when: at, at: at} }

// stuck is the episode in which an agent is stuck, or may be; the zero stuck is none.
type stuck struct {
	rule        RuleID
	certain     bool         // stuck, not only potentially
	since       events.Stamp // when it was found; 0 for never
	silentSince events.Stamp
	step        recoveryStep
	due         events.Stamp // when the step has to be over; 0 for never
	issued      events.Stamp
	revision    int64
	reviewer    string
	requestedBy string
	extended    bool // the reviewer has acknowledged, once
}

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

// Key returns the key of the agent or project (see AgentKey).
func (a *Agent) Key() string { return a.key }

// Events returns how many events were folded. An agent that was never worth
// remembering has none and needs no record.
func (a *Agent) Events() int64 { return int64(a.events) }

// Last returns when the agent did something last.
func (a *Agent) Last() events.Stamp { return a.last }

// Reset forgets everything but keeps the memory of its slices.
func (a *Agent) Reset(key string) {
	tree := a.tree
	tree.Reset()
	*a = Agent{key: key, ids: a.ids[:0], stamps: a.stamps[:0], works: a.works[:0], messages: a.messages[:0], opened: a.opened[:0],
		tries: a.tries[:0], orders: a.orders[:0], notes: a.notes[:0], tags: a.tags[:0], tree: tree, grants: a.grants[:0]}
}
