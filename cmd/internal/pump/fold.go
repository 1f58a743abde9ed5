package pump

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/events"
	"weir/events/fingerprint"
)

// fold takes one record or deadline after the other into the flows or agents that they are about. It
// does not know which of them it folds, see folding. Its caller holds the lock of the pump.
type fold struct {
	mu          sync.Mutex // held while records are folded, for those who look at flows and agents
	o           *Options
	at          *frontier
	memory      *memory
	outbox      *outbox
	meter       *meter
	checkpoints *checkpointer

	engine   *analyzer.Engine
	stage    folding
	traits   traits // of the stage
	document []byte // of the last limits.set; nil when there was none

	open  *cachedRecord // whose flow is in the scratch of the stage
	ahead bool          // scratch is ahead of the record of open: encoded holds what it should be
	// encoded is the record of what is in scratch. It takes the place of that of open when
	// scratch is closed, see keep.
	encoded []byte
	// fx is what steps have brought about since it was reset; its memory is used for all of
	// them.
	fx  analyzer.Effects
	err error // ends the pump

	sweeping bool   // a sweep is under way
	sweeps   uint64 // so many were planned
	noRoom   bool   // a sweep finds no room in the checkpoint that is gathered
}

// engine returns what judges by the limits.
func (o *Options) engine(l analyzer.Limits) *analyzer.Engine {
	// An engine that observes judges the same, so backtests fold what a live pump would.
	e := analyzer.New(l)
	if o.Observe != nil {
		e = e.Observing(o.Observe)
	}
	return e
}

// codeOf is the code of a dead letter.
func codeOf(err error) events.Code {
	switch e := err.(type) {
	case *events.DecodeError:
		return e.Code
	case *unfit:
		return e.code
	case *fault:
		return events.CodePanic
	}
	return "other"
}

// take folds one event. r has no value when the event did not come as a record.
func (f *fold) take(ev *events.Event, r *Record) {
	if ev.Kind == events.LimitsSet {
		if err := f.setLimits(ev.Limits); err != nil {
			f.outbox.rejectEvent(events.CodeLimits, err.Error(), ev, r)
		}
		// Also for a document that cannot be read, which leaves the limits of before in force.
		f.at.limits.at, f.at.limits.since = r.Appended, 0
		return
	}
	if ev.Kind != events.Tick {
		// A partition in which only time passes does not need its limits again.
		f.at.limits.since++
	}
	key, err := f.stage.admit(ev, r)
	if err != nil {
		// What panicked may have left half of its effects behind; what was refused has none.
		if codeOf(err) == events.CodePanic {
			f.withdraw()
		}
		f.outbox.rejectEvent(codeOf(err), err.Error(), ev, r)
		return
	}
	if key == "" {
		// A tick, or what is the agent stage's alone, or known already.
		f.repartition(r.Offset)
		return
	}
	if f.err = f.enter(key); f.err != nil {
		return
	}
	if err := f.step(ev); err != nil {
		f.withdraw()
		f.outbox.rejectEvent(codeOf(err), err.Error(), ev, r)
		return
	}
	// What cannot be kept ends the pump, and the log is folded again up to here: nothing may
	// have been said of it.
	if f.err = f.keep(); f.err != nil {
		return
	}
	// The answer may be sent before the verdicts of its batch, see Options.Answer. The log has the
	// check request, and folding it again gives the same answer.
	f.answer(r, ev, f.fx.Answer, f.fx.Asked, f.fx.Activity)
	f.collect(r.Offset)
}

