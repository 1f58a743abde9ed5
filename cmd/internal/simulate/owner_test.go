package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"weir/cmd/internal/pump"
	"weir/events"
)

// How what an owner waits for can fail.
var (
	errBroker = errors.New("a broker of the simulation fails")
	errDisk   = errors.New("a disk of the simulation fails")
	errFenced = errors.New("another owner has taken over")
	errKilled = errors.New("the process was killed")
)

// process is one weir: what is killed together, over one disk.
// Memory that is lost by a kill is that of its owners, each of which has a pump of its own.
type process struct {
	name int
	// Replaced when it is lost; owners that are made later get the new one.
	disk *disk
	turn pump.Turn
}

// owner folds a partition in a process. It begins when the group assigns the partition, and ends when
// it is notified, is fenced by another owner, or is killed.
type owner struct {
	world     *world
	process   *process
	partition int
	number    int // of all owners there were
	// leaving ends when the group wants the partition back: the owner finishes what it has and takes a last
	// checkpoint. It is derived from hard, so that abort ends both.
	leaving context.Context
	revoke  context.CancelFunc
	hard    context.Context // ends what is under way
	abort   context.CancelFunc

	// mu guards killed and ended, which the world reads while the owner runs.
	mu     sync.Mutex
	killed bool
	ended  bool

	// Replaced at each try; nil before the first.
	pump *pump.Pump
	// What look saw last. A new pump begins anew, since a disk may have lost what the old one had.
	seen standing
}

// standing is what may not run back while a pump lives.
// Both may run back from one pump to the next, as after a disk that has lied.
type standing struct{ watermark, next int64 }

// call is a goroutine that waits: for the answer of a disk, a broker or the group.
type call struct {
	owner *owner
	// With the owner's number it is the order in which those who wait are drawn, so that it has to be
	// the same whenever the plan is run again: no addresses, no times.
	what   string
	run    func() error // what is done when its turn comes
	dying  func()       // what may still be done when the process is killed; nil for nothing
	answer chan error
}

// wait lets all other owners continue, and returns the result of run when it was this call's turn.
// Nothing else runs during run. The goroutine of the world calls run and dying while all others wait.
// Neither needs a lock, and neither may wait. An owner that was killed meanwhile gets errKilled and
// goes no further.
func (o *owner) wait(what string, run func() error, dying func()) error {
	c := &call{owner: o, what: what, run: run, dying: dying, answer: make(chan error, 1)}
	o.mu.Lock()
	if o.killed {
		o.mu.Unlock()
		return errKilled
	}
	o.mu.Unlock()
	o.world.park(c)
	return <-c.answer
}

// own is what an owner does: it takes over, folds, and begins again after an error.
func (o *owner) own() {
	defer func() {
		o.mu.Lock()
		o.ended = true
		o.mu.Unlock()
	}()
	for o.leaving.Err() == nil {
		err := o.fold()
		switch {
		case errors.Is(err, errBroken):
			return
		case err == nil, errors.Is(err, errFenced), errors.Is(err, errKilled), o.leaving.Err() != nil:
			return
		// Free space that is missing is no error here: the pump waits for it.
		case !errors.Is(err, errBroker) && !errors.Is(err, errDisk):
			o.world.violate("an owner fails only with what failed it", "partition %d: %v", o.partition, err)
			return
		}
		// A step of its own, so that everybody else may go on before the second try.
		if o.wait("begin again", func() error { return nil }, nil) != nil {
			return
		}
	}
}

// errBroken says that an invariant is broken: the run ends.
var errBroken = errors.New("an invariant is broken")

// fold is one try: it claims the logs of the partition first, so that nothing of an owner before comes
// behind what it reads back, then opens the pump, which recovers, and follows the log.
func (o *owner) fold() error {
	w := o.world
	// Each of the two may fail by itself; then both are claimed anew.
	out, err := o.claim(w.verdicts[o.partition], "verdicts")
	if err != nil {
		return err
	}
	dead, err := o.claim(w.deadLetters[o.partition], "dead letters")
	if err != nil {
		return err
	}
	options := pump.Options{Partition: uint16(o.partition), Source: "events", Limits: firstLimits(), Parse: parseLimits, Store: &store{o, o.process.disk}, Turn: o.process.turn,
		Sink: &verdicts{out}, DeadLetters: &deadLetters{dead}, Memory: w.memory, CheckpointEvery: w.checkpointEvery, Clock: w.clock, Logger: slog.New(slog.DiscardHandler)}
	source, agents := w.sourceOf(o.partition)
	// Trees pass on to trees, so the agent stage has one as well.
	options.Activity = &activityLog{o, o.partition}
	if agents {
		options.Stage, options.Sources, options.AgentPartitions, options.Settled = pump.AgentStage, len(w.events), len(w.activity), o.settled
	} else {
		options.Answer = o.answered
	}
	o.pump, err = pump.New(o.hard, options)
	if err != nil {
		return err
	}
	// Nothing may fall behind where it was recovered.
	o.seen = standing{o.pump.Standing().Watermark.Load(), o.pump.Next()}
	if err := o.follow(source); err != nil {
		// As after a crash: what the pump holds may be of an error, and must not reach the disk.
		o.pump.CloseWithoutCheckpoint()
		return err
	}
	return o.pump.Close(o.hard)
}

