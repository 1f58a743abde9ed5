package activity

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// Grace is how far the watermark of a log has to be past a deadline for it to fire
// without an event of its flow: so late may an event come that should have been seen
// first. It is a constant because it decides verdicts.
const Grace = 5 * time.Second

// What a flow reports of a party: the status of an agent.activity event. The first five are
// the names of Work; logs of an older weir have them in such events.
const (
	WorkActive  = "active"
	WorkInTool  = "in_tool"
	WorkChild   = "waiting_child"
	WorkBackOff = "waiting_backoff"
	WorkDone    = "done"
	WorkRefused = "refused"    // it tried calls that an order refused, as many as total_updates says; events of it are in logs of an older weir alone
	WorkSpoken  = "spoken_for" // who took over from it reported
	WorkOpened  = "opened"     // it opened a flow by calling the agent of the key

	// Of a flow, to the conversation in which it was opened.
	WorkWoken = "woken" // an agent opened it by calling another one, and is not known to have worked
	WorkMoved = "moved" // it moved on: a tool was used, or a person spoke

	// Of a flow that no person opened, to the agent that it began with.
	WorkBegun = "begun" // with its brief; the margin is the origin of the call
	WorkCame  = "came"  // and what it came to

	// Of a flow, to the tree that it belongs to: work and usage are what it spent since its last report.
	WorkSpent = "spent"
	WorkEnded = "ended" // and it is over
	// Of the flow of the key, to those that name it as their root: the tree that it belongs to.
	WorkBelongs = "belongs"
	// Of a flow, to the account of a budget: a call has its result, or is withdrawn because a check
	// after the account's refused it.
	WorkSettled   = "settled"
	WorkWithdrawn = "withdrawn"
)

// Report is what a step of a flow reports to the agent stage about a party that did something. Of the
// reports of one flow and party only the last counts, and the sum of the tries. The sender may
// therefore keep a report for as long as Limits.Agents.Report, in the place of the one before it.
// Reports that must not wait are the exception. Before the sender reports a time as passed, it must send
// all reports from before that time (see Engine.LowWatermark). Strings alias the flow: they are valid as
// long as those of Activity.
type Report struct {
	Flow   uint64                   // a hash of its key
	Party  uint64                   // a hash of flow and party, see Identify; 0 when not computed yet
	Name   string                   // the party: as the flow calls it
	Agent  string                   // its stable id, if that is another one
	Did    events.Stamp             // when it did something last; 0 when only its tries are reported
	Source events.CorrelationSource // by what the flow is known
	Work   Work                     // how the party is at work

	// Its tries against orders that it could know of are summed up until they are reported.
	Tries uint16       // number of calls
	Tried events.Stamp // the last of them
	Nth   uint16       // which against its order the last was, from 1
	Now   bool         // it must not wait: a rule may trigger at this number
}

// Work is how a party is at work, as far as a flow can see. Logs contain it, so
// numbers are never reused.
type Work uint8

// The ways of being at work, and the status by which agent.activity names each.
const (
	AtWork    Work = iota // it did something, and something else is expected of it
	InTool                // a tool that it called has not answered
	OnChild               // an agent that it called is at work
	OnBackOff             // it was asked to wait
	Done                  // it gave control back: nothing is expected of it
	WorkCount
)

var workNames = [WorkCount]string{WorkActive, WorkInTool, WorkChild, WorkBackOff, WorkDone}

// WorkNamed returns the way of being at work that an agent.activity names so.
func WorkNamed(status string) (Work, bool) {
	i := slices.Index(workNames[:], status)
	return Work(max(i, 0)), i >= 0
}

// String returns the status by which an agent.activity names it.
func (w Work) String() string { return workNames[w] }

// Identify works out the hash by which reports of the same party of the same flow are known. Who makes
// a report does it while the names are in the caches of the processor.
func (r *Report) Identify() {
	r.Party = (r.Flow*0x9e3779b97f4a7c15 ^ xxhash.Sum64String(r.Name)) * 0xff51afd7ed558ccd
	if r.Agent != "" {
		r.Party ^= xxhash.Sum64String(r.Agent)
	}
}

// KeepWork keeps of a report what the party did.
func (r *Report) KeepWork() { r.Tries, r.Tried, r.Nth = 0, 0, 0 }

// KeepTries keeps of a report what the party tried.
func (r *Report) KeepTries() { r.Did, r.Work = 0, 0 }

// Who returns the party.
func (r *Report) Who() events.Party {
	if r.Agent != "" {
		return events.Party{Session: r.Name, Agent: r.Agent}
	}
	return events.Party{Agent: r.Name}
}

// AppendKey appends the key of the agent (see AgentKey) to dst.
func (r *Report) AppendKey(dst []byte) []byte {
	dst = append(dst, AgentPrefix...)
	if r.Agent != "" {
		return append(dst, r.Agent...)
	}
	return append(dst, r.Name...)
}
