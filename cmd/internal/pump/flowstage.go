package pump

import (
	"encoding/binary"
	"fmt"
	"slices"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/record"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// flowStage folds events by their flow.
type flowStage struct {
	fold      *fold
	own       *analyzer.Engine // judges weir's own flows
	partition analyzer.Partition
	// scratch is the flow at hand. Its strings alias the record that it was decoded from, which
	// must stay as it is until another flow is decoded, see fold.keep.
	scratch analyzer.Flow
	meter   flowMeter
	// had is what the effects held before the step or deadline at hand.
	had struct{ verdicts, activity, reports int }
}

func (s *flowStage) traits() traits { return traits{subject: state.FlowSubject, sweeps: s} }

// announce shows whether agents report, and logs when limits shrink because everything together is
// busy, and when they return. Load is counted for each partition alone (decision 14), and so it is
// said of each.
func (s *flowStage) announce() {
	f := s.fold
	f.meter.standing.Reporting.Store(s.partition.Reporting)
	switch busy := s.partition.Busy(); {
	case f.meter.standing.Busy.Swap(busy) == busy:
	case busy:
		f.o.Logger.Warn("degraded mode begins: there is more than load.high, and limits shrink", "partition", f.o.Partition)
	default:
		f.o.Logger.Info("degraded mode ends: there is less than load.low, and limits return", "partition", f.o.Partition)
	}
}

// admit applies what the log says about time and fills in what the producer left out. It passes on
// events that concern agents alone.
func (s *flowStage) admit(ev *events.Event, r *Record) (string, error) {
	f := s.fold
	if ev.Kind == events.Tick {
		at := ev.Time
		if ev.Appended != 0 {
			at = min(at, ev.Appended) // a tick is not to be trusted into the future
		}
		if ev.Observed > at && s.partition.Watermark > at {
			s.turnBack(at, r.Offset)
		}
		// Ticks may stand in the log in another order than their times. Time never goes back by
		// one, except by a tick that says so.
		s.partition.Watermark = max(s.partition.Watermark, at)
		s.partition.Reporting = s.partition.Reporting || slices.Contains(ev.Tags, reporting)
		f.meter.counted.Ticks++
		return "", nil
	}
	// Before the flow is looked up: a stranger's event must leave no record of a reserved flow.
	if selftest.OwnFlow(ev.CorrelationID) && ev.Source != selftest.Source {
		return "", &unfit{events.CodeReservedKind, "flows of " + events.SelfTestFlows + " are weir's own, to test itself; choose another id"}
	}
	f.addHash(ev)
	// If the rules about agents take the event it is theirs alone; else it is folded as one that
	// has escaped correlation, see events.Event.FlowKey.
	if ev.CorrelationID == "" {
		if relayed, err := s.relay(ev); relayed || err != nil {
			return "", err
		}
	}
	return ev.FlowKey(), nil
}

// turnBack sets the time of the log back, here and in the agent stage.
func (s *flowStage) turnBack(at events.Stamp, offset int64) {
	f := s.fold
	// What is in scratch was decoded at the time of before.
	f.close() // no flow stays in scratch across it
	s.partition.TurnBack(at)
	// Agents get low watermarks from the new time on. Otherwise they would get none until the log has
	// caught up with the time that was ahead.
	f.outbox.activity.step, f.outbox.activity.reported = int64(at)/lowWatermarkEvery, min(f.outbox.activity.reported, at)
	// 0 would mean that nothing was reported yet, see source.low.
	low := max(1, f.engine.LowWatermark(at))
	// Observed above Time is how such a tick is known, as in TurnBackRecord.
	f.outbox.activity.pass("", offset, &events.Event{ID: fmt.Sprintf("told:%d:back", low), Time: low, Observed: at, Kind: events.Tick})
	f.o.Logger.Warn("the time of the log was taken back: a clock was ahead", "partition", f.o.Partition, "to", at.Time())
}

// relay passes an event on that is about agents alone.
// An error is a fault of the core; then nothing was passed on.
func (s *flowStage) relay(ev *events.Event) (relayed bool, err error) {
	f := s.fold
	defer f.caught("", &err)
	if relayed = f.engine.Relay(&s.partition, ev, &f.fx); relayed {
		f.meter.counted.Events[ev.Kind][prom.Folded]++
	}
	return relayed, nil
}

func (s *flowStage) decode(r *cachedRecord) error {
	if len(r.record) == 0 {
		s.scratch.Reset(r.key)
	} else if err := s.scratch.UnmarshalBinary(r.key, r.record); err != nil {
		return err
	}
	s.scratch.SetKeyHash(r.hash)
	// What a flow was warned and stopped for before it left memory stands in its record only.
	if r.loaded {
		r.loaded, r.judged = false, judgedBy(&s.scratch)
	}
	return nil
}

func (s *flowStage) encode(dst []byte) ([]byte, error) { return s.scratch.AppendBinary(dst) }

// empty: a flow that has taken no event, because the first one was dropped, leaves no record.
func (s *flowStage) empty() bool { return s.scratch.Events() == 0 }

// step folds an event by the limits in force, and counts its effects.
func (s *flowStage) step(ev *events.Event) {
	// before and after measure what the step between them has changed. hush runs last, because after
	// needs the effects of the step.
	s.begin()
	s.meter.before()
	s.judge().Step(&s.partition, &s.scratch, ev, &s.fold.fx)
	s.meter.after(ev)
	s.hush()
}

// advance fires deadlines. There is no event, so nothing is counted as one.
func (s *flowStage) advance(now events.Stamp) {
	s.begin()
	s.judge().Advance(&s.partition, &s.scratch, now, &s.fold.fx)
	// A deadline warns and stops as an event does.
	s.fold.open.judged.hear(s.fold.fx.Verdicts[s.had.verdicts:])
	s.meter.stands()
	s.hush()
}

// begin notes what other steps have brought about that is not taken over yet.
func (s *flowStage) begin() {
	fx := &s.fold.fx
	s.had.verdicts, s.had.activity, s.had.reports = len(fx.Verdicts), len(fx.Activity), len(fx.Reports)
}

// hush withholds the effects of weir's own flows from the agent stage.
func (s *flowStage) hush() {
	if fx := &s.fold.fx; s.fold.open.own {
		fx.Activity, fx.Reports = fx.Activity[:s.had.activity], fx.Reports[:s.had.reports]
	}
}

func (s *flowStage) due() events.Stamp { return s.judge().Due(&s.scratch) }

func (s *flowStage) postponed(events.Stamp) events.Stamp { return s.due() }

func (s *flowStage) answer(r *Record, ev *events.Event, v *events.Verdict, asked bool, told []activity.Activity) {
	o := s.fold.o
	switch {
	case v == nil:
	// The flow allows it and its tree has to as well. Which tree that is, is the key of what was
	// passed on for the ask.
	case asked && o.Held != nil:
		for i := range told {
			if a := &told[i]; a.Event.Ask {
				o.Held(r.Offset, ev, a.Key, v)
			}
		}
	case o.Answer != nil && asked: // no tree is asked here
		o.Answer(r.Offset, r.Value, ev, agents.LastWord(v, nil))
	case o.Answer != nil:
		o.Answer(r.Offset, r.Value, ev, v)
	}
}

// foldReports: only agents have reports.
func (s *flowStage) foldReports(r *Record) { s.fold.outbox.refuse(r, errReports) }

// judge returns the engine for the open flow. Weir's own flows are judged by fixed limits, so that no
// limits file can disable the self-test of loop detection (decision 33).
func (s *flowStage) judge() *analyzer.Engine {
	if s.fold.open.own {
		return s.own
	}
	return s.fold.engine
}

// watermark is a grace behind what was seen: so late may an event come that should have
// been seen before a deadline.
func (s *flowStage) watermark() events.Stamp { return s.partition.Watermark.Add(-activity.Grace) }

func (s *flowStage) seen() events.Stamp { return s.partition.Watermark }

func (s *flowStage) publishLowWatermark() {
	f, t := s.fold, &s.fold.outbox.activity
	step := int64(s.seen()) / lowWatermarkEvery
	// The deadlines of a sweep have fired when it hands on its effects.
	if step <= t.step || !f.sweeping && f.ripe() {
		return
	}
	t.step = step
	// Reports go first, because the tick says that everything up to its time was reported.
	f.publishReportsDue(f.at.next - 1)
	at := f.engine.LowWatermark(s.seen())
	tick := events.Event{ID: fmt.Sprintf("told:%d", at), Time: at, Kind: events.Tick}
	if s.partition.Reporting {
		tick.Tags = []string{reporting}
	}
	t.pass("", f.at.next-1, &tick)
}

// The state is how far activity was passed on to agents, the reports that wait, and then the state of
// the fold.
func (s *flowStage) appendState(dst []byte) ([]byte, error) {
	t := &s.fold.outbox.activity
	dst = binary.AppendVarint(dst, t.step)
	dst = binary.AppendVarint(dst, t.offset)
	dst = t.appendReports(binary.AppendVarint(dst, int64(t.parts)))
	return s.partition.AppendBinary(dst)
}

func (s *flowStage) restoreState(b []byte) error {
	d := record.NewReader(b)
	t := &s.fold.outbox.activity
	t.step, t.offset, t.parts = d.Varint(), d.Varint(), int(d.Varint())
	t.readReports(&d)
	if d.Bad() {
		return errState
	}
	return s.partition.UnmarshalBinary(d.Rest())
}

func (s *flowStage) counted(n *activity.Counts) Counted {
	return Counted{n.Events, n.Duplicates, n.TooLate, n.Refused, n.Strays}
}
