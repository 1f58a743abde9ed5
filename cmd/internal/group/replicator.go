package group

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"weir/cmd/internal/retry"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
	"weir/state"
)

// replicator copies verdicts of the group into the log of this process. Streams, files and webhooks
// read that log, so a dispatcher may follow any member. The verdicts of the agent stage bind all
// flows, and check requests of any flow may come here: they are always copied. The verdicts of flows
// are copied while a client follows them here (see decision 87). Otherwise each member would pay for
// the verdicts of all. The position is written together with the copies, so a crash leaves nothing
// out. If some are copied twice, they have the same ids.
//
// One goroutine copies each output partition. Verdicts of different partitions are in any order, those
// of one partition in its own order.
type replicator struct {
	member *Member
	// By output partition. The slice stays as it is.
	partitions []replicated
}

// replicated is how the copying of one output partition stands.
type replicated struct {
	always bool // the agent stage's

	mu        sync.Mutex
	followers int       // who want all that there is
	listeners int       // who want what comes from now on
	left      time.Time // when the last of either left
	whole     bool      // it is copied on from where it was left, and not from its end
	reached   bool      // everything was copied when it was looked last
	// changed is closed, and made anew, when one of the above has changed that others wait for.
	changed chan struct{}
}

// lingers is how long copying continues after the last client has left. Dispatchers come again, and a
// client that polls follows for a moment at a time.
const lingers = time.Minute

// newReplicator returns one that copies nothing yet.
func newReplicator(m *Member) *replicator {
	r := &replicator{member: m, partitions: make([]replicated, m.sets.outputs())}
	for n := range r.partitions {
		r.partitions[n].always, r.partitions[n].changed = n >= m.sets.agents.first, make(chan struct{})
	}
	return r
}

// Follow has the verdicts of a flow, or with "" those of all, brought into the log of verdicts of
// this process until leave is called. fromNow wants none of those that were given before.
// reached waits until those that there are stand in the log; it returns false when ctx ends before.
func (m *Member) Follow(flow string, fromNow bool) (reached func(ctx context.Context) bool, leave func()) {
	outputs := m.sets.flows.partitions // numbered as their outputs are
	if flow != "" {
		outputs = []int{m.sets.flows.partitionOf(flow)}
	}
	for _, n := range outputs {
		m.replicator.partitions[n].join(fromNow, 1, time.Time{})
	}
	reached = func(ctx context.Context) bool {
		for n := range m.replicator.partitions {
			p := &m.replicator.partitions[n]
			if !p.always && flow != "" && n != outputs[0] {
				continue
			}
			if !p.wait(ctx, func() bool { return p.reached && (fromNow || p.whole) }) {
				return false
			}
		}
		return true
	}
	return reached, sync.OnceFunc(func() {
		for _, n := range outputs {
			m.replicator.partitions[n].join(fromNow, -1, m.clock.Now())
		}
	})
}

// join notes that a client has come, or has left at a time.
func (p *replicated) join(fromNow bool, add int, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fromNow {
		p.listeners += add
	} else {
		p.followers += add
	}
	p.left = at
	p.tell()
}

