package pump

import (
	"context"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/reports"
	"weir/events"
)

// lowWatermarkEvery is how often the flow stage publishes up to when it has passed everything on, in
// milliseconds of its watermark. It is a constant because it decides when an agent is found to be
// silent.
const lowWatermarkEvery = 30_000

// repartitioner passes on to the agent stage what a flow stage, or a tree, has for it. What it has
// passed on depends on the log alone, so that what is sent again after a crash is numbered as before.
type repartitioner struct {
	o *Options
	// published is what the logs had when the pump began.
	published *recoveryDedup
	// waiting is what was folded and is not safe yet, in the order of the log. publish empties it.
	waiting     []Repartitioned
	handOn      func(key string, from Position, ev *events.Event) // gets what concerns agents at once, instead of Activity
	handReports func(from Position, batch []byte)                 // the same

	step   int64 // of the watermark, at which the low watermark was published last
	offset int64 // of the record of which something was made last
	parts  int   // number of its records

	memory []byte // of the values that wait to be sent

	reports  reports.Waiting // of parties, which wait
	reported events.Stamp    // the time of the log when they were passed on last
	batches  []batch         // by partition of the activity; empty but while they are passed on
	key      []byte          // memory of the key of one
}

// repartition passes on what the last step gave for agents, except what went out before a
// crash: whatever came before a verdict that was published is safe.
func (f *fold) repartition(offset int64) {
	if len(f.fx.Activity) == 0 && len(f.fx.Reports) == 0 {
		return
	}
	f.passToAgents(f.fx.Activity, f.fx.Reports, offset)
	f.fx.ResetActivity() // with the memory of what was passed on
}

// passToAgents passes on what the record at an offset has brought about for agents.
func (f *fold) passToAgents(told []activity.Activity, reports []activity.Report, offset int64) {
	for i := range told {
		f.outbox.activity.pass(told[i].Key, offset, &told[i].Event)
	}
	if len(reports) > 0 {
		f.publishReportsDue(offset)
		f.outbox.activity.retain(reports, offset)
	}
}

// pass passes one event on, or leaves it out if it is out already. It takes a number
// either way, so that parts are numbered as the first time.
func (t *repartitioner) pass(key string, offset int64, ev *events.Event) {
	part := t.part(offset)
	switch {
	case t.handOn != nil:
		t.handOn(key, Position{Offset: offset, Part: part}, ev)
	case t.o.Activity == nil || offset < t.published.upTo:
	default:
		from := len(t.memory)
		t.memory = ev.AppendJSON(t.memory)
		// The key is in the memory of the effects.
		t.waiting = append(t.waiting, Repartitioned{Key: strings.Clone(key), Offset: offset, Part: part, Value: t.memory[from:len(t.memory):len(t.memory)]})
	}
}

// part is the place of what comes next among what was made of the record at an offset.
func (t *repartitioner) part(offset int64) int {
	if offset != t.offset {
		t.offset, t.parts = offset, 0
	}
	t.parts++
	return t.parts - 1
}

// publish sends what concerns agents.
func (t *repartitioner) publish(ctx context.Context) error {
	if len(t.waiting) == 0 {
		return nil
	}
	if err := t.o.Activity.Send(ctx, t.waiting); err != nil {
		return err
	}
	clear(t.waiting)
	t.waiting, t.memory = t.waiting[:0], t.memory[:0]
	return nil
}
