package group

import (
	"context"

	"weir/cmd/internal/pump"
	sinkkafka "weir/sink/kafka"
	"weir/state"
)

// topicDeadLetters is a topic of dead letters, for a pump.
type topicDeadLetters struct{ topic *sinkkafka.DeadLetters }

// Publish returns the offset behind the last letter that is safe in the topic.
func (l *topicDeadLetters) Publish(ctx context.Context, letters []state.DeadLetter) (int64, error) {
	out := make([]sinkkafka.DeadLetter, len(letters))
	for i := range letters {
		d := &letters[i]
		out[i] = sinkkafka.DeadLetter{Position: d.Position, Code: d.Code, Reason: d.Reason, Appended: d.Appended, Raw: d.Raw}
	}
	return l.topic.Publish(ctx, out)
}

// Since tells which records became dead letters already, from an offset of their topic on.
func (l *topicDeadLetters) Since(ctx context.Context, from int64, fn func(offset int64)) (int64, error) {
	return l.topic.Since(ctx, from, fn)
}

// topicActivity is the topic of what concerns agents, for the pump of a partition.
type topicActivity struct {
	topic *sinkkafka.Activity
	// Its output partition: a partition of the events, or, behind those, one of the activity itself.
	source int // partition of the events
	place  func(key string) int
	// Used again for each batch; only the pump's goroutine calls Send.
	out []sinkkafka.ActivityRecord
}

// Place is the partition of the activity that a key belongs to.
func (t *topicActivity) Place(key string) int { return t.place(key) }

// Send returns when the brokers have all of it; all partitions share one sender (see
// decision 70).
func (t *topicActivity) Send(ctx context.Context, activity []pump.Repartitioned) error {
	t.out = t.out[:0]
	for i := range activity {
		r := &activity[i]
		t.out = append(t.out, sinkkafka.ActivityRecord{Key: r.Key, Value: r.Value, Source: sinkkafka.Position{Partition: t.source, Offset: r.Offset, Part: r.Part}})
	}
	defer clear(t.out)
	return t.topic.Send(ctx, t.out)
}
