package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/envelope"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// Topic reads a raw topic as a member of a consumer group, and writes the events of its records
// to the topic of events. Spans of one trace have to be in one partition: their
// producer keys them by the trace.
// It is made by its fields, of which FlushAfter and CommitEvery have defaults. One Topic
// runs once at a time.
type Topic struct {
	Cluster     *kafka.Cluster
	Name        string // of the raw topic
	Group       string
	Events      string // topic
	DeadLetters string // topic
	// Each partition has a decoder of its own, by these options.
	Decoder    DecoderOptions
	UntilEnd   bool          // Run returns when all partitions were read to the ends that they had at its beginning
	FlushAfter time.Duration // silence of a partition after which what is held back is emitted; default 30 s
	// CommitEvery is the least time between two commits of a partition; default 1 s.
	CommitEvery time.Duration
	Logger      *slog.Logger // not nil
	Now         func() time.Time

	// Read, Written and Refused count records, events and dead letters.
	Read, Written, Refused atomic.Int64

	// ends are those of the partitions when Run began. mu guards what follows.
	ends  []int64
	mu    sync.Mutex
	done  map[int]bool
	fatal error
	end   context.CancelFunc
}

// Run takes part until ctx ends; then it returns nil. What is read at that moment is
// read again by the next Run.
// The error says which partition cannot be gone on with. What is wrong with single records
// is no error: they become dead letters.
func (t *Topic) Run(ctx context.Context) error {
	if err := t.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// run is Run without the look whether the end was asked for.
func (t *Topic) run(ctx context.Context) error {
	if t.FlushAfter == 0 {
		t.FlushAfter = 30 * time.Second
	}
	if t.CommitEvery == 0 {
		t.CommitEvery = time.Second
	}
	n, err := t.Cluster.Partitions(ctx, t.Name)
	if err != nil {
		return err
	}
	t.done = make(map[int]bool)
	for p := range n {
		_, end, err := t.Cluster.Bounds(ctx, t.Name, p)
		if err != nil {
			return err
		}
		t.ends = append(t.ends, end)
	}
	// An unknown format is reported before a partition is taken.
	if _, err := NewDecoder(t.Decoder); err != nil {
		return err
	}
	group, err := kafka.NewGroup(kafka.GroupOptions{Cluster: t.Cluster, Group: t.Group, Topic: t.Name, Partitions: n, Logger: t.Logger})
	if err != nil {
		return err
	}
	ctx, t.end = context.WithCancel(ctx)
	defer t.end()
	// The function is called for each partition that this process is given, in a goroutine
	// of its own; its ctx ends when the partition is given up.
	err = group.Run(ctx, func(ctx context.Context, a kafka.Assignment) {
		p, err := t.begin(ctx, a)
		if err == nil {
			err = p.run(ctx)
		}
		switch {
		case err == nil:
			t.finish(a.Partition)
			<-ctx.Done() // to return would share out the partitions again
		case ctx.Err() == nil:
			t.fail(fmt.Errorf("topic %s partition %d: %w", t.Name, a.Partition, err))
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.fatal, err)
}

// finish notes that a partition was read to its end, and ends Run with the last one.
// In a group of several processes none has all of them, so with UntilEnd a topic is read by
// one.
func (t *Topic) finish(partition int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done[partition] = true; len(t.done) == len(t.ends) {
		t.end()
	}
}

// fail ends Run with the first error; the others are mostly its consequences.
func (t *Topic) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fatal == nil {
		t.fatal = err
	}
	t.end()
}

// partition is one partition while this process owns it.
// It is for one goroutine. The next owner makes its own and reads back.
type partition struct {
	topic     *Topic
	owned     kafka.Assignment
	reader    *kafka.Reader
	decoder   *Decoder
	writer    *Writer
	old       int64 // records before it were reported by an earlier owner
	committed int64
	at        time.Time // of the last commit
	idle      time.Time // since when nothing has come
	unkeyed   bool      // it was said that records have no keys
}

// begin makes what one partition needs. The reader begins before the committed place, by as
// much as adapters may need that do not report how far back they reach. Events that are emitted
// again have the same ids.
func (t *Topic) begin(ctx context.Context, a kafka.Assignment) (*partition, error) {
	first, _, err := t.Cluster.Bounds(ctx, t.Name, a.Partition)
	if err != nil {
		return nil, err
	}
	p := &partition{topic: t, owned: a, old: max(a.Committed, first), committed: a.Committed, at: t.Now(), idle: t.Now()}
	o := t.Decoder
	o.Changed = func(format, wrapping string) {
		if wrapping == "" {
			wrapping = "none"
		}
		t.Logger.Info("records are read", "topic", t.Name, "partition", a.Partition, "format", format, "told_by", decidedBy(t.Decoder.Format), "envelope", wrapping)
	}
	if p.decoder, err = NewDecoder(o); err != nil {
		return nil, err
	}
	if p.writer, err = NewWriter(ctx, t.Cluster, t.Events, t.DeadLetters, t.Now); err != nil {
		return nil, err
	}
	p.reader = kafka.NewReader(t.Cluster, t.Name, a.Partition, max(first, p.old-Lookback), kafka.ReaderOptions{Logger: t.Logger})
	return p, nil
}

// decidedBy says in the log whether a person or the content has decided about the format.
func decidedBy(format string) string {
	if format == "" {
		return "content"
	}
	return "flag"
}

// run reads until the partition is given up, or its end is reached where that is wanted.
// It returns nil only at the end that is wanted. What was fetched and not written when it
// ends by an error is read again.
func (p *partition) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, p.reader.Close()) }()
	var records []kafka.Record
	for {
		if p.topic.UntilEnd && p.reader.Next() >= p.topic.ends[p.owned.Partition] {
			return p.rest(ctx)
		}
		records, err = p.reader.Fetch(ctx, records)
		if err != nil {
			if err = p.stepOver(err); err != nil {
				return err
			}
			continue
		}
		for i := range records {
			p.record(&records[i])
			if p.writer.Full() {
				if err := p.write(ctx); err != nil {
					return err
				}
			}
		}
		if err := p.write(ctx); err != nil {
			return err
		}
		// All that was fetched is with the brokers by now, so the place may be committed.
		now := p.topic.Now()
		switch {
		case len(records) > 0:
			p.idle = now
		case now.Sub(p.idle) >= p.topic.FlushAfter && p.decoder.Held():
			if err := p.rest(ctx); err != nil {
				return err
			}
		}
		if now.Sub(p.at) >= p.topic.CommitEvery {
			p.commit(p.decoder.Oldest(p.reader.Next()), now)
		}
	}
}

