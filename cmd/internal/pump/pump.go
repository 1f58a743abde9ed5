package pump

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// Pump folds the records of one partition of a log into flows, or into agents (see Stage). It
// publishes the effects, and only then writes a checkpoint. The effects depend on the records alone,
// neither on batches nor on crashes in between.
//
// Batch, Gather, Fold and Close are for one goroutine; Hurry and the methods of Views are for all.
type Pump struct {
	Views

	o        *Options // of all its parts
	at       frontier
	gathered int // number of records folded since the last publication, see Gather

	feeder      feeder
	fold        fold
	memory      memory
	outbox      outbox
	checkpoints checkpointer
	meter       meter

	hurry   chan struct{} // closed when nothing waits for free space any more
	hurries sync.Once
}

// New returns a pump that goes on where the last checkpoint of its partition in
// the store left off.
//
// With a store it reads what the verdict log and the dead letters hold behind that checkpoint,
// which takes as long as they are. ctx ends it, and is not kept.
func New(ctx context.Context, o Options) (*Pump, error) {
	o.setDefaults()
	p := &Pump{o: &o, at: frontier{next: o.Start}, hurry: make(chan struct{})}
	p.meter = newMeter(&o, &p.at)
	p.memory = memory{o: &o, checkpoints: &p.checkpoints, cache: newRecordCache(), deadlines: newDeadlines(0)}
	p.checkpoints.o, p.checkpoints.meter, p.checkpoints.hurry = &o, &p.meter, p.hurry
	p.outbox = outbox{o: &o, meter: &p.meter, hurry: p.hurry, activity: repartitioner{o: &o, published: &p.outbox.dedup}}
	p.fold = fold{o: &o, at: &p.at, memory: &p.memory, outbox: &p.outbox, meter: &p.meter, checkpoints: &p.checkpoints, engine: o.engine(o.Limits)}
	p.feeder = feeder{o: &o, at: &p.at, memory: &p.memory, fold: &p.fold, outbox: &p.outbox, checkpoints: &p.checkpoints, meter: &p.meter}
	p.fold.stage = newStage(&p.fold)
	p.fold.traits = p.fold.stage.traits()
	p.memory.subject = p.fold.traits.subject
	p.Views = newViews(&p.fold)
	if o.Store == nil {
		return p, nil
	}
	if o.Sink == nil {
		return nil, errors.New("pump: a store needs a sink for the verdicts")
	}
	// Without a store there is nothing that deadlines could be fetched from, so all were to be
	// held.
	p.memory.deadlines = newDeadlines(o.Memory)
	if p.o.DeadLetters == nil {
		p.o.DeadLetters = &storedDeadLetters{o.Store, o.Source}
	}
	if err := p.resume(ctx); err != nil {
		return nil, fmt.Errorf("resume partition %d: %w", o.Partition, err)
	}
	return p, nil
}

// Batch folds records in their order and returns when their verdicts are published.
// Their checkpoint follows in the background, see due. The
// records may be reused when it returns. Batch without records publishes what is
// left and lets a checkpoint pass that is due.
//
// Records below Next are skipped. An error is final: the pump must be thrown away,
// and the next one folds again from the last checkpoint.
func (p *Pump) Batch(ctx context.Context, records []Record) error {
	return p.batch(ctx, records, p.feeder.feed)
}

func (p *Pump) batch(ctx context.Context, records []Record, fold func([]Record) int) error {
	defer p.meter.timed(len(records))()
	for {
		// fold stops when what was folded just fits into a checkpoint, and settle makes room. So
		// there is one turn for each such part. Deadlines that the last record has made ripe
		// fire here as well: what the log has decided already must not wait for its next record.
		n := fold(records)
		records = records[n:]
		if err := p.settle(ctx); err != nil {
			return err
		}
		if len(records) == 0 && !p.fold.ripe() {
			return nil
		}
	}
}

// mostGathered is how many records Gather folds before their effects are published.
const mostGathered = 1 << 13

// mostDeadBytes is how much of the dead letters is held back meanwhile.
const mostDeadBytes = 1 << 20

// Gather is Batch for records with a backlog behind them. Their effects may wait, within bounds, and
// are published with those of later records, because each publication costs the brokers as much as
// hundreds of records. Batch publishes them. Records of flows are folded flow by flow (see sweep)
// unless Options.InOrder is set. So the error may be ErrInOrder.
func (p *Pump) Gather(ctx context.Context, records []Record) error {
	// Without a store nothing is published that could be saved.
	if p.o.Store == nil {
		return p.Batch(ctx, records)
	}
	p.gathered += len(records)
	done := p.meter.timed(len(records))
	n := p.feeder.foldSwept(records)
	done()
	// No more can wait after an error, with a full checkpoint or one that is due, or with too much
	// memory held by dead letters.
	if n == len(records) && p.fold.err == nil && p.gathered <= mostGathered && !p.fold.full() && !p.checkpoints.due() && p.outbox.deadBytes() < mostDeadBytes {
		return nil
	}
	return p.batch(ctx, records[n:], p.feeder.foldSwept)
}

// Gathered reports whether Gather has folded records of which nothing is published yet. It is
// for the goroutine of Batch.
func (p *Pump) Gathered() bool { return p.gathered > 0 }