// tell wakes the goroutines that wait for a change. p.mu is held.
func (p *replicated) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait returns true when is does, which is called under the lock, and false when ctx ends before.
func (p *replicated) wait(ctx context.Context, is func() bool) bool {
	for {
		p.mu.Lock()
		ok, changed := is(), p.changed
		p.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// wanted reports whether a client follows, or did until a moment ago, and whether all verdicts are
// wanted. p.mu is held.
func (p *replicated) wanted(now time.Time) (wanted, whole bool) {
	whole = p.always || p.followers > 0
	return whole || p.listeners > 0 || !p.left.IsZero() && now.Sub(p.left) < lingers, whole
}

// goesOn reports whether to continue to copy as begun. It is false if no client follows any more, or
// if it copies from the end alone and a client wants all verdicts.
func (p *replicated) goesOn(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, whole := p.wanted(now)
	return wanted && (p.whole || !whole)
}

// reach notes whether everything is copied.
func (p *replicated) reach(reached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached != reached {
		p.reached = reached
		p.tell()
	}
}

// ready says which partitions that bind all flows are not copied to their end: who follows the
// verdicts here, or asks, may not know what stands.
// What is copied for who follows is for him to ask, see Follow.
func (m *replicator) ready() (why []string) {
	for n := range m.partitions {
		p := &m.partitions[n]
		p.mu.Lock()
		if p.always && !p.reached {
			why = append(why, fmt.Sprintf("the verdicts of partition %d are not shown up to the last", n))
		}
		p.mu.Unlock()
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
	failed := make([]error, len(m.partitions))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for n := range m.partitions {
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

// retry follows a partition, whenever a client wants it, until ctx ends. Failures of the brokers are
// retried. It returns only errors that an operator must fix.
func (m *replicator) retry(ctx context.Context, number int) error {
	p := &m.partitions[number]
	for {
		whole := false
		if !p.wait(ctx, func() (wanted bool) {
			wanted, whole = p.wanted(m.member.clock.Now())
			p.whole = whole
			return wanted
		}) {
			return nil
		}
		err := m.follow(ctx, number, whole)
		// After the following has ended for any reason, the end is unknown.
		p.reach(false)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil { // no client wants it any more, or a client wants more of it
			continue
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

// follow copies one partition. It begins at its cursor, or at the end of the partition if no client
// wants earlier verdicts. In the second case the cursor does not move, and a client that later wants
// all verdicts gets these once more. It returns nil when ctx ends or the demand changes. Verdicts that
// have expired in the topic are skipped, with a line in the log.
func (m *replicator) follow(ctx context.Context, number int, whole bool) error {
	topic, p := m.member.o.Topics.Verdicts, &m.partitions[number]
	// Its name holds the topic, so that another one is copied from its own beginning.
	cursor := fmt.Sprintf("mirror:%s:%d", topic, number)
	first, end, err := m.member.o.Cluster.Bounds(ctx, topic, number)
	if err != nil {
		return err
	}
	from := end
	if !whole {
		cursor = ""
	} else if from, err = m.begin(ctx, cursor, number, first, end); err != nil {
		return err
	}
	// A client that waits for this need not wait until a broker answers that there is nothing.
	p.reach(from >= end)
	r := kafka.NewReader(m.member.o.Cluster, topic, number, from, kafka.ReaderOptions{Bytes: replicatorBytes, Logger: m.member.logger, Gather: m.member.counts.backlog})
	defer r.Close()
	var records []kafka.Record
	for ctx.Err() == nil && p.goesOn(m.member.clock.Now()) {
		records, err = r.Fetch(ctx, records)
		if next, ok := kafka.Behind(err); ok {
			m.member.logger.Warn("verdicts of the group are not shown", "partition", number, "error", err)
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return err
		}
		if err := m.copy(ctx, records, cursor, r.Next()); err != nil {
			return err
		}
		// Without brokers, the end is unknown.
		_, trouble := r.Trouble()
		p.reach(trouble == nil && r.HighWatermark() >= 0 && r.Next() >= r.HighWatermark())
	}
	return nil
}

// copy puts records of the topic into the log of this process, and with them the place, if cursor
// names one.
// The time is that at which the topic took them, so a copy that was made late is not kept
// longer.
func (m *replicator) copy(ctx context.Context, records []kafka.Record, cursor string, next int64) error {
	if len(records) == 0 {
		return nil
	}
	var entries []state.Entry
	strange := 0
	for i := range records {
		r := &records[i]
		switch {
		case len(r.Value) == 0: // it marks an owner
		case sinkkafka.IsVerdict(r):
			entries = append(entries, state.Entry{Appended: r.Time, Trigger: r.Offset, Value: r.Value})
		default:
			strange++
		}
	}
	if strange > 0 {
		m.member.logger.Warn("records of strangers are left out of the verdicts: only weir may write to this topic", "topic", m.member.o.Topics.Verdicts, "records", strange, "before_offset", next)
	}
	log, position := m.member.store.Verdicts(0), strconv.AppendInt(nil, next, 10)
	return retry.WhileDiskLow(ctx, m.member.clock, func() error { // low space is waited out
		if cursor != "" {
			return log.AppendFrom(entries, cursor, position)
		}
		_, err := log.Append(entries)
		return err
	})
}

// begin finds where to go on in a partition that has the records from first to before end, or else
// as far back as verdicts are kept here.
// A member that is new shows what its own log would still hold if it had been there.
func (m *replicator) begin(ctx context.Context, cursor string, number int, first, end int64) (int64, error) {
	o := m.member.o
	b, ok, err := m.member.store.Cursor(cursor)
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
	last, err := m.member.timeAt(ctx, o.Topics.Verdicts, number, first, end-1, end)
	if err != nil {
		return 0, err
	}
	if last > 0 { // a clock that is ahead must not leave out what there is
		asOf = min(asOf, last)
	}
	return o.Cluster.OffsetAt(ctx, o.Topics.Verdicts, number, asOf.Add(-m.member.host.KeepVerdicts).Time())
}