// follow folds the log until the owner is notified to end.
func (o *owner) follow(source *partition) error {
	w, next := o.world, o.pump.Next()
	// Beyond the end would be a checkpoint that knows more than the log: decision 23.
	if next > source.end() {
		w.violate("a checkpoint is of the log", "partition %d: begins at %d, the log ends at %d", o.partition, next, source.end())
		return errBroken
	}
	for o.leaving.Err() == nil {
		var records []pump.Record
		err := o.wait("fetch", func() error {
			// A reader that goes back gives records a second time; the pump has to drop them.
			if w.fault(Back, 20) {
				next = max(0, next-1-int64(w.rand.IntN(5)))
			}
			// Each is a copy, so the pump may do with it what it does with a reader's.
			for n := 1 + w.rand.IntN(w.batch); n > 0 && next < source.end(); n, next = n-1, next+1 {
				e := &source.entries[next]
				records = append(records, pump.Record{Offset: next, Appended: e.appended, Value: []byte(e.value), Key: e.key, From: e.from})
			}
			return nil
		}, nil)
		if err != nil {
			return err
		}
		if err := o.pump.Batch(o.hard, records); err != nil {
			return err
		}
		if err := o.look(next); err != nil {
			return err
		}
	}
	return nil
}

// look holds the pump against what it was before.
// It is called after each batch, by the owner's goroutine. next is behind the last record given.
func (o *owner) look(next int64) error {
	w, s := o.world, o.pump.Standing()
	now := standing{s.Watermark.Load(), o.pump.Next()}
	switch {
	case now.watermark < o.seen.watermark:
		w.violate("watermarks never run back", "partition %d: from %d to %d", o.partition, o.seen.watermark, now.watermark)
	case now.next < o.seen.next, now.next < next:
		w.violate("what was folded stays folded", "partition %d: next is %d, was %d, and was given up to %d", o.partition, now.next, o.seen.next, next)
	// What no checkpoint holds yet cannot leave memory, and may come on top of the budget.
	case s.FlowBytes.Load() > w.memory+w.unwritten:
		w.violate("memory stays within its budget", "partition %d: %d bytes of flows, the budget is %d and %d for what two checkpoints hold", o.partition, s.FlowBytes.Load(), w.memory, w.unwritten)
	default:
		o.seen = now
		return nil
	}
	return errBroken
}

// answered compares the answer to an ask with that of the plain fold. It is
// pump.Options.Answer: called for each ask that is folded, again after a recovery too, and
// must be the same each time (decision 9).
func (o *owner) answered(offset int64, _ []byte, ev *events.Event, v *events.Verdict) {
	got, want := string(v.AppendJSON(nil)), o.world.flows[o.partition].answers[offset]
	if got != want {
		o.world.violate("an ask is answered as the plain fold answers it", "partition %d, offset %d, ask %s:\n got %s\nwant %s", o.partition, offset, ev.ID, got, want)
	}
}

// settled compares what a tree says to an ask that its flow has allowed with what the plain fold
// of the activity says.
func (o *owner) settled(from pump.Position, ev *events.Event, v *events.Verdict) {
	got, want := string(v.AppendJSON(nil)), o.world.agents[o.partition-len(o.world.flows)].settled[from]
	if got != want {
		o.world.violate("an ask is answered as the plain fold answers it", "partition %d, from %+v, ask %s in a tree:\n got %s\nwant %s", o.partition, from, ev.ID, got, want)
	}
}

// String names it in traces.
func (o *owner) String() string {
	return fmt.Sprintf("owner %d of partition %d in process %d", o.number, o.partition, o.process.name)
}
