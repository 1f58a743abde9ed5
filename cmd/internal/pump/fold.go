package pump

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"

	"weir/analyzer/activity"
	"weir/events"
	"weir/events/fingerprint"
)

// fold takes records until there are none or until a checkpoint has to be written. It returns how many
// it took. It holds the lock for all of them, so a query waits for one batch at most.
func (p *Pump) fold(records []Record) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.foldLocked(records)
}

// foldLocked is fold for a caller that holds the lock. A deadline fires between two records, as soon
// as a record has made it ripe. So the effects do not depend on where batches end.
func (p *Pump) foldLocked(records []Record) (n int) {
	p.fire() // what a checkpoint or a crash has interrupted
	p.publishLowWatermark()
	for n < len(records) && p.err == nil && !p.full() {
		if n%prefetched == 0 {
			p.prefetch(records[n:min(n+prefetched, len(records))])
		}
		r, d := &records[n], &p.coming[n%prefetched]
		n++
		if r.Offset < p.at.next {
			continue
		}
		p.record(r, d)
		p.at.next = r.Offset + 1
		p.fire()
		p.publishLowWatermark()
	}
	p.close()
	// A record that was skipped because it is known says nothing of what stands before p.next.
	if n > 0 && records[n-1].Offset == p.at.next-1 {
		p.at.last.offset, p.at.last.sum, p.at.last.known = p.at.next-1, Sum(records[n-1].Value), true
	}
	p.tally(int64(n))
	return n
}

// record folds one record or makes it a dead letter. p.err says afterwards whether the pump has
// to end.
func (p *Pump) record(r *Record, d *decoded) {
	p.meter.counted.Bytes += int64(len(r.Value))
	// Reports are no JSON, so prefetch has not decoded them.
	if p.isReports(r) {
		p.takeReports(r)
		return
	}
	if d.err != nil {
		p.outbox.refuse(r, d.err)
		return
	}
	if p.o.Read != nil {
		p.o.Read(r, &d.event)
	}
	d.event.Appended, p.at.appended = r.Appended, r.Appended
	p.take(&d.event, r)
}

// isReports reports whether the record is a batch of reports.
func (p *Pump) isReports(r *Record) bool { return p.o.Stage == AgentStage && IsReports(r.Value) }

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
func (p *Pump) take(ev *events.Event, r *Record) {
	if ev.Kind == events.LimitsSet {
		if err := p.setLimits(ev.Limits); err != nil {
			p.outbox.rejectEvent(events.CodeLimits, err.Error(), ev, r)
		}
		// Also for a document that cannot be read, which leaves the limits of before in force.
		p.at.limits.at, p.at.limits.since = r.Appended, 0
		return
	}
	if ev.Kind != events.Tick {
		// A partition in which only time passes does not need its limits again.
		p.at.limits.since++
	}
	key, err := p.stage.admit(ev, r)
	if err != nil {
		// What panicked may have left half of its effects behind; what was refused has none.
		if codeOf(err) == events.CodePanic {
			p.withdraw()
		}
		p.outbox.rejectEvent(codeOf(err), err.Error(), ev, r)
		return
	}
	if key == "" {
		// A tick, or what is the agent stage's alone, or known already.
		p.repartition(r.Offset)
		return
	}
	if p.err = p.enter(key); p.err != nil {
		return
	}
	if err := p.step(ev); err != nil {
		p.withdraw()
		p.outbox.rejectEvent(codeOf(err), err.Error(), ev, r)
		return
	}
	// What cannot be kept ends the pump, and the log is folded again up to here: nothing may
	// have been said of it.
	if p.err = p.keep(); p.err != nil {
		return
	}
	// The answer may be sent before the verdicts of its batch, see Options.Answer. The log has the
	// check request, and folding it again gives the same answer.
	p.answer(r, ev, p.fx.Answer, p.fx.Asked, p.fx.Activity)
	p.collect(r.Offset)
}