// Ahead folds records like Batch, but waits for nothing: it publishes no verdicts and writes no
// checkpoint. The caller already has its answer; the next Batch publishes the remaining effects. The
// exception are events that concern agents, if nothing must be published before or with them and
// Options.ActivityWaits is not set. It returns how many records it has folded, and whether that Batch
// is due at once.
func (p *Pump) Ahead(ctx context.Context, records []Record) (n int, due bool) {
	// To wait for him would make an ask as slow as a list of flows; the next Batch folds these.
	if !p.fold.mu.TryLock() { // a query holds the lock
		return 0, true
	}
	n, due = p.aheadLocked(records)
	if len(p.outbox.activity.waiting) > 0 && !due {
		due = p.o.ActivityWaits || p.outbox.activity.publish(ctx) != nil // which Batch does, or tries again
	}
	return n, due
}

// aheadLocked folds for Ahead, which holds the lock, and gives it back.
func (p *Pump) aheadLocked(records []Record) (n int, due bool) {
	defer p.fold.mu.Unlock()
	defer p.meter.timed(len(records))()
	n = p.feeder.foldLocked(records)
	return n, n < len(records) || p.fold.err != nil || len(p.outbox.verdicts) > 0 || len(p.outbox.deadLetters) > 0 || p.fold.ripe()
}

// Refuse makes a record a dead letter without folding it, as Batch does with one that
// cannot be read.
// It is for what must not be read again, a record at which the process has ended, and for what
// could not be read at all.
func (p *Pump) Refuse(ctx context.Context, r Record, code events.Code, reason string) error {
	p.fold.mu.Lock()
	if r.Offset >= p.at.next {
		p.outbox.reject(code, reason, r.Offset, r.Appended, r.Value)
		p.at.next = r.Offset + 1
		p.feeder.tally(1)
	}
	p.fold.mu.Unlock()
	return p.Batch(ctx, nil)
}

// Last returns the offset of the last record that was folded, and a checksum of it;
// false when that is not known.
// It is for the goroutine of Batch.
func (p *Pump) Last() (offset int64, sum uint64, ok bool) {
	return p.at.last.offset, p.at.last.sum, p.at.last.known
}

// Sum is the checksum that Last returns.
func Sum(value []byte) uint64 { return xxhash.Sum64(value) }

// SinceLimits returns when the log took the last limits, and how many events came
// after them. It is for the goroutine of Batch.
func (p *Pump) SinceLimits() (at events.Stamp, n int64) { return p.at.limits.at, p.at.limits.since }

// Durable returns the offset up to which the last checkpoint goes that is on disk. It
// is for the goroutine of Batch.
func (p *Pump) Durable() int64 { return p.checkpoints.safe }

// Fold is Batch for callers that hold an event already, and want its verdicts
// instead of having them published: ev is folded as the record at offset, and what
// it brought about is returned. The result is good until the next call. With a Store
// the verdicts are published as well, by the next Batch, which must come at least
// every thousand events.
func (p *Pump) Fold(ev *events.Event, offset int64) []events.Verdict {
	return p.FoldRecord(ev, &Record{Offset: offset, Appended: ev.Appended})
}

// FoldRecord is Fold of an event that came as a record, of which only the value may be
// missing.
func (p *Pump) FoldRecord(ev *events.Event, r *Record) []events.Verdict {
	return p.feeder.foldOne(r, func() { p.fold.take(ev, r) })
}

// Close publishes what still waits, writes a last checkpoint and waits for it. If ctx ends first, or
// after an error, the checkpoint may be missing. Nothing is lost by that.
func (p *Pump) Close(ctx context.Context) error {
	defer p.CloseWithoutCheckpoint()
	if p.o.Store == nil {
		return nil
	}
	// What was gathered or folded ahead goes out first: no checkpoint may hold a flow of which a
	// verdict is not published.
	if err := p.Batch(ctx, nil); err != nil {
		return err
	}
	if err := p.checkpoints.await(ctx); err != nil {
		return err
	}
	// The checkpoint that was in flight has not what was folded since it was handed over.
	if p.checkpoints.behind(p.at.next) {
		t, err := p.checkpoints.awaitTurn(ctx)
		if err != nil {
			return err
		}
		if err := p.handOver(ctx, t); err != nil {
			return err
		}
	}
	return p.checkpoints.await(ctx)
}

// CloseWithoutCheckpoint ends the pump without a last checkpoint, as a crash would, and returns when
// it uses the store no more. It must not be called while Batch runs.
func (p *Pump) CloseWithoutCheckpoint() {
	// Else a write that waits for free space would hold this up for as long as the disk is full.
	p.Hurry()
	c := &p.checkpoints
	if c.flight != nil {
		<-c.flight
		c.flight = nil
	}
	// The count is shared: other pumps go on, and must not take checkpoints for what this one
	// leaves.
	p.meter.counts.uncheckpointed.Add(-c.uncheckpointed)
	c.uncheckpointed = 0
}

// Hurry makes Batch and Close return state.ErrDiskLow instead of waiting for free
// space, for there is no more time. Any goroutine may call it.
func (p *Pump) Hurry() { p.hurries.Do(func() { close(p.hurry) }) }

// settle publishes what was folded and lets a checkpoint pass when one is due.
func (p *Pump) settle(ctx context.Context) error {
	if p.fold.err != nil {
		return p.fold.err
	}
	if p.o.Store == nil {
		p.outbox.forget()
		return nil
	}
	p.gathered = 0
	if err := p.outbox.publish(ctx); err != nil {
		return fmt.Errorf("publish the verdicts of %s up to %d: %w", p.o.Source, p.at.next, err)
	}
	err := p.checkpoint(ctx)
	if p.checkpoints.failed != nil {
		p.fold.err = p.checkpoints.failed
	}
	return err
}
