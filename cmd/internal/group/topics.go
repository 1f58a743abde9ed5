package group

import (
	"context"
	"slices"

	"weir/cmd/internal/pump"
	"weir/events"
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

// Since calls fn for the records that became dead letters already, from an offset of their topic on.
func (l *topicDeadLetters) Since(ctx context.Context, from int64, fn func(offset int64)) (int64, error) {
	return l.topic.Since(ctx, from, fn)
}

// topicVerdicts is the topic of verdicts, for a pump. Verdicts about weir's own loop are not for the
// consumers of the topic: own gets them, when those before them are safe.
type topicVerdicts struct {
	topic  *sinkkafka.Verdicts
	own    func(verdicts []events.Emitted)
	others []events.Emitted // memory that is used again
}

// Emit returns when the verdicts of others are safe in the topic. After an error own has got none of these.
func (t *topicVerdicts) Emit(ctx context.Context, verdicts []events.Emitted) (end int64, err error) {
	ofSelfTest := func(e events.Emitted) bool { return e.Verdict.OfSelfTest() }
	if !slices.ContainsFunc(verdicts, ofSelfTest) {
		return t.topic.Emit(ctx, verdicts)
	}
	clear(t.others)
	t.others = slices.DeleteFunc(append(t.others[:0], verdicts...), ofSelfTest)
	if end, err = t.topic.Emit(ctx, t.others); err == nil {
		t.own(verdicts)
	}
	return end, err
}

// Since calls fn with the verdicts of the topic from an offset on. Those of weir's own loop are not there: they
// are given again when their records are folded again, to a self-test that waits for others.
func (t *topicVerdicts) Since(ctx context.Context, from int64, fn func(id string, trigger int64)) (int64, error) {
	return t.topic.Since(ctx, from, fn)
}

// keepOwn puts verdicts of weir's own loop into the log of this process, where the self-test reads all
// verdicts. One that is lost makes the self-test fail, which is what it is for.
func (m *Member) keepOwn(verdicts []events.Emitted) {
	var entries []state.Entry
	for i := range verdicts {
		if e := &verdicts[i]; e.Verdict.OfSelfTest() {
			entries = append(entries, state.Entry{Appended: m.Now(), Trigger: e.Offset, Value: e.Verdict.AppendJSON(nil)})
		}
	}
	if _, err := m.store.Verdicts(0).Append(entries); err != nil {
		m.logger.Warn("the verdicts of weir's own loop are not kept; the self-test fails", "error", err)
	}
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