// answer hands out the answer to a check request. The arguments after ev are the effects of its step.
// A panic costs that answer and does not change the fold.
func (p *Pump) answer(r *Record, ev *events.Event, v *events.Verdict, asked bool, told []activity.Activity) {
	if v == nil && !asked {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			p.o.Logger.Error("handing out an answer panicked; the check is answered by its timeout: please report this",
				"key", ev.FlowKey(), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	switch {
	// Here Asked means that the parent tree decides. A request that waits for this tree waits for the
	// parent from now on.
	case p.o.Stage == AgentStage && asked:
		for i := range told {
			if a := &told[i]; a.Event.Ask && p.o.PassedOn != nil {
				p.o.PassedOn(r.From, a.Key, r.Offset)
			}
		}
	case v == nil:
	case p.o.Stage == AgentStage:
		if p.o.Settled != nil {
			p.o.Settled(r.From, ev, v)
		}
	// The flow allows it and its tree has to as well. Which tree that is, is the key of what was
	// passed on for the ask.
	case asked && p.o.Held != nil:
		for i := range told {
			if a := &told[i]; a.Event.Ask {
				p.o.Held(r.Offset, ev, a.Key, v)
			}
		}
	case p.o.Answer != nil:
		p.o.Answer(r.Offset, r.Value, ev, v)
	}
}

// fault is a panic of the core: a bug in weir and not in the record. The stack goes into the log
// and not into the dead letter.
type fault struct {
	value any
	stack []byte
}

func (f *fault) Error() string { return fmt.Sprintf("the fold panicked: %v", f.value) }

// step folds an event into scratch. After an error, which is a fault, scratch must be withdrawn.
func (p *Pump) step(ev *events.Event) (err error) {
	defer p.caught(p.open.key, &err)
	p.stage.step(ev)
	return nil
}

// advance fires the deadlines in scratch up to now, with the errors of step.
func (p *Pump) advance(now events.Stamp) (err error) {
	defer p.caught(p.open.key, &err)
	p.stage.advance(now)
	return nil
}

// caught turns a panic into an error, so that one record cannot stop the pump.
// It has to be deferred itself, because recover works nowhere else. What cannot be recovered is
// left to PoisonRecords.
func (p *Pump) caught(key string, err *error) {
	if r := recover(); r != nil {
		f := &fault{r, debug.Stack()}
		p.o.Logger.Error("the fold panicked; the record becomes a dead letter and its flow or agent stays as it was: please report this",
			"key", key, "panic", fmt.Sprint(r), "stack", string(f.stack))
		*err = f
	}
}

// enter brings the flow or agent into scratch. When it is that of the record before, it
// is there already.
func (p *Pump) enter(key string) error {
	if p.open != nil && p.open.key == key {
		return nil
	}
	p.close()
	// close came first: the flow that is looked up may take the place of the one before in
	// scratch, and its record must be whole by then.
	r, added, err := p.memory.find(key)
	if err != nil {
		return err
	}
	if added {
		p.memory.evict()
	}
	return p.decode(r)
}

// decode brings a flow or agent of memory into scratch.
func (p *Pump) decode(r *cachedRecord) error {
	if err := p.stage.decode(r.key, r.record); err != nil {
		return fmt.Errorf("%s %q: %w", p.memory.subject, r.key, err)
	}
	if s, ok := p.stage.(*flowStage); ok {
		s.scratch.SetKeyHash(r.hash)
		// What a flow was warned and stopped for before it left memory stands in its record only.
		if r.loaded {
			r.loaded, r.judged = false, judgedBy(&s.scratch)
		}
	}
	p.open = r
	return nil
}

// keep encodes what is in scratch. This is done after every event, also when the
// next one is of the same flow, so that what a flow forgets in being encoded cannot
// depend on how records are batched. The bytes replace the record only when scratch
// is closed, because the flow's strings alias the record until then. What needs no
// record leaves no trace.
func (p *Pump) keep() error {
	if p.stage.empty() {
		// One that drop has marked stays, because the next checkpoint has to take its deadline
		// away.
		if len(p.open.record) == 0 && !p.open.dirty {
			p.memory.cache.remove(p.open)
			p.open = nil
		}
		return nil
	}
	encoded, err := p.stage.encode(p.encoded[:0])
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", p.memory.subject, p.open.key, err)
	}
	if s, ok := p.stage.(*agentStage); ok {
		// What reports may skip follows what was kept last, see mayWatch.
		p.open.unwatched = !p.engine.Agents().Watched(&s.scratch)
		if len(p.open.record) == 0 {
			delete(s.nobody, p.open.key)
		}
	}
	p.encoded, p.ahead = encoded, true
	p.postpone(p.open, p.stage.due())
	// The new size counts for the next checkpoint at once, though the record is replaced by
	// close.
	p.memory.note(p.open, encoded)
	return nil
}

// postpone is setDue, but leaves an agent's deadline that is earlier where it is: it fires
// early once, does nothing, and is set anew then. An agent moves its deadline with
// each thing that it says, and two writes in the store would come of each.
func (p *Pump) postpone(r *cachedRecord, due events.Stamp) {
	if p.o.Stage == AgentStage && r.due != 0 && (due == 0 || due > r.due) {
		return
	}
	p.memory.setDue(r, due)
}

// close puts what was encoded last into the record of the open flow.
// It has to come before scratch takes in another flow, and before anything changes by which
// scratch was made: limits, or a time that is turned back.
func (p *Pump) close() {
	if p.open != nil && p.ahead {
		p.memory.cache.set(p.open, p.encoded)
	}
	p.open, p.ahead = nil, false
}

// withdraw forgets what a step that failed has done to the open flow.
// encoded still holds what was kept after the event before, so only the failed step is lost.
func (p *Pump) withdraw() {
	p.close()
	counted := p.fx.Counts
	p.fx.Reset()
	p.fx.Counts = counted // of the steps before, too
}

// fire advances the flows whose deadline the watermark has passed, each at exactly
// its deadline, in the order of time. It stops when a checkpoint has to pass: the
// rest is found again by the watermark and the deadlines, also after a crash.
//
// What they bring about is that of the last record, because that one has moved the watermark.
func (p *Pump) fire() {
	for p.err == nil && p.ripe() && !p.full() {
		if p.memory.deadlines.short(p.stage.watermark()) {
			// Those that are ripe have to be complete before the first of them fires: their
			// order must not depend on which of them memory holds.
			p.err = p.memory.moreDeadlines()
			continue
		}
		key, due, _ := p.memory.deadlines.first()
		if p.err = p.enter(key); p.err != nil {
			return
		}
		if p.stage.due() == due { // or it was postponed
			p.meter.fired(p.open, p.stage.seen().Sub(due))
		}
		if p.stage.empty() { // the store has forgotten the flow, and not the deadline
			p.drop(due)
			continue
		}
		if err := p.advance(due); err != nil {
			p.withdraw()
			p.outbox.reject(events.CodePanic, err.Error(), p.at.next-1, 0, []byte(key))
			r := p.memory.cache.get(key)
			// The record stays as it was. Its next event gives it a deadline again.
			p.memory.setDue(r, 0) // or it would fire for ever
			p.memory.note(r, r.record)
			continue
		}
		// Else postpone would leave the deadline that has just fired where it is.
		p.memory.setDue(p.open, 0)
		if p.err = p.keep(); p.err == nil {
			p.collect(p.at.next - 1)
		}
	}
}

// ripe reports whether a deadline has to fire, or has to be fetched from the store to find out.
func (p *Pump) ripe() bool {
	_, due, ok := p.memory.deadlines.first()
	now := p.stage.watermark()
	return ok && due <= now || p.memory.deadlines.short(now)
}

// drop removes the open flow, which has no record, and its deadline.
func (p *Pump) drop(due events.Stamp) {
	// kept makes the checkpoint remove this entry of the index.
	p.open.kept = due
	p.memory.setDue(p.open, 0)
	p.memory.note(p.open, nil)
	p.close()
}

// collect takes over the verdicts that the last step gave, except those that the
// verdict log holds since before a crash, and passes on what concerns agents.
func (p *Pump) collect(offset int64) {
	p.outbox.takeOver(p.fx.Verdicts, offset)
	if len(p.fx.Verdicts) > 0 {
		// Cleared, so that nothing is kept alive by what was handed on.
		clear(p.fx.Verdicts)
		p.fx.Verdicts = p.fx.Verdicts[:0]
	}
	p.repartition(offset)
}

// addHash fills in the hash of a tool's arguments, by which calls are compared, when
// the producer has sent the arguments alone.
// It leaves out what the limits say to ignore of the arguments, so other limits can make another
// hash of the same record; a hash that the producer sent stays as it is.
func (p *Pump) addHash(ev *events.Event) {
	if len(ev.Tool.Args) == 0 || !ev.Tool.ArgsHash.IsZero() {
		return
	}
	ev.Tool.ArgsHash = fingerprint.Args(ev.Tool.Args, p.engine.Limits().IgnoredArgs(ev.Tool.Name))
}

// setLimits puts limits in force that the log has set. With an error those of before stay.
func (p *Pump) setLimits(document []byte) error {
	if p.o.Parse == nil {
		return errors.New("this pump takes its limits from its options")
	}
	if len(document) > 0 && bytes.Equal(document, p.document) { // repeated, as each log does from time to time
		return nil
	}
	limits, err := p.o.Parse(document)
	if err != nil {
		return err
	}
	p.close() // so that no flow is in scratch across a change of limits
	p.engine = p.o.engine(limits)
	// Each checkpoint holds the document: who goes on there judges by the same limits.
	p.document = append([]byte(nil), document...)
	p.o.Logger.Info("limits are in force", "partition", p.o.Partition, "profile", limits.Profile, "version", limits.Version)
	return nil
}
