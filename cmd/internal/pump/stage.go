package pump

import (
	"weir/analyzer"
	"weir/analyzer/activity"
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
	// traits are what does not change.
	traits() traits

	// admit looks at an event before anything is loaded, and returns the key of what it
	// is about. The key is empty when nothing is left to fold; an error, which makes the
	// record a dead letter, is an *unfit or a *fault.
	admit(ev *events.Event, r *Record) (key string, err error)

	// decode brings a record of memory into scratch; an empty one is that of something new. Strings
	// in scratch alias the record.
	decode(r *cachedRecord) error
	// encode appends the record of what is in scratch, which is that of open.
	encode(dst []byte) ([]byte, error)
	// empty reports whether what is in scratch needs no record.
	empty() bool

	// step folds an event into scratch.
	// What it brings about is added to the effects of the fold.
	step(ev *events.Event)
	// advance fires the deadlines of what is in scratch up to now.
	// It is called with the deadline itself and not with the time of the log, so that what comes
	// of it does not depend on how late the deadline fires.
	advance(now events.Stamp)
	// due is its next deadline; 0 for none.
	due() events.Stamp
	// postponed is the deadline that it gets, where memory has one already: due, or an earlier one.
	postponed(before events.Stamp) events.Stamp
	// answer hands out the answer to a check request. The arguments after ev are the effects of its step.
	answer(r *Record, ev *events.Event, v *events.Verdict, asked bool, told []activity.Activity)
	// foldReports folds a batch of reports, or refuses it.
	foldReports(r *Record)

	// watermark is the time up to which everything is known to be folded, and so the
	// time up to which deadlines fire.
	watermark() events.Stamp
	// seen is the latest time in the log.
	seen() events.Stamp
	// publishLowWatermark says up to when everything was passed on, when the watermark has got on and no
	// deadline before it is left.
	publishLowWatermark()

	// announce lets any goroutine see what the stage has folded over all its flows or agents.
	announce()
	// tally counts what was folded since the last one, of which fx.Counts are counted already.
	tally(records int64)
	// counted is what a replay has counted.
	counted(n *activity.Counts) Counted

	// appendState and restoreState encode what the stage has beside its flows or agents.
	// The bytes depend on the log alone.
	appendState(dst []byte) ([]byte, error)
	restoreState(b []byte) error
}

// traits are what the pump has to know of a stage at each record, as values: a call would cost time.
type traits struct {
	subject state.Subject
	keyed   bool       // its records have the key of what they are about, see Record.Key
	reports bool       // its log has batches of reports beside events
	sweeps  *flowStage // the stage itself, where backlogs can be folded in sweeps; else nil
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

// newStage makes what differs in the stage of the options.
func newStage(f *fold) folding {
	if f.o.Stage == AgentStage {
		return &agentStage{fold: f, sources: newSources(f.o.Sources)}
	}
	s := &flowStage{fold: f, own: analyzer.New(selftest.Limits())}
	s.meter.of = s
	return s
}
