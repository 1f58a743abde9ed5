package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/gate"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// Writer writes events to the topic of events, each to the partition that murmur2 gives
// its flow, as all producers do, and what cannot be read to the topic for dead letters.
// It is for one goroutine.
// It holds what was taken over until Flush; after that nothing of it is needed. Partitions
// of the topic are counted once: a topic that gets more has other partitions for its flows,
// which takes a new Writer to see.
type Writer struct {
	cluster              *kafka.Cluster
	events, deadLetters  string // topics
	deadLetterPartitions int    // partitions of the topic of dead letters
	partitions           []int
	waiting              [][]sinkkafka.Message // by partition
	// dead and deadOf belong together, the latter says where each was read.
	dead   []sinkkafka.DeadLetter
	deadOf []origin
	bytes  int
	now    func() time.Time

	// Written and DeadLettered are how many events and dead letters were acknowledged.
	Written, DeadLettered int64
}

// origin is where a record came from that could not be read.
// A file is a source with one partition.
type origin struct {
	source    string
	partition int
}

// NewWriter asks how many partitions the topics have.
// The error is mostly that one of them is missing.
func NewWriter(ctx context.Context, c *kafka.Cluster, eventsTopic, deadLettersTopic string, now func() time.Time) (*Writer, error) {
	n, err := c.Partitions(ctx, eventsTopic)
	if err != nil {
		return nil, err
	}
	w := &Writer{cluster: c, events: eventsTopic, deadLetters: deadLettersTopic, now: now, waiting: make([][]sinkkafka.Message, n)}
	for i := range n {
		w.partitions = append(w.partitions, i)
	}
	if w.deadLetterPartitions, err = c.Partitions(ctx, deadLettersTopic); err != nil {
		return nil, err
	}
	return w, nil
}

// Event takes an event over. One that is not fit for the log is an error, and not taken.
// The error is a *events.DecodeError. The event is copied.
func (w *Writer) Event(ev *events.Event) error {
	if err := gate.Topic.Admit(ev); err != nil {
		return err
	}
	value, err := ev.Canonical()
	if err != nil {
		return err
	}
	key := []byte(ev.FlowKey())
	// As the default partitioner of Java does: a flow that two producers put into two
	// partitions would be two flows.
	p := kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: key}, w.partitions...)
	w.waiting[p] = append(w.waiting[p], sinkkafka.Message{Key: key, Value: value})
	w.bytes += len(key) + len(value)
	return nil
}

// DeadLetter takes over what could not be read of a partition of a topic, or of a file.
// Its bytes have to stay as they are until the next Flush.
func (w *Writer) DeadLetter(source string, partition int, l sinkkafka.DeadLetter) {
	w.dead, w.deadOf = append(w.dead, l), append(w.deadOf, origin{source, partition})
	w.bytes += len(l.Key) + len(l.Raw)
}

// full is the size at which it is time to write.
const full = 1 << 20

// Full reports whether it is time for a Flush.
// Nothing is refused when it is; what is gathered is held in memory until then.
func (w *Writer) Full() bool { return w.bytes >= full || len(w.dead) >= 1000 }

// Flush writes what was taken over and returns when the brokers have it. It tries until
// ctx ends. After an error it may be called again; what is written twice by that has the
// same ids.
// Partitions are written at one time, each in its own order. Events go before dead letters;
// what was acknowledged is not written again by the next call.
func (w *Writer) Flush(ctx context.Context) error {
	var wait sync.WaitGroup
	failed := make([]error, len(w.waiting))
	for p, messages := range w.waiting {
		if len(messages) == 0 {
			continue
		}
		wait.Go(func() { _, failed[p] = sinkkafka.AppendTo(ctx, w.cluster, w.events, p, messages) })
	}
	wait.Wait()
	for p, err := range failed {
		if err == nil {
			w.Written += int64(len(w.waiting[p]))
			clear(w.waiting[p])
			w.waiting[p] = w.waiting[p][:0]
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	if err := w.publishDeadLetters(ctx); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	w.bytes = 0
	return nil
}

// publishDeadLetters publishes the rejected records to the dead-letter queue, one origin after the other.
// Those of one origin in a row are one batch, in the partition that belongs to that of the
// source.
func (w *Writer) publishDeadLetters(ctx context.Context) error {
	for len(w.dead) > 0 {
		n := 1
		for n < len(w.dead) && w.deadOf[n] == w.deadOf[0] {
			n++
		}
		of := w.deadOf[0]
		if err := sinkkafka.PublishDeadLetters(ctx, w.cluster, w.deadLetters, of.partition%w.deadLetterPartitions, of.source, of.partition, w.dead[:n], w.now); err != nil {
			return err
		}
		w.DeadLettered += int64(n)
		w.dead, w.deadOf = w.dead[n:], w.deadOf[n:]
	}
	w.dead, w.deadOf = nil, nil
	return nil
}
