package pump

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir/sink/prom"
	"weir/state"
)

// checkpointer gathers the flows that have changed and writes them in the background:
// while one checkpoint is being written the next gathers.
type checkpointer struct {
	o      *Options
	meter  *meter
	hurry  <-chan struct{} // closed when nothing waits for free space any more
	failed error           // of a checkpoint, which ends the pump

	// dirty has each of them once, in the order in which they were touched first.
	dirty []*cachedRecord
	bytes int64 // what the next checkpoint takes, in the units of the store
	// writes is the same in writes of the store, which bounds both.
	writes         int
	written        int64 // Next of the last checkpoint that was handed over
	safe           int64 // Next of the last checkpoint that is on disk
	last           time.Time
	uncheckpointed int64 // records folded since then

	// Numbers count the checkpoints of this pump, from 1. A record may leave memory when the one
	// that it was part of last is durable, see cachedRecord.stored.
	number  uint64 // of the last checkpoint that was handed over
	durable uint64 // of the last checkpoint that is on disk
	// flight gets the result of the checkpoint that is being written; nil when none is.
	flight chan error

	// The memory of the checkpoint in flight, beside that of its records, see copies.
	// It may be used again when that one has landed, not before: the goroutine that writes reads
	// it.
	one   state.Checkpoint
	state []byte
}

// copies are the buffers for the records of checkpoints in flight. All partitions share them, because
// each takes megabytes. One checkpoint is written at a time, except during a hurried shutdown.
var copies = sync.Pool{New: func() any { return new([]byte) }}

// note takes down that a flow has changed, and what its record is now.
func (c *checkpointer) note(r *cachedRecord, record []byte) {
	if !r.dirty {
		r.dirty, r.bytes, r.writes = true, 0, 0
		c.dirty = append(c.dirty, r)
	}
	x := state.Record{Key: r.key, Value: record, Due: r.due, OldDue: r.kept}
	// What it took before is taken off, so that a flow that changes often counts once, by its
	// last size.
	bytes, writes := x.Size()
	c.bytes, c.writes = c.bytes+bytes-r.bytes, c.writes+writes-r.writes
	r.bytes, r.writes = bytes, writes
}

// gathers reports whether the next checkpoint is larger than the given number of quarters of the
// maximum. document is the size of the limits in force.
func (c *checkpointer) gathers(quarters, document int) bool {
	bytes, writes := c.o.Store.MaxCheckpoint()
	bytes -= int64(document + PartitionRoom)
	return c.bytes > bytes/4*int64(quarters) || c.writes > writes/4*quarters
}

// PartitionRoom is an upper bound in bytes for the state of a partition in a checkpoint, without its
// limits. Most of it is reports of flows about their parties that are still waiting. With a store that
// takes no more than this, nothing is folded.
const PartitionRoom = 192 << 10

// Pending reports whether something was folded that no checkpoint holds yet, so that
// Batch should be called again soon even if there are no records.
// It is for the goroutine of Batch.
func (p *Pump) Pending() bool {
	return len(p.checkpoints.dirty) > 0 || p.checkpoints.flight != nil
}

// lazily is how many records without any effect may be folded again after a restart.
const lazily = 1000

// behind reports whether a checkpoint would say anything new.
func (c *checkpointer) behind(next int64) bool { return len(c.dirty) > 0 || next > c.written }

// checkpoint hands over what was gathered when it is time to, and waits when the one
// before is still being written and there is no more room.
func (p *Pump) checkpoint(ctx context.Context) error {
	// A checkpoint that failed ends the pump at its next turn: whether it is on disk is not
	// known.
	if err := p.checkpoints.landed(); err != nil {
		return err
	}
	if len(p.checkpoints.dirty) == 0 && p.at.next-p.checkpoints.written < lazily {
		return nil
	}
	full := p.fold.full()
	if !full && !p.checkpoints.due() {
		return nil
	}
	// One that is due can wait for the one in flight and for those of others, since what is gathered
	// still has room.
	t, free := p.checkpoints.tryTurn()
	if !free {
		if !full {
			return nil
		}
		p.meter.counts.Count(func(n *prom.Counters) { n.CheckpointWaits++ })
		var err error
		if t, err = p.checkpoints.awaitTurn(ctx); err != nil {
			return err
		}
	}
	return p.handOver(ctx, t)
}

// Turn is the right to write a checkpoint. Of the pumps that share it, one holds it at a time. The
// store writes one transaction after the other anyway, and each checkpoint that waits for the store
// takes megabytes. A nil Turn is no right to give back, see awaitTurn.
type Turn chan struct{}

// NewTurn returns a turn that is free.
func NewTurn() Turn { return make(Turn, 1) }

func (t Turn) giveBack() {
	if t != nil {
		<-t
	}
}

// tryTurn takes the turn if it is free.
func (c *checkpointer) tryTurn() (t Turn, free bool) {
	select {
	case c.o.Turn <- struct{}{}:
		return c.o.Turn, true
	default:
		return nil, false
	}
}

