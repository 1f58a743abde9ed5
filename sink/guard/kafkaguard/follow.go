// Package kafkaguard lets a guard follow the verdict topic and the topic of orders by hand directly. All partitions
// are read, by no group, and the guard is ready when it has read what they held at its start.
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

	"weir/events/byhand"
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
	// Orders is the topic of orders by hand (weir stop); default agent-orders. If the cluster has no
	// such topic, the guard looks for it again every few seconds. Its records are not signed: the
	// guard trusts the access rights of the topic, as every weir does.
	Orders string
	// Back is how long before the last order one that still stands may have been given, by
	// the times of the records; default: everything that the topic holds is read.
	// 0 reads all. A span that is shorter than orders stand misses some, and then allows what
	// weir refuses.
	Back time.Duration
}

// The topics to which weir writes verdicts and orders by hand by default.
const (
	defaultTopic  = "agent-verdicts"
	defaultOrders = "agent-orders"
)

// New returns a guard that follows the topic until it is closed. Like guard.New it
// returns at once.
func New(o Options) (*guard.Guard, error) {
	if o.Cluster == nil || len(o.Cluster.Brokers) == 0 {
		return nil, errors.New("kafkaguard: no brokers are named; give host:port of one at least")
	}
	// The default of StaleAfter is that of guard.New, which is not known yet here.
	t := &topics{cluster: o.Cluster, verdicts: cmp.Or(o.Topic, defaultTopic), orders: cmp.Or(o.Orders, defaultOrders), keys: o.Keys,
		back: o.Back, stale: cmp.Or(max(o.StaleAfter, 0), 5*time.Second), begun: time.Now()}
	o.Follow = t.follow
	return guard.New(o.Options)
}

// topics are the topics that are followed.
type topics struct {
	cluster          *kafka.Cluster
	verdicts, orders string
	keys             sign.Keys
	back             time.Duration
	stale            time.Duration // without an answer of the broker the table may be out of date
	begun            time.Time     // what partition.answered counts from
}

// The time between two tries to begin is a random part of a span that doubles.
const (
	shortestWait = 100 * time.Millisecond
	longestWait  = 30 * time.Second
)

// follow reads the topic, and begins anew when it cannot go on. It is the guard's
// Options.Follow: it runs in one goroutine until the guard is closed.
func (t *topics) follow(ctx context.Context, feed guard.Feed) {
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
func (t *topics) read(ctx context.Context, feed guard.Feed) (reached bool, err error) {
	n, err := t.count(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]partition, n.verdicts+n.orders)
	var working sync.WaitGroup
	defer working.Wait()
	for i := range parts {
		p := &parts[i]
		p.topics, p.topic, p.number, p.back, p.take = t, t.verdicts, i, t.back, verdictOf
		if i >= n.verdicts {
			p.topic, p.number, p.back, p.take = t.orders, i-n.verdicts, 0, t.orderOf
		}
		p.feed = feed
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
	again := countEvery
	if n.orders == 0 { // the first order creates the topic
		again = min(again, t.stale)
	}
	count := time.NewTicker(again)
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
			if now, err := t.count(ctx); err == nil && now != n {
				return reached, fmt.Errorf("topics %s and %s have %d and %d partitions now, not %d and %d", t.verdicts, t.orders, now.verdicts, now.orders, n.verdicts, n.orders)
			}
		case <-ctx.Done():
			return reached, context.Cause(ctx)
		}
	}
}

// counted is how many partitions the topics have.
type counted struct{ verdicts, orders int }

// countEvery is how often the partitions are counted again.
const countEvery = 30 * time.Second

// count asks the cluster for the number of partitions. The topic of orders may be missing.
func (t *topics) count(ctx context.Context) (n counted, err error) {
	if n.verdicts, err = t.cluster.Partitions(ctx, t.verdicts); err != nil {
		return n, err
	}
	if n.orders, err = t.cluster.Partitions(ctx, t.orders); errors.Is(err, kafka.ErrNoTopic) {
		return n, nil
	}
	return n, err
}

// errNotReached is while a partition still holds what was there at the start.
var errNotReached = errors.New("the topic is not read to the end yet")

// lost says why the table may be out of date; nil when it is not.
// It reads atomics only, which the readers of the partitions set.
func (t *topics) lost(parts []partition) error {
	now := time.Since(t.begun)
	for i := range parts {
		p := &parts[i]
		if !p.reached.Load() {
			return errNotReached
		}
		if silent := now - time.Duration(p.answered.Load()); silent > t.stale {
			return fmt.Errorf("the leader of partition %d of %s has not answered for %v", p.number, p.topic, silent.Round(time.Millisecond))
		}
	}
	return nil
}

// partition is one partition that is read.
type partition struct {
	topics   *topics
	topic    string
	number   int
	back     time.Duration                                            // 0 reads all
	take     func(r *kafka.Record) (verdict []byte, signature string) // no verdict: the record is not readable
	feed     guard.Feed
	reached  atomic.Bool  // the end that it had at the start
	answered atomic.Int64 // how long after topics.begun its leader did so last, whatever the clock was set to meanwhile
}

// read follows the partition until ctx ends or it cannot go on.
func (p *partition) read(ctx context.Context) error {
	t := p.topics
	// The end is that of the moment: what comes later is followed, and is not waited for.
	var from, end int64
	var err error
	if p.back > 0 {
		from, end, err = t.cluster.OffsetBack(ctx, p.topic, p.number, p.back)
	} else {
		from, end, err = t.cluster.Bounds(ctx, p.topic, p.number)
	}
	if err != nil {
		return err
	}
	r := kafka.NewReader(t.cluster, p.topic, p.number, from, kafka.ReaderOptions{})
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
				p.feed.Take(p.take(&records[i]))
			}
		}
	}
}

// verdictOf returns the verdict of a record and its signature; "" where the record has none. The header
// has to be the one that weir's writer sets.
func verdictOf(r *kafka.Record) (verdict []byte, signature string) {
	for i := range r.Headers {
		if r.Headers[i].Key == sign.RecordHeader {
			return r.Value, string(r.Headers[i].Value)
		}
	}
	return r.Value, ""
}

// orderOf returns the verdict of an order by hand, which each weir makes of the same record. A guard
// that checks signatures gets one of its own, because weir signs no records of this topic.
func (t *topics) orderOf(r *kafka.Record) (verdict []byte, signature string) {
	if o, err := byhand.Decode(r.Value); err == nil {
		o.Appended(r.Time)
		verdict = o.Verdict().AppendJSON(nil)
	}
	return verdict, t.keys.Sign(verdict)
}