// stepOver goes on behind what is gone or cannot be unpacked.
// Everything else is given back. A batch that is refused counts as one dead letter, at its
// first offset; how many records were in it is not known.
func (p *partition) stepOver(err error) error {
	if gap, ok := errors.AsType[*kafka.GapError](err); ok {
		p.topic.Logger.Error("records were deleted before they were read", "error", gap)
		p.reader.SkipTo(gap.To)
		return nil
	}
	if batch, ok := errors.AsType[*kafka.BatchError](err); ok {
		code := events.CodeSyntax
		if errors.Is(batch.Err, kafka.ErrTooLarge) {
			code = events.CodeTooLong
		}
		p.refuse(&kafka.Record{Offset: batch.Offset}, code, batch.Error())
		p.reader.SkipTo(batch.Next)
		return nil
	}
	return err
}

// record decodes one record. Those before the committed place are decoded for the adapter's
// sake alone, if it needs them; their events come out again and are dropped by their ids.
func (p *partition) record(r *kafka.Record) {
	m := envelope.Message{Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, envelope.Header{Name: h.Key, Value: h.Value})
	}
	if r.Offset < p.old && p.decoder.Skips(m) {
		return
	}
	if len(r.Key) == 0 && !p.unkeyed && len(p.topic.ends) > 1 {
		p.unkeyed = true
		p.topic.Logger.Warn("records have no keys, so those of one flow or trace may lie in different partitions, where they cannot be put together; "+
			"let their producer set one (Collector: partition_traces_by_id)", "topic", p.topic.Name, "partition", p.owned.Partition)
	}
	p.topic.Read.Add(1)
	err := p.decoder.Decode(r.Offset, m, func(ev *events.Event) { p.event(r, ev) })
	if err != nil && r.Offset >= p.old { // else an earlier owner has reported it
		p.refuse(r, adapter.CodeOf(err), err.Error())
	}
}

// event hands an event over to the writer. One that does not belong into the topic of
// events becomes a dead letter at the place of its record.
func (p *partition) event(r *kafka.Record, ev *events.Event) {
	if err := p.writer.Event(ev); err != nil {
		p.refuse(&kafka.Record{Offset: r.Offset, Time: r.Time, Key: r.Key, Value: ev.AppendJSON(nil)}, adapter.CodeOf(err), "of the event that was made of it: "+err.Error())
	}
}

// refuse makes a dead letter of a record.
func (p *partition) refuse(r *kafka.Record, code events.Code, reason string) {
	p.topic.Logger.Debug("record refused", "topic", p.topic.Name, "partition", p.owned.Partition, "offset", r.Offset, "code", code, "reason", reason)
	// The bytes of the record are good until the next Fetch, and the letter is written
	// before that.
	p.writer.DeadLetter(p.topic.Name, p.owned.Partition, sinkkafka.DeadLetter{Position: r.Offset, Code: string(code), Reason: reason, Appended: r.Time, Key: r.Key, Raw: r.Value})
}

// write gives what was gathered to the brokers and counts what they have acknowledged, also
// before an error.
func (p *partition) write(ctx context.Context) error {
	written, deadLetterPartitions := p.writer.Written, p.writer.DeadLettered
	err := p.writer.Flush(ctx)
	p.topic.Written.Add(p.writer.Written - written)
	p.topic.Refused.Add(p.writer.DeadLettered - deadLetterPartitions)
	return err
}

// rest emits what is held back, and commits the place behind the last record.
// Afterwards no earlier record is needed.
func (p *partition) rest(ctx context.Context) error {
	next := p.reader.Next()
	if err := p.decoder.Flush(func(ev *events.Event) { p.event(&kafka.Record{Offset: next - 1}, ev) }); err != nil {
		return err
	}
	if err := p.write(ctx); err != nil {
		return err
	}
	p.commit(next, p.topic.Now())
	return nil
}

// commit commits to the group the place from which to read after a crash. The brokers have
// acknowledged all events of the records before it. If the commit fails, more records are read again.
// The place is that of the oldest record that is still needed and may lie far behind what
// was read. It never goes back.
func (p *partition) commit(place int64, now time.Time) {
	p.at = now
	if place <= p.committed {
		return
	}
	if err := p.owned.Commit(place); err != nil {
		p.topic.Logger.Warn("the place in the topic is not committed; it is tried again", "topic", p.topic.Name, "partition", p.owned.Partition, "offset", place, "error", err)
		return
	}
	p.committed = place
}
