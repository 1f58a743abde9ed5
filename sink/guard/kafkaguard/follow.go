// Package kafkaguard lets a guard follow the verdict topic directly. All partitions are read, by no group, and the
// guard is ready when it has read what they held at its start.
package kafkaguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weir/events/kafka"
	"weir/sink/guard"
	"weir/sink/sign"
)

// Options are how a guard follows a topic. Cluster and URL are required.
// Its options hold for the table as with weir's stream; Follow is set by New.
type Options struct {
	guard.Options // URL is that of any weir: for Ask and for acknowledgements

	Cluster *kafka.Cluster
	Topic   string // of verdicts; default agent-verdicts
	// Back is how long before the last order one that still stands may have been given, by
	// the times of the records; default: everything that the topic holds is read.
	// 0 reads all. A span that is shorter than orders stand misses some, and then allows what
	// weir refuses.
	Back time.Duration
}

// defaultTopic is the topic to which weir writes verdicts by default.
const defaultTopic = "agent-verdicts"

// New returns a guard that follows the topic until it is closed. Like guard.New it
// returns at once.
func New(o Options) (*guard.Guard, error) {
	if o.Cluster == nil || len(o.Cluster.Brokers) == 0 {
		return nil, errors.New("kafkaguard: no brokers are named; give host:port of one at least")
	}
	// The default of StaleAfter is that of guard.New, which is not known yet here.
	t := &topic{cluster: o.Cluster, name: cmp.Or(o.Topic, defaultTopic), back: o.Back, stale: cmp.Or(max(o.StaleAfter, 0), 5*time.Second), begun: time.Now()}
	o.Follow = t.follow
	return guard.New(o.Options)
}

// topic is a topic that is followed.
type topic struct {
	cluster *kafka.Cluster
	name    string
	back    time.Duration
	stale   time.Duration // without an answer of the broker the table may be out of date
	begun   time.Time     // what partition.answered counts from
}

// The time between two tries to begin is a random part of a span that doubles.
const (
	shortestWait = 100 * time.Millisecond
	longestWait  = 30 * time.Second
)

// follow reads the topic, and begins anew when it cannot go on. It is the guard's
// Options.Follow: it runs in one goroutine until the guard is closed.
func (t *topic) follow(ctx context.Context, feed guard.Feed) {
	for span := shortestWait; ; span = min(2*span, longestWait) {
		// It returns only with an error, or when the guard is closed.
		reached, err := t.read(ctx, feed)
		if ctx.Err() != nil {
			return
		}
		feed.Stale(err)
		// It worked for a while, so the next try need not wait as long.
		if reached {
			span = shortestWait
		}
		select {
		case <-time.After(rand.N(span)):
		case <-ctx.Done():
			return
		}
	}
}

// read reads all partitions until reading one of them fails for good, or their number
// changes. reached reports whether all records that the topic had at the beginning were read.
func (t *topic) read(ctx context.Context, feed guard.Feed) (reached bool, err error) {
	n, err := t.cluster.Partitions(ctx, t.name)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]partition, n)
	var working sync.WaitGroup
	defer working.Wait()
	for i := range parts {
		p := &parts[i]
		p.topic, p.number, p.feed = t, i, feed
		// Each partition has a reader of its own, which keeps its order.
		working.Go(func() {
			if err := feed.Try(func() error { return p.read(ctx) }); err != nil {
				cancel(err)
			}
		})
	}
	// Deferred calls run backwards: the readers are cancelled before the wait for them.
	defer cancel(nil) // before the wait
	look := time.NewTicker(t.stale / 10)
	defer look.Stop()
	count := time.NewTicker(30 * time.Second)
	defer count.Stop()
	for {
		select {
		case <-look.C:
			// It is looked at from outside, since a reader that waits for its broker says
			// nothing.
			switch lost := t.lost(parts); {
			case lost == nil:
				reached = true
				feed.Fresh()
			// Before the end was reached for the first time the guard is stale already.
			case reached:
				feed.Stale(lost)
			}
		// A partition more may hold orders that are not read: then all is read anew.
		case <-count.C:
			if now, err := t.cluster.Partitions(ctx, t.name); err == nil && now != n {
				return reached, fmt.Errorf("topic %s has %d partitions now, not %d", t.name, now, n)
			}
		case <-ctx.Done():
			return reached, context.Cause(ctx)
		}
	}
}

// errNotReached is while a partition still holds what was there at the start.
var errNotReached = errors.New("the topic is not read to the end yet")

// lost says why the table may be out of date; nil when it is not.
// It reads atomics only, which the readers of the partitions set.
func (t *topic) lost(parts []partition) error {
	now := time.Since(t.begun)
	for i := range parts {
		p := &parts[i]
		if !p.reached.Load() {
			return errNotReached
		}
		if silent := now - time.Duration(p.answered.Load()); silent > t.stale {
			return fmt.Errorf("the leader of partition %d has not answered for %v", p.number, silent.Round(time.Millisecond))
		}
	}
	return nil
}

// partition is one partition that is read.
type partition struct {
	topic    *topic
	number   int
	feed     guard.Feed
	reached  atomic.Bool  // the end that it had at the start
	answered atomic.Int64 // how long after topic.begun its leader did so last, whatever the clock was set to meanwhile
}

// read follows the partition until ctx ends or it cannot go on.
func (p *partition) read(ctx context.Context) error {
	t := p.topic
	// The end is that of the moment: what comes later is followed, and is not waited for.
	var from, end int64
	var err error
	if t.back > 0 {
		from, end, err = t.cluster.OffsetBack(ctx, t.name, p.number, t.back)
	} else {
		from, end, err = t.cluster.Bounds(ctx, t.name, p.number)
	}
	if err != nil {
		return err
	}
	r := kafka.NewReader(t.cluster, t.name, p.number, from, kafka.ReaderOptions{})
	defer r.Close()
	var records []kafka.Record
	for {
		// An empty partition is reached at once.
		if r.Next() >= end {
			p.reached.Store(true)
		}
		records, err = r.Fetch(ctx, records)
		if gap, ok := errors.AsType[*kafka.GapError](err); ok { // their orders have expired
			r.SkipTo(gap.To)
			continue
		}
		if bad, ok := errors.AsType[*kafka.BatchError](err); ok {
			p.feed.Take(nil, "") // counted as what cannot be read
			r.SkipTo(bad.Next)
			continue
		}
		if err != nil {
			return err
		}
		// A fetch without records is an answer, too, unless the reader is in trouble and tries
		// on.
		if _, trouble := r.Trouble(); trouble == nil {
			p.answered.Store(int64(time.Since(t.begun)))
		}
		// A record without a value is no verdict, see the README.
		for i := range records {
			if records[i].Value != nil {
				p.feed.Take(records[i].Value, signature(&records[i]))
			}
		}
	}
}

// signature is what the record says of who gave the order; "" when it says nothing.
// The header has to be the one that weir's writer sets.
func signature(r *kafka.Record) string {
	for i := range r.Headers {
		if r.Headers[i].Key == sign.RecordHeader {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}
