package simulate

import (
	"context"
	"fmt"
	"hash/fnv"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// entry is a record of a partition of a topic. What has no value is the mark of an owner.
type entry struct {
	// When the partition took it, by the clock of the world: it never runs back in a partition.
	appended events.Stamp
	// For the events and the activity it is what the pump reads; for verdicts their JSON; for
	// dead letters their code. "" makes the entry a mark, which no reader is given.
	value string
	// The subject of a record of activity, and its place in the events. Unused elsewhere.
	key      string
	from     pump.Position
	id       string // of a verdict
	trigger  int64  // of a verdict or a dead letter
	injected bool   // by the adversary
	// Under which it was written. verdictTaken holds it against that of the partition.
	epoch int
}

// partition is one of a topic. A topic of verdicts or dead letters takes records from the
// owner of the last epoch alone.
type partition struct {
	// Offsets are indexes: nothing is ever deleted, so that every check may look at all of it.
	entries []entry
	// Of the owner that claimed it last; 0 before the first. Events and activity have none.
	epoch int
	real  int // entries that are no marks
	// Called for each entry, marks too, as soon as it is there: here the invariants are checked, so
	// that a violation is found in the step that made it. nil for none.
	taken func(e *entry)
}

// topics are those of a run, with a plain fold of each partition that is folded.
type topics struct {
	clock *clock.Fake
	// By partition; verdicts and dead letters by output partition: those of the events, then the activity's.
	events, activity, verdicts, deadLetters []*partition
	flows                                   []*plainFlows
	agents                                  []*plainAgents
	agentPartitions                         int
	wire                                    []*request
}

// end is the offset that the next entry gets.
func (p *partition) end() int64 { return int64(len(p.entries)) }

// append lets a partition take an entry, and everybody who checks look at it.
func (t *topics) append(p *partition, e entry) {
	e.appended = events.StampOf(t.clock.Now())
	p.entries = append(p.entries, e)
	if e.value != "" {
		p.real++
	}
	if p.taken != nil {
		p.taken(&p.entries[len(p.entries)-1])
	}
}

// request is one that a broker has not seen yet, and whose sender waits no more.
type request struct {
	// fenced requests carry the epoch of their sender, and a broker drops them when it is over:
	// that is the promise of decision 22 which the verdicts are published by.
	to      *partition
	epoch   int
	fenced  bool
	entries []entry
}

// arrive lets a request come to its broker.
func (t *topics) arrive(r *request) {
	if r.fenced && r.epoch != r.to.epoch {
		return
	}
	for _, e := range r.entries {
		t.append(r.to, e)
	}
}

// producer writes to a partition under the epoch of its owner, as the idempotent producers
// of the Kafka form do: what is tried again after an error is never there twice.
type producer struct {
	*owner
	to    *partition
	epoch int
	done  int // entries of the batch under way that are safe
}

// claim takes the partition over. It may fail before the mark is there or after it. In the second case
// the epoch is lost: the owner claims the next one, and no owner may publish under the lost one.
func (o *owner) claim(to *partition, what string) (*producer, error) {
	p := &producer{owner: o, to: to}
	err := o.wait("claim "+what, func() error {
		if o.world.fault(Sink, 30) {
			return errBroker
		}
		// From here on what carries an older epoch is refused.
		to.epoch++
		p.epoch = to.epoch
		o.world.append(to, entry{epoch: p.epoch})
		if o.world.fault(Sink, 30) {
			return errBroker // the claim worked, and its confirmation is lost
		}
		return nil
	}, nil)
	return p, err
}

// write puts entries into the partition, all of them and in order, or fails. Who gets another
// error than errFenced calls it again with the same entries; done remembers how many of them are
// there already.
func (p *producer) write(what string, entries []entry) (end int64, err error) {
	for i := range entries {
		entries[i].epoch = p.epoch
	}
	put := func(n int) {
		for _, e := range entries[p.done : p.done+n] {
			p.world.append(p.to, e)
		}
		p.done += n
	}
	// The last argument is for a process that is killed here: its batch may be on the way, and arrives
	// unless the partition has another owner by then.
	err = p.wait(what, func() error {
		w, left := p.world, len(entries)-p.done
		if p.to.epoch != p.epoch {
			return errFenced
		}
		switch {
		case w.fault(Sink, 20): // some of it
			put(w.rand.IntN(left + 1))
			return errBroker
		case w.fault(Sink, 40): // all of it, and the answer is lost
			put(left)
			return errBroker
		case w.fault(Full, 40): // and it is tried again
			put(w.rand.IntN(left + 1))
			return fmt.Errorf("a log of the simulation: %w", state.ErrDiskLow)
		case w.fault(Wire, 40): // later, when it may be too late
			// The broker may take it behind the mark of the next owner, and has to refuse it then. A
			// copy, since the pump uses the slice again.
			w.wire = append(w.wire, &request{p.to, p.epoch, true, append([]entry(nil), entries[p.done:]...)})
			return errBroker
		}
		// Only now may the batch be forgotten: before, a next try begins behind what is there.
		put(left)
		p.done = 0
		return nil
	}, func() { p.world.arrive(&request{p.to, p.epoch, true, entries[p.done:]}) })
	return p.to.end(), err
}

// verdicts is the log of verdicts of a partition.
type verdicts struct{ *producer }

// Emit and Since are those of pump.Sink.
func (v *verdicts) Emit(_ context.Context, list []pump.Emitted) (int64, error) {
	entries := make([]entry, len(list))
	for i := range list {
		entries[i] = entry{value: string(list[i].Verdict.AppendJSON(nil)), id: list[i].Verdict.ID, trigger: list[i].Offset}
	}
	return v.write("emit", entries)
}

// Since leaves marks out, as a reader of the topic skips records without a value.
func (v *verdicts) Since(_ context.Context, from int64, fn func(string, int64)) (end int64, err error) {
	return v.since(from, func(e *entry) { fn(e.id, e.trigger) })
}

// since reads back what was published, marks left out, and may fail as a whole.
func (p *producer) since(from int64, fn func(e *entry)) (end int64, err error) {
	err = p.wait("read back", func() error {
		if p.world.fault(Sink, 40) {
			return errBroker
		}
		return nil
	}, nil)
	if err != nil {
		return 0, err
	}
	// Nothing of a former owner can come any more: the partition was claimed before this.
	for i := from; i < p.to.end(); i++ {
		if e := &p.to.entries[i]; e.value != "" {
			fn(e)
		}
	}
	return p.to.end(), nil
}

// deadLetters is the dead-letter log of a partition.
type deadLetters struct{ *producer }

// Publish and Since are those of pump.DeadLetters. A letter keeps only its code and offset here:
// what the checks ask is which records became letters.
func (l *deadLetters) Publish(_ context.Context, list []state.DeadLetter) (int64, error) {
	entries := make([]entry, len(list))
	for i := range list {
		entries[i] = entry{value: list[i].Code, trigger: list[i].Position}
	}
	return l.write("publish dead letters", entries)
}

// Since calls fn for the records that became dead letters already.
func (l *deadLetters) Since(_ context.Context, from int64, fn func(int64)) (int64, error) {
	return l.since(from, func(e *entry) { fn(e.trigger) })
}

// activityLog is the log of activity, as one partition of the events writes it: in order, but
// what is tried again may be there twice, and an owner of before may still write.
type activityLog struct {
	*owner
	source int
}

// Place is the partition of the activity that a key belongs to.
func (a *activityLog) Place(key string) int { return a.world.place(key, len(a.world.activity)) }

// Send fails as a whole when one of its batches failed, though others were taken: the pump sends
// all again, and the agent stage has to drop by their positions what it has seen (decision 27).
func (a *activityLog) Send(_ context.Context, list []pump.Repartitioned) error {
	w := a.world
	batches := make([][]entry, len(w.activity))
	for i := range list {
		r := &list[i]
		e := entry{key: r.Key, value: string(r.Value), from: pump.Position{Source: a.source, Offset: r.Offset, Part: r.Part}}
		for p := range batches {
			// Records without a key go to every partition: the time, and limits.
			if r.Key == "" || w.place(r.Key, len(batches)) == p {
				batches[p] = append(batches[p], e)
			}
		}
	}
	put := func(p, n int) { w.arrive(&request{to: w.activity[p], entries: batches[p][:n]}) }
	// Activity is not fenced: an owner of before may still write what the next one writes too,
	// and both write the same.
	return a.wait("send", func() (err error) {
		for p, b := range batches {
			switch {
			// Nothing is sent, and nothing fails.
			case len(b) == 0:
			case w.fault(Sink, 30):
				put(p, w.rand.IntN(len(b)+1))
				err = errBroker
			case w.fault(Full, 60):
				put(p, w.rand.IntN(len(b)+1))
				err = fmt.Errorf("a log of the simulation: %w", state.ErrDiskLow)
			case w.fault(Wire, 40):
				w.wire = append(w.wire, &request{to: w.activity[p], entries: b})
				err = errBroker
			// As by a producer that is not idempotent and tries again on an answer that was
			// lost.
			case w.fault(Twice, 20):
				put(p, len(b))
				put(p, len(b))
			default:
				put(p, len(b))
			}
		}
		return err
	}, func() {
		for p, b := range batches {
			put(p, w.rand.IntN(len(b)+1))
		}
	})
}

// place is the partition of a key among the given number. All parts of the world agree on it, as
// producers of the Kafka form agree on their hash.
func (t *topics) place(key string, partitions int) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(partitions))
}
