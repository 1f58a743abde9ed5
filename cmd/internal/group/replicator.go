package group

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/retry"
	"weir/events/kafka"
	"weir/state"
)

// replicator copies the verdicts of the whole group, of both stages, into the log of this
// process that streams, files and webhooks read, so that a dispatcher may follow any member. A
// crash may copy some twice; their ids tell.
// One goroutine per output partition copies; what comes of different ones stands there in any order, but of
// each in its own.
// It costs each member the verdicts of all, once on its disk (see decision 21).
type replicator struct {
	member  *Member
	reached []atomic.Bool // by output partition: everything was copied when it was looked last
}

// newReplicator returns one that copies nothing yet.
func newReplicator(m *Member) *replicator {
	return &replicator{member: m, reached: make([]atomic.Bool, m.outputs())}
}

// ready says which partitions are not copied to their end: who follows the verdicts here
// may not know what stands.
func (m *replicator) ready() (why []string) {
	for n := range m.reached {
		if !m.reached[n].Load() {
			why = append(why, fmt.Sprintf("the verdicts of partition %d are not shown up to the last", n))
		}
	}
	return why
}

// replicatorBytes is how much is asked of a broker at once: there may be many partitions,
// and verdicts are few.
const replicatorBytes = 128 << 10

// run copies until ctx ends, or until one partition fails with what only a person can mend: then it ends
// the others and returns that error.
func (m *replicator) run(ctx context.Context) error {
	var group sync.WaitGroup
	failed := make([]error, len(m.reached))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for n := range m.reached {
		group.Go(func() {
			// Each goroutine writes its own place.
			if failed[n] = m.retry(ctx, n); failed[n] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	for n, err := range failed {
		if err != nil {
			return fmt.Errorf("partition %d of %s: %w", n, m.member.o.Topics.Verdicts, err)
		}
	}
	return nil
}

// retry follows a partition until ctx ends. What the brokers fail at is tried again;
// an error is one that only a person can help with.
func (m *replicator) retry(ctx context.Context, number int) error {
	for {
		err := m.follow(ctx, number)
		// Whatever ended the following, nobody knows any more where the end is.
		m.reached[number].Store(false)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if m.member.fatal(err) {
			return err
		}
		m.member.logger.Warn("the verdicts of the group are not shown for now; it is tried again", "partition", number, "error", err)
		if retry.Pause(ctx, m.member.clock, time.Second) != nil {
			return nil
		}
	}
}

// follow copies one partition from where its cursor stands.
// It returns nil when ctx ends. Verdicts that have expired in the topic are skipped, with a
// line in the log.
func (m *replicator) follow(ctx context.Context, number int) error {
	topic := m.member.o.Topics.Verdicts
	// Its name holds the topic, so that another one is copied from its own beginning.
	cursor := fmt.Sprintf("mirror:%s:%d", topic, number)
	from, err := m.begin(ctx, cursor, number)
	if err != nil {
		return err
	}
	r := kafka.NewReader(m.member.o.Cluster, topic, number, from, kafka.ReaderOptions{Bytes: replicatorBytes, Logger: m.member.logger})
	defer r.Close()
	var records []kafka.Record
	for ctx.Err() == nil {
		records, err = r.Fetch(ctx, records)
		if next, ok := kafka.Behind(err); ok {
			m.member.logger.Warn("verdicts of the group are not shown", "partition", number, "error", err)
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return err
		}
		// The cursor is stored after the entries: the other way round a crash would lose some.
		if err := m.copy(ctx, records, cursor, r.Next()); err != nil {
			return err
		}
		// Without brokers nobody knows where the end is.
		_, trouble := r.Trouble()
		m.reached[number].Store(trouble == nil && r.Next() >= r.HighWatermark())
	}
	return nil
}

// copy puts records of the topic into the log of this process, and then stores the place.
// The time is that at which the topic took them, so a copy that was made late is not kept
// longer.
func (m *replicator) copy(ctx context.Context, records []kafka.Record, cursor string, next int64) error {
	if len(records) == 0 {
		return nil
	}
	var entries []state.Entry
	for i := range records {
		if len(records[i].Value) > 0 { // others mark an owner
			entries = append(entries, state.Entry{Appended: records[i].Time, Trigger: records[i].Offset, Value: records[i].Value})
		}
	}
	// Low space is waited out. A try whose entries are in the log and whose cursor is not stored must
	// not append them again, so they are dropped once they are there.
	return retry.WhileDiskLow(ctx, m.member.clock, func() error {
		if _, err := m.member.store.Verdicts(0).Append(entries); err != nil {
			return err
		}
		entries = nil
		return m.member.store.SetCursor(cursor, strconv.AppendInt(nil, next, 10))
	})
}

// begin finds where to go on, or else as far back as verdicts are kept here.
// A member that is new shows what its own log would still hold if it had been there.
func (m *replicator) begin(ctx context.Context, cursor string, number int) (int64, error) {
	o := m.member.o
	b, ok, err := m.member.store.Cursor(cursor)
	if err != nil {
		return 0, err
	}
	first, end, err := o.Cluster.Bounds(ctx, o.Topics.Verdicts, number)
	if err != nil {
		return 0, err
	}
	if ok {
		// A cursor behind the end is of a topic that was made anew: it is begun again like one that is
		// not known.
		if n, err := strconv.ParseInt(string(b), 10, 64); err == nil && n <= end {
			return n, nil
		}
	}
	asOf := m.member.Now()
	if first < end { // a clock that is ahead must not leave out what there is
		last, err := m.member.record(ctx, o.Topics.Verdicts, number, end-1)
		if err != nil {
			return 0, err
		}
		asOf = min(asOf, last.Time)
	}
	return o.Cluster.OffsetAt(ctx, o.Topics.Verdicts, number, asOf.Add(-m.member.host.KeepVerdicts).Time())
}
