package pump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// outbox has the effects of what was folded until they are safe: what concerns agents, dead letters
// and verdicts. It leaves out what the logs have since before a crash.
type outbox struct {
	o     *Options
	meter *meter
	hurry <-chan struct{} // closed when nothing waits for free space any more

	verdictsEnd    int64 // of the verdict log
	deadLettersEnd int64 // end of the dead letters
	// What was folded and is not safe yet, in the order of the log. publish empties both, and activity.
	verdicts    []Emitted
	deadLetters []state.DeadLetter
	activity    repartitioner
	dedup       recoveryDedup
}

// full reports whether no more may wait.
func (b *outbox) full() bool {
	return len(b.verdicts) >= maxWaiting || len(b.deadLetters) >= maxWaiting || len(b.activity.waiting) >= maxWaiting
}

// The most that waits for a publication, so that the memory of a pump is bounded.
const (
	maxWaiting = 4096 // of verdicts, dead letters and re-keyed events each
)

// publish sends what the log has brought about. Verdicts go last: of what comes before the
// last of them everything is out.
func (b *outbox) publish(ctx context.Context) error {
	// None of the three lists is emptied before all of it is safe: a write that fails is tried
	// again with the same values, or ends the pump, and they are folded again. Activity goes
	// before the verdicts because a published verdict proves that what came before it is out,
	// see repartition.
	if len(b.activity.waiting) > 0 {
		if err := b.retryUntilSpace(ctx, func() error { return b.activity.publish(ctx) }); err != nil {
			return fmt.Errorf("pass on what concerns agents: %w", err)
		}
	}
	if len(b.deadLetters) > 0 {
		err := b.retryUntilSpace(ctx, func() (err error) {
			b.deadLettersEnd, err = b.o.DeadLetters.Publish(ctx, b.deadLetters)
			return err
		})
		if err != nil {
			return err
		}
		clear(b.deadLetters)
		b.deadLetters = b.deadLetters[:0]
	}
	if len(b.verdicts) == 0 {
		return nil
	}
	err := b.retryUntilSpace(ctx, func() (err error) {
		b.verdictsEnd, err = b.o.Sink.Emit(ctx, b.verdicts)
		return err
	})
	if err != nil {
		return err
	}
	for i := range b.verdicts {
		// Only what is safe is counted and logged, so figures and lines agree with the verdict
		// log.
		b.meter.published(i, &b.verdicts[i])
	}
	clear(b.verdicts)
	b.verdicts = b.verdicts[:0]
	b.meter.standing.Unsent.Store(0)
	return nil
}

// diskRetry is how long a write that found too little free space waits.
const diskRetry = time.Second

// retryUntilSpace calls write until it finds free space on the disk.
// Other errors it returns at once: after them the pump is thrown away and the next one begins at
// the last checkpoint. Nothing is folded while it waits; the records stay in their log.
func (b *outbox) retryUntilSpace(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err != nil {
			b.meter.counts.Count(func(n *prom.Counters) { n.Unpublished[b.o.Trouble(err)]++ })
		}
		low := errors.Is(err, state.ErrDiskLow)
		// Said when the space ends and when it is back, not with each try.
		if b.meter.standing.publishLow.Swap(low) != low {
			if low {
				b.o.Logger.Error("the pump pauses", "partition", b.o.Partition, "error", err)
			} else {
				b.o.Logger.Info("there is free space again, the pump goes on", "partition", b.o.Partition)
			}
		}
		if !low {
			return err
		}
		select {
		case <-b.o.Clock.After(diskRetry):
		case <-b.hurry:
			return err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// forget drops what would be published with a Store.
func (b *outbox) forget() {
	clear(b.verdicts)
	b.verdicts, b.deadLetters, b.activity.waiting, b.activity.memory = b.verdicts[:0], b.deadLetters[:0], b.activity.waiting[:0], b.activity.memory[:0]
}

// deadBytes is how much memory the dead letters hold that wait to be published.
func (b *outbox) deadBytes() (n int) {
	for i := range b.deadLetters {
		n += len(b.deadLetters[i].Raw)
	}
	return n
}

// takeOver takes over verdicts that the record at an offset has brought about.
func (b *outbox) takeOver(verdicts []events.Verdict, offset int64) {
	for i := range verdicts {
		v := &verdicts[i]
		// Only the verdict is left out. The flow that gave it is folded and kept as ever.
		if b.dedup.published(v.ID, offset) {
			continue
		}
		b.verdicts = append(b.verdicts, Emitted{Verdict: *v, Offset: offset})
		b.meter.come(offset, len(b.verdicts)-1)
	}
}

// refuse makes a dead letter of a record that could not be read.
func (b *outbox) refuse(r *Record, err error) {
	b.reject(codeOf(err), err.Error(), r.Offset, r.Appended, r.Value)
}

// rejectEvent makes a dead letter of an event. One that came without a record is written out.
func (b *outbox) rejectEvent(code events.Code, reason string, ev *events.Event, r *Record) {
	raw := r.Value
	if raw == nil {
		raw = ev.AppendJSON(nil)
	}
	b.reject(code, reason, r.Offset, r.Appended, raw)
}

// reject makes a dead letter, unless the record was one before a crash. The letter keeps a copy:
// it is published when the memory of the record may be its reader's again (see Gather, Ahead).
func (b *outbox) reject(code events.Code, reason string, offset int64, appended events.Stamp, raw []byte) {
	b.meter.counted.Reject(code)
	if b.dedup.wasDeadLetter(offset) {
		return
	}
	b.deadLetters = append(b.deadLetters, state.DeadLetter{Source: b.o.Source, Position: offset, Code: string(code), Reason: reason, Appended: appended, Raw: bytes.Clone(raw)})
}
