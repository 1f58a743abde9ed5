package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topics are those of one trial.
// A bench has several at one broker, so that its runs do not read each other's.
type topics struct{ events, verdicts, activity, deadLetters string }

// defaultTopics are the names that weir has without flags.
func defaultTopics() topics {
	return topics{"agent-events", "agent-verdicts", "agent-activity", "dead-letter"}
}

// readAll calls fn with every record that the topic holds now, partition by partition
// in order, and returns where each partition ends.
// The order between partitions is that of arrival. A record is good until fn returns. It is
// read without a group, so nothing is committed and everything is read each time.
func (s *server) readAll(ctx context.Context, topic string, fn func(r *kgo.Record)) (map[int32]int64, error) {
	// The ends are asked for before a reader begins, which goes on until they are reached.
	plain, err := s.client()
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	ends, err := endOffsets(ctx, plain, topic)
	if err != nil {
		return nil, err
	}
	// An empty partition would be waited for in vain.
	from, left := map[int32]kgo.Offset{}, 0
	for p, end := range ends {
		if end > 0 {
			from[p] = kgo.NewOffset().AtStart()
			left++
		}
	}
	if left == 0 {
		return ends, nil
	}
	reader, err := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchMaxPartitionBytes(4<<20))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	// A broker that gives no records any more would otherwise be waited for without end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*time.Minute, cancel)
	defer silence.Stop()
	for left > 0 {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			return nil, fmt.Errorf("read topic %s: %w", topic, err)
		}
		silence.Reset(3 * time.Minute)
		fetched.EachRecord(func(r *kgo.Record) {
			// The ends were taken before: what members append meanwhile is left alone.
			if r.Offset >= ends[r.Partition] {
				return
			}
			fn(r)
			// The last record is there by its offset: nothing here is compacted or aborted,
			// so there are no holes (see decision 22).
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
		})
	}
	return ends, nil
}

// endOffsets are the offsets that the next record of each partition will have.
func endOffsets(ctx context.Context, c *kgo.Client, topic string) (map[int32]int64, error) {
	listed, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the ends of topic %s: %w", topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

// committed are the offsets that the group has committed; partitions without one are
// missing.
// After a broker was killed its coordinator takes a while to come back; that is waited for.
func committed(ctx context.Context, c *kgo.Client, group, topic string) (map[int32]int64, error) {
	// The offsets of all topics of the group come at once; those of one are picked out
	// below.
	var all kadm.OffsetResponses
	err := eventually(ctx, time.Minute, "the coordinator of the group", func() (ok bool, err error) {
		all, err = kadm.NewClient(c).FetchOffsets(ctx, group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return true, nil // it never had a member
		}
		if kerr.IsRetriable(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("find the committed offsets of group %s: %w", group, err)
	}
	at := map[int32]int64{}
	all.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic && o.Err == nil && o.At >= 0 {
			at[o.Partition] = o.At
		}
	})
	return at, nil
}

// produce sends the traffic. Paced, it sends each record when its time has come;
// otherwise as fast as the broker takes it. acked, when given, is called with each
// record and when it was handed over.
// It returns when all of it is acknowledged, through as many outages of the broker as there
// are. The first record that is refused for good ends it.
func (s *server) produce(ctx context.Context, topic string, t *traffic, paced bool, acked func(r *kgo.Record, sent time.Time)) error {
	// Where latency is measured, a producer that waits for a fuller batch would be measured
	// as well.
	linger := 5 * time.Millisecond
	if acked != nil {
		linger = 0
	}
	codec := kgo.NoCompression()
	if s.compress {
		codec = kgo.Lz4Compression()
	}
	// Batches stay a little below what a broker takes by default. The partitioner is that
	// of Java, as weir wants it of producers.
	c, err := s.client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(50_000), kgo.ProducerBatchMaxBytes(1<<20-1024),
		kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return err
	}
	defer c.Close()
	// The cause is the first refusal, which each later call then returns.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = t.each(func(r *record) error {
		// Shorter waits cost more than they are worth; a few records then go out together.
		if wait := time.Until(r.at.Time()); paced && wait > 2*time.Millisecond {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Taken before Produce, which waits when its buffer is full.
		sent := time.Now()
		c.Produce(ctx, &kgo.Record{Key: r.key, Value: r.value, Timestamp: r.at.Time()}, func(r *kgo.Record, err error) {
			if err != nil {
				cancel(fmt.Errorf("produce to %s: %w", topic, err))
			} else if acked != nil {
				acked(r, sent)
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.Flush(ctx); err != nil {
		return context.Cause(ctx)
	}
	return nil
}
