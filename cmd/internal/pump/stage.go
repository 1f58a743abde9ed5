package pump

import (
	"weir/analyzer"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/state"
)

// Stage says what a pump folds.
type Stage uint8

// The stages. The flow stage folds events by their flow, and passes on what concerns
// agents; that is what the agent stage folds, by the agent or project.
const (
	FlowStage Stage = iota
	AgentStage
)

// folding is what differs between the stages: what a record is about, and how that is
// decoded, stepped and encoded. One flow or agent at a time is in its scratch.
type folding interface {
	// admit looks at an event before anything is loaded, and returns the key of what it
	// is about. The key is empty when nothing is left to fold; an error, which makes the
	// record a dead letter, is an *unfit or a *fault.
	admit(ev *events.Event, r *Record) (key string, err error)

	// decode brings a record into scratch; an empty one is that of something new. Strings
	// in scratch alias the record.
	decode(key string, record []byte) error
	// encode appends the record of what is in scratch.
	encode(dst []byte) ([]byte, error)
	// empty reports whether what is in scratch needs no record.
	empty() bool

	// step folds an event into scratch.
	// What it brings about is added to the effects of the pump.
	step(ev *events.Event)
	// advance fires the deadlines of what is in scratch up to now.
	// It is called with the deadline itself and not with the time of the log, so that what comes
	// of it does not depend on how late the deadline fires.
	advance(now events.Stamp)
	// due is its next deadline; 0 for none.
	due() events.Stamp

	// watermark is the time up to which everything is known to be folded, and so the
	// time up to which deadlines fire.
	watermark() events.Stamp
	// seen is the latest time in the log.
	seen() events.Stamp

	// appendState and restoreState encode what the stage has beside its flows or agents.
	// The bytes depend on the log alone.
	appendState(dst []byte) ([]byte, error)
	restoreState(b []byte) error
}

// unfit is the reason why a record is a dead letter. The fault lies with the writer of the record, and
// has a code that is counted.
type unfit struct {
	code   events.Code
	reason string
}

// Error is the reason alone: the dead letter holds the place and the record beside it.
func (r *unfit) Error() string { return r.reason }

// StageOf returns the stage that the state of a partition belongs to, from its checkpoint
// (state.Meta).
func StageOf(b []byte) Stage {
	if len(b) > 1 && (b[0] == stateVersion || b[0] == reportsWaited) {
		return Stage(b[1])
	}
	return FlowStage
}

// stageOf makes what differs in the stage of the options.
func (f *fold) stageOf(o *Options) (folding, state.Subject) {
	if o.Stage == AgentStage {
		return &agentStage{fold: f, sources: newSources(o.Sources)}, state.AgentSubject
	}
	f.sweeps = &flowStage{fold: f, own: analyzer.New(selftest.Limits())}
	return f.sweeps, state.FlowSubject
}
