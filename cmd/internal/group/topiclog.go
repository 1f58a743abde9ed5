package group

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
	"weir/sink/check"
	sinkkafka "weir/sink/kafka"
	"weir/state"
)

// topicLog reads and writes the topics. Any goroutine may use it once the sets are there.
type topicLog struct {
	o      *Options
	clock  clock.Clock
	logger *slog.Logger
	sets   *topicSets
}

// Append puts events into the partitions of their flows and returns when they are safe
// there. It may be called again after an error: repeats are dropped by their ids.
func (t *topicLog) Append(ctx context.Context, entries []state.Entry) error {
	byPartition := make(map[int][]sinkkafka.Message)
	var ev events.Event
	for i := range entries {
		if err := events.Decode(entries[i].Value, &ev); err != nil {
			return err
		}
		key := ev.FlowKey()
		n := t.sets.flows.partitionOf(key)
		byPartition[n] = append(byPartition[n], t.message(key, entries[i].Value))
	}
	return t.appendAll(ctx, byPartition)
}

// AppendChecks puts check requests into the partitions of their flows. A partition may change hands
// meanwhile: then another member folds the request, and it times out here.
func (t *topicLog) AppendChecks(ctx context.Context, batch []*check.Request) error {
	byPartition := make(map[int][]sinkkafka.Message)
	for _, q := range batch {
		key := q.Event.FlowKey()
		n := t.sets.flows.partitionOf(key)
		byPartition[n] = append(byPartition[n], t.message(key, q.Raw))
	}
	return t.appendAll(ctx, byPartition)
}

// appendAll appends to one partition after the other: after an error some records may be there.
func (t *topicLog) appendAll(ctx context.Context, byPartition map[int][]sinkkafka.Message) error {
	for n, messages := range byPartition {
		if _, err := t.appendTo(ctx, t.o.Topics.Events, n, messages...); err != nil {
			return err
		}
	}
	return nil
}

// message keys a record by its flow, so that producers of others put it into the same partition.
func (t *topicLog) message(key string, value []byte) sinkkafka.Message {
	return sinkkafka.Message{Key: []byte(key), Value: value}
}

// A sender that appends events is no owner of the partition. Its records are not fenced, and are
// distinguished by their ids (decision 6).
func (t *topicLog) appendTo(ctx context.Context, topic string, partition int, messages ...sinkkafka.Message) (first int64, err error) {
	if first, err = sinkkafka.AppendTo(ctx, t.o.Cluster, topic, partition, messages); err != nil {
		err = fmt.Errorf("append to %s: %w", topic, err)
	}
	return first, err
}

// Events calls fn for the events of a flow that came into the topic at or after since, with the time
// of that, until it returns false. For the flow "" it calls fn for the records of all partitions, one
// partition after the other, also those that other members fold. The line is good until fn returns.
func (t *topicLog) Events(ctx context.Context, flow string, since events.Stamp, fn func(line []byte, appended events.Stamp) bool) error {
	numbers := t.sets.flows.partitions
	if flow != "" {
		numbers = []int{t.sets.flows.partitionOf(flow)}
	}
	fn = pump.OfFlow(flow, fn)
	for _, number := range numbers {
		if on, err := t.eventsIn(ctx, number, since, fn); err != nil || !on {
			return err
		}
	}
	return nil
}

// eventsIn calls fn for the records of a partition; on is false when fn wants no more.
func (t *topicLog) eventsIn(ctx context.Context, number int, since events.Stamp, fn func(line []byte, appended events.Stamp) bool) (on bool, err error) {
	cluster, topic := t.o.Cluster, t.o.Topics.Events
	from, err := cluster.OffsetAt(ctx, topic, number, time.UnixMilli(int64(since)))
	if err != nil {
		return false, err
	}
	_, end, err := cluster.Bounds(ctx, topic, number)
	if err != nil {
		return false, err
	}
	r := kafka.NewReader(cluster, topic, number, from, kafka.ReaderOptions{})
	defer r.Close()
	// The end is that of the beginning: what comes meanwhile is not waited for.
	var records []kafka.Record
	for r.Next() < end {
		records, err = r.Fetch(ctx, records)
		// Records that have expired between the two questions are skipped.
		if next, ok := kafka.Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return false, err
		}
		for i := range records {
			if !fn(records[i].Value, records[i].Time) {
				return false, nil
			}
		}
	}
	return true, nil
}

// Now is the time of the topics: what the brokers' clocks say, as long as they do. A clock of
// this machine that is wrong would end orders that stand, and keep those that have expired.
func (t *topicLog) Now() events.Stamp {
	if at, ok := t.o.Cluster.Time(); ok {
		return at
	}
	return events.StampOf(t.clock.Now())
}

// later logs an error of something that is tried again.
// A broker that is away is no reason to give the partition up: decision 31.
func (t *topicLog) later(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if kafka.Final(err) {
		return err
	}
	t.logger.Warn("the log could not be told; it is tried again", "error", err)
	return nil
}

// readFrom returns a reader from an offset on, which goes on by itself when brokers fail and asks for
// the member's share of bytes. The caller closes it.
func (t *topicLog) readFrom(topic string, partition int, offset int64, o kafka.ReaderOptions) *kafka.Reader {
	o.Bytes, o.Logger = t.fetchBytes(), t.logger
	return kafka.NewReader(t.o.Cluster, topic, partition, offset, o)
}

// What the readers of all partitions ask of brokers at once, of which each keeps some times its
// part in memory, and what one of them asks at least and at most.
const (
	allFetches   = 64 << 20
	leastFetched = 64 << 10
	mostFetched  = 1 << 20
)

// fetchBytes is what the reader of one partition asks of a broker at once.
// With thousands of partitions the least still adds up to more than allFetches.
func (t *topicLog) fetchBytes() int {
	return min(max(allFetches/t.sets.outputs(), leastFetched), mostFetched)
}

// timeAt is the time of the first record from at to before end. There may be none, because marks of
// transactions and unreadable records are never delivered. Then it is the time of an earlier record,
// but none before first. It is 0 if the time is unknown, as for records of old clients, which have no
// time.
func (t *topicLog) timeAt(ctx context.Context, topic string, partition int, first, at, end int64) (events.Stamp, error) {
	for back := int64(1); first < end; back *= 2 {
		r, ok, err := t.record(ctx, topic, partition, at, end)
		if err != nil || ok {
			return max(0, r.Time), err
		}
		if at == first {
			break
		}
		at = max(first, at-back)
	}
	return 0, nil
}

// record reads the record at an offset, or the next one before end that there is; false when
// there is none.
func (t *topicLog) record(ctx context.Context, topic string, partition int, offset, end int64) (kafka.Record, bool, error) {
	r := t.readFrom(topic, partition, offset, kafka.ReaderOptions{})
	defer r.Close()
	var records []kafka.Record
	for r.Next() < end {
		var err error
		records, err = r.Fetch(ctx, records)
		if next, ok := kafka.Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return kafka.Record{}, false, err
		}
		if len(records) > 0 && records[0].Offset < end {
			one := records[0]
			// The reader uses its memory again at the next fetch.
			one.Value = append([]byte(nil), one.Value...)
			return one, true, nil
		}
	}
	return kafka.Record{}, false, nil
}