// awaitTurn waits for the turn. A pump that hurries continues without it, because the pump that holds
// it may be waiting for free disk space.
func (c *checkpointer) awaitTurn(ctx context.Context) (Turn, error) {
	select {
	case c.o.Turn <- struct{}{}:
		return c.o.Turn, nil
	case <-c.hurry:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A checkpoint writes every flow that was touched since the last one, however often, and
// is only there to bound what is folded again after a crash. So it waits until that would
// take about half a second, or, where little comes, for some times as long as it must.
const (
	mostUncheckpointed = 40_000 // of all pumps of the process
	seldom             = 3      // times CheckpointEvery
)

// due reports whether it is time for a checkpoint that has no other cause. The first checkpoint comes
// as early as possible. It distinguishes a process that makes progress from one that crashes again and
// again.
func (c *checkpointer) due() bool {
	since := c.o.Clock.Now().Sub(c.last)
	return since >= c.o.CheckpointEvery && (c.number == 0 || c.meter.counts.uncheckpointed.Load() >= mostUncheckpointed || since >= seldom*c.o.CheckpointEvery)
}

// landed looks whether the checkpoint in flight is done.
// A nil channel is never ready, so without one in flight there is nothing to look at.
func (c *checkpointer) landed() error {
	select {
	case err := <-c.flight:
		return c.land(err)
	default:
		return nil
	}
}

// await waits for the checkpoint in flight, if there is one, or for the end of ctx.
func (c *checkpointer) await(ctx context.Context) error {
	if c.flight == nil {
		return nil
	}
	select {
	case err := <-c.flight:
		return c.land(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// land takes in the result of the checkpoint that was in flight.
func (c *checkpointer) land(err error) error {
	c.flight = nil
	if err != nil {
		c.failed = err
		return err
	}
	c.durable, c.safe = c.number, c.one.Next
	c.meter.counts.Count(func(n *prom.Counters) { n.Checkpoints++ })
	return nil
}

// handOver starts the next checkpoint, and has the turn given back when that has ended. Everything
// folded is published. It copies what it writes, so that folding goes on meanwhile. After an error,
// which ends the pump, nothing is written: the checkpoint before stands, and all since is folded again.
func (p *Pump) handOver(ctx context.Context, t Turn) error {
	// With the turn it has ended, and its result is there or on its way.
	if err := p.checkpoints.await(ctx); err != nil {
		t.giveBack()
		return err
	}
	folded := p.at.next
	if p.fold.ripe() { // the checkpoint passes amid the deadlines that the last record fires
		folded--
	}
	p.outbox.dedup.pass(folded, p.outbox.verdictsEnd, p.outbox.deadLettersEnd)
	if p.checkpoints.state, p.fold.err = p.appendState(p.checkpoints.state[:0]); p.fold.err != nil {
		t.giveBack()
		return p.fold.err
	}
	p.fold.noRoom = false
	p.checkpoints.start(t, p.memory.subject, p.at.next, p.outbox.dedup.verdictsFrom)
	return nil
}

// start starts a checkpoint of what was gathered: all up to next. published is where the next process
// begins to read the verdict log.
func (c *checkpointer) start(t Turn, subject state.Subject, next, published int64) {
	c.number++
	total := 0
	for _, r := range c.dirty {
		total += len(r.record)
	}
	memory := copies.Get().(*[]byte)
	copied := slices.Grow((*memory)[:0], total)
	// Cleared, so that keys of records that left memory are not kept alive.
	clear(c.one.Records)
	c.one.Records = c.one.Records[:0]
	for _, r := range c.dirty {
		from := len(copied)
		copied = append(copied, r.record...)
		x := state.Record{Subject: subject, Key: r.key, Value: copied[from:len(copied):len(copied)], Due: r.due, OldDue: r.kept}
		if len(r.record) == 0 {
			x.Value = nil
		}
		c.one.Records = append(c.one.Records, x)
		// Clean from here on, though not yet on disk: what changes it next belongs to the next
		// checkpoint.
		r.kept, r.dirty, r.generation = r.due, false, c.number
	}
	clear(c.dirty)
	c.dirty, c.bytes, c.writes = c.dirty[:0], 0, 0
	c.one.Partition, c.one.Next, c.one.Published, c.one.State = c.o.Partition, next, published, c.state
	c.written, c.last = next, c.o.Clock.Now()
	c.meter.counts.uncheckpointed.Add(-c.uncheckpointed)
	c.uncheckpointed = 0
	c.flight = make(chan error, 1)
	*memory = copied
	go c.write(&c.one, memory, c.flight, t)
}

// write commits a checkpoint whose records are in memory, and sends the result to done. It runs in its
// own goroutine. It uses only x and what is safe for any goroutine.
func (c *checkpointer) write(x *state.Checkpoint, memory *[]byte, done chan<- error, t Turn) {
	err := c.commit(x)
	copies.Put(memory) // Commit keeps nothing of it
	t.giveBack()       // before the pump gets the result, because it may want the next turn
	done <- err
}

// commit commits a checkpoint, trying again while there is too little free space.
func (c *checkpointer) commit(x *state.Checkpoint) error {
	start := c.o.Clock.Now()
	err := c.o.Store.Commit(x)
	for errors.Is(err, state.ErrDiskLow) {
		c.meter.standing.checkpointLow.Store(true)
		select {
		case <-c.hurry:
			return err
		case <-c.o.Clock.After(diskRetry):
		}
		if err = c.o.Store.Commit(x); !errors.Is(err, state.ErrDiskLow) {
			c.meter.standing.checkpointLow.Store(false)
		}
	}
	c.meter.standing.CheckpointMS.Store(c.o.Clock.Now().Sub(start).Milliseconds())
	c.o.Metrics.Checkpoint(c.o.Clock.Now().Sub(start))
	return err
}
