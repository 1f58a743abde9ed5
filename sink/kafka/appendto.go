package kafka

import (
	"context"
	"sync"

	eventkafka "weir/events/kafka"
	"weir/events/kafka/recordbatch"
)

// AppendTo writes messages in their order to a partition that several write to, and
// returns the offset of the first. It tries until ctx ends, and after an answer that was
// lost a message may stand there twice: what is written needs an id of its own. Calls at
// the same time may mix only by batches of 900 kB.
// Nobody owns the partition, so there is no epoch and no sequence.
func AppendTo(ctx context.Context, cluster *eventkafka.Cluster, topic string, partition int, msgs []Message) (first int64, err error) {
	l := writer{cluster: cluster, topic: topic, partition: partition, most: batchBytes}
	return l.write(ctx, msgs)
}

// batches are for those who write now and then to one of many partitions: none of them
// keeps the memory of a batch to itself.
// They are written by nobody in particular, as far as the broker knows.
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