// answer hands out the answer to a check request. The arguments after ev are the effects of its step.
// A panic costs that answer and does not change the fold.
func (f *fold) answer(r *Record, ev *events.Event, v *events.Verdict, asked bool, told []activity.Activity) {
	if v == nil && !asked {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			f.o.Logger.Error("handing out an answer panicked; the check is answered by its timeout: please report this",
				"key", ev.FlowKey(), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	f.stage.answer(r, ev, v, asked, told)
}

// fault is a panic of the core: a bug in weir and not in the record. The stack goes into the log
// and not into the dead letter.
type fault struct {
	value any
	stack []byte
}

func (f *fault) Error() string { return fmt.Sprintf("the fold panicked: %v", f.value) }

// step folds an event into scratch. After an error, which is a fault, scratch must be withdrawn.
func (f *fold) step(ev *events.Event) (err error) {
	defer f.caught(f.open.key, &err)
	f.stage.step(ev)
	return nil
}

// advance fires the deadlines in scratch up to now, with the errors of step.
func (f *fold) advance(now events.Stamp) (err error) {
	defer f.caught(f.open.key, &err)
	f.stage.advance(now)
	return nil
}

// caught turns a panic into an error, so that one record cannot stop the pump.
// It has to be deferred itself, because recover works nowhere else. What cannot be recovered is
// left to PoisonRecords.
func (f *fold) caught(key string, err *error) {
	if r := recover(); r != nil {
		x := &fault{r, debug.Stack()}
		f.o.Logger.Error("the fold panicked; the record becomes a dead letter and its flow or agent stays as it was: please report this",
			"key", key, "panic", fmt.Sprint(r), "stack", string(x.stack))
		*err = x
	}
}

// enter brings the flow or agent into scratch. When it is that of the record before, it
// is there already.
func (f *fold) enter(key string) error {
	if f.open != nil && f.open.key == key {
		return nil
	}
	f.close()
	// close came first: the flow that is looked up may take the place of the one before in
	// scratch, and its record must be whole by then.
	r, added, err := f.memory.find(key)
	if err != nil {
		return err
	}
	if added {
		f.memory.evict()
	}
	return f.decode(r)
}

// decode brings a flow or agent of memory into scratch.
func (f *fold) decode(r *cachedRecord) error {
	if err := f.stage.decode(r); err != nil {
		return fmt.Errorf("%s %q: %w", f.memory.subject, r.key, err)
	}
	f.open = r
	return nil
}

// keep encodes what is in scratch. This is done after every event, also when the
// next one is of the same flow, so that what a flow forgets in being encoded cannot
// depend on how records are batched. The bytes replace the record only when scratch
// is closed, because the flow's strings alias the record until then. What needs no
// record leaves no trace.
func (f *fold) keep() error {
	if f.stage.empty() {
		// One that drop has marked stays, because the next checkpoint has to take its deadline
		// away.
		if len(f.open.record) == 0 && !f.open.dirty {
			f.memory.cache.remove(f.open)
			f.open = nil
		}
		return nil
	}
	encoded, err := f.stage.encode(f.encoded[:0])
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", f.memory.subject, f.open.key, err)
	}
	f.encoded, f.ahead = encoded, true
	f.memory.setDue(f.open, f.stage.postponed(f.open.due))
	// The new size counts for the next checkpoint at once, though the record is replaced by
	// close.
	f.memory.note(f.open, encoded)
	return nil
}

// close puts what was encoded last into the record of the open flow.
// It has to come before scratch takes in another flow, and before anything changes by which
// scratch was made: limits, or a time that is turned back.
func (f *fold) close() {
	if f.open != nil && f.ahead {
		f.memory.cache.set(f.open, f.encoded)
	}
	f.open, f.ahead = nil, false
}

// withdraw forgets what a step that failed has done to the open flow.
// encoded still holds what was kept after the event before, so only the failed step is lost.
func (f *fold) withdraw() {
	f.close()
	counted := f.fx.Counts
	f.fx.Reset()
	f.fx.Counts = counted // of the steps before, too
}

// fire advances the flows whose deadline the watermark has passed, each at exactly
// its deadline, in the order of time. It stops when a checkpoint has to pass: the
// rest is found again by the watermark and the deadlines, also after a crash.
//
// What they bring about is that of the last record, because that one has moved the watermark.
func (f *fold) fire() {
	for f.err == nil && f.ripe() && !f.full() {
		if f.memory.deadlines.short(f.stage.watermark()) {
			// Those that are ripe have to be complete before the first of them fires: their
			// order must not depend on which of them memory holds.
			f.err = f.memory.moreDeadlines()
			continue
		}
		key, due, _ := f.memory.deadlines.first()
		if f.err = f.enter(key); f.err != nil {
			return
		}
		if f.stage.due() == due { // or it was postponed
			f.meter.fired(f.open, f.stage.seen().Sub(due))
		}
		if f.stage.empty() { // the store has forgotten the flow, and not the deadline
			f.drop(due)
			continue
		}
		if err := f.advance(due); err != nil {
			f.withdraw()
			f.outbox.reject(events.CodePanic, err.Error(), f.at.next-1, 0, []byte(key))
			r := f.memory.cache.get(key)
			// The record stays as it was. Its next event gives it a deadline again.
			f.memory.setDue(r, 0) // or it would fire for ever
			f.memory.note(r, r.record)
			continue
		}
		// Else it would be postponed, which leaves the deadline that has just fired where it is.
		f.memory.setDue(f.open, 0)
		if f.err = f.keep(); f.err == nil {
			f.collect(f.at.next - 1)
		}
	}
}

// ripe reports whether a deadline has to fire, or has to be fetched from the store to find out.
func (f *fold) ripe() bool {
	_, due, ok := f.memory.deadlines.first()
	now := f.stage.watermark()
	return ok && due <= now || f.memory.deadlines.short(now)
}

// drop removes the open flow, which has no record, and its deadline.
func (f *fold) drop(due events.Stamp) {
	// kept makes the checkpoint remove this entry of the index.
	f.open.kept = due
	f.memory.setDue(f.open, 0)
	f.memory.note(f.open, nil)
	f.close()
}

// collect takes over the verdicts that the last step gave, except those that the
// verdict log holds since before a crash, and passes on what concerns agents.
func (f *fold) collect(offset int64) {
	f.outbox.takeOver(f.fx.Verdicts, offset)
	if len(f.fx.Verdicts) > 0 {
		// Cleared, so that nothing is kept alive by what was handed on.
		clear(f.fx.Verdicts)
		f.fx.Verdicts = f.fx.Verdicts[:0]
	}
	f.repartition(offset)
}

// addHash fills in the hash of a tool's arguments, by which calls are compared, when
// the producer has sent the arguments alone.
// It leaves out what the limits say to ignore of the arguments, so other limits can make another
// hash of the same record; a hash that the producer sent stays as it is.
func (f *fold) addHash(ev *events.Event) {
	if len(ev.Tool.Args) == 0 || !ev.Tool.ArgsHash.IsZero() {
		return
	}
	ev.Tool.ArgsHash = fingerprint.Args(ev.Tool.Args, f.engine.Limits().IgnoredArgs(ev.Tool.Name))
}

// setLimits puts limits in force that the log has set. With an error those of before stay.
func (f *fold) setLimits(document []byte) error {
	if f.o.Parse == nil {
		return errors.New("this pump takes its limits from its options")
	}
	if len(document) > 0 && bytes.Equal(document, f.document) { // repeated, as each log does from time to time
		return nil
	}
	limits, err := f.o.Parse(document)
	if err != nil {
		return err
	}
	f.close() // so that no flow is in scratch across a change of limits
	f.engine = f.o.engine(limits)
	// Each checkpoint holds the document: who goes on there judges by the same limits.
	f.document = append([]byte(nil), document...)
	f.o.Logger.Info("limits are in force", "partition", f.o.Partition, "profile", limits.Profile, "version", limits.Version)
	return nil
}

// full reports whether nothing more may be folded before a publication, because
// all that is gathered has to fit into one checkpoint.
func (f *fold) full() bool {
	if f.o.Store == nil {
		return false
	}
	// A quarter stays free for what one more record may bring: a batch of reports touches
	// hundreds of agents (see mostReports), and is never folded in part.
	return f.noRoom || f.checkpoints.gathers(3, len(f.document)) || f.outbox.full()
}
