package kafka

import (
	"context"
	"sync"

	eventkafka "weir/events/kafka"
	"weir/events/kafka/recordbatch"
)

// AppendTo writes messages in their order to a partition with several writers, and
// returns the offset of the first. It tries until ctx ends. After an answer that was
// lost a message may be stored twice, so it needs an id of its own. Calls at
// the same time may mix only by batches of 900 kB.
// The partition has no owner, so there is no epoch and no sequence.
func AppendTo(ctx context.Context, cluster *eventkafka.Cluster, topic string, partition int, msgs []Message) (first int64, err error) {
	l := writer{cluster: cluster, topic: topic, partition: partition, most: batchBytes}
	return l.write(ctx, msgs)
}

// batches are for callers that write now and then to one of many partitions: none of them
// keeps the memory of a batch to itself.
// For the broker they come from no particular producer.
var batches = sync.Pool{New: func() any { return &recordbatch.Encoder{From: recordbatch.NoProducer} }}

// write writes messages without sequence numbers.
func (l *writer) write(ctx context.Context, msgs []Message) (first int64, err error) {
	b := batches.Get().(*recordbatch.Encoder)
	defer batches.Put(b)
	for done := 0; done < len(msgs); {
		if err := b.Encode(msgs[done:], l.most); err != nil {
			return first, l.say("append to", err)
		}
		var base int64
		err := l.retry(ctx, func(ctx context.Context) (err error) {
			base, err = l.produce(ctx, b)
			return err
		})
		// The batch is tried again from the same message, smaller.
		if tooLarge(err) && l.shrink(b, &msgs, done) {
			continue
		}
		if err != nil {
			return first, l.say("append to", err)
		}
		if done == 0 {
			first = base
		}
		done += b.Count
	}
	return first, nil
}
