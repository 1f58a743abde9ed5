package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// activityLog is where the embedded form keeps what concerns agents between its stages: a
// second journal, which is a derived one (see state.Store.Derived). The trigger of an entry is the offset of the event that it is made of,
// and before the JSON of the value stand the part and the key.
type activityLog struct {
	log   *state.Log
	clock clock.Clock
	// up says that the source of what is sent is the activity itself: a tree passes on to
	// the one above it by the same log (see decision 68).
	up bool // it is of the stage of agents, for trees above

	// memory and entries are used again by the next Send; only the pump that has the log
	// calls it.
	memory  []byte // of the values of one Send
	entries []state.Entry
}

// Send appends activity, which is durable before any of its effects. If Send is called again with the
// same activity after an error, some of it may be there twice. Its positions identify the repeats. The
// error is one of the store.
func (l *activityLog) Send(_ context.Context, activity []pump.Repartitioned) error {
	now := events.StampOf(l.clock.Now())
	l.memory, l.entries = l.memory[:0], l.entries[:0]
	for i := range activity {
		r := &activity[i]
		from := len(l.memory)
		part := r.Part
		if l.up {
			part |= fromActivity
		}
		l.memory = appendActivity(l.memory, part, r.Key, r.Value)
		l.entries = append(l.entries, state.Entry{Appended: now, Trigger: r.Offset, Value: l.memory[from:len(l.memory):len(l.memory)]})
	}
	if _, err := l.log.Append(l.entries); err != nil {
		return fmt.Errorf("append to the activity: %w", err)
	}
	return nil
}

// fromActivity marks a part that was made of activity and not of an event. Parts are far fewer, so the
// bit is free. It distinguishes positions of the two logs, of which each grows by itself.
const fromActivity = 1 << 30

// Place is the one partition that there is.
func (l *activityLog) Place(string) int { return 0 }

// appendActivity writes part and key before the value, both numbers as varints;
// activityRecord reads it.
func appendActivity(dst []byte, part int, key string, value []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(part))
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	return append(dst, value...)
}

// activityRecord reads an entry of the log of activity. The key is copied. The value points into the
// entry, so the record is valid as long as the entry. The error is that of a damaged store, because
// only weir writes there.
func activityRecord(e *state.Entry) (pump.Record, error) {
	part, n := binary.Uvarint(e.Value)
	length, m := uint64(0), 0
	if n > 0 {
		length, m = binary.Uvarint(e.Value[n:])
	}
	if m <= 0 || part > math.MaxInt32 || length > uint64(len(e.Value)-n-m) {
		return pump.Record{}, fmt.Errorf("entry %d of the activity: %w", e.Offset, state.ErrDamaged)
	}
	from := pump.Position{Source: partition, Offset: e.Trigger, Part: int(part)}
	if part&fromActivity != 0 {
		from.Source, from.Part = agentPartition, int(part&^fromActivity)
	}
	rest := e.Value[n+m:]
	return pump.Record{Offset: e.Offset, Appended: e.Appended, Value: rest[length:], Key: string(rest[:length]), From: from}, nil
}

// journalRecord reads an entry of the journal.
// Its value is an event as it came; what is none becomes a dead letter in the pump.
func journalRecord(e *state.Entry) (pump.Record, error) {
	return pump.Record{Offset: e.Offset, Appended: e.Appended, Value: e.Value}, nil
}
