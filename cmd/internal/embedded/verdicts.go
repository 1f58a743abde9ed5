package embedded

import (
	"bytes"
	"context"
	"fmt"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// verdictLog is the log that streams read, as the sink that the pump of one stage
// publishes to. The triggers of the agent stage stand there below zero, so that each
// knows its own.
// It is for the goroutine of its pump; both stages write in turns, never at one time. Orders by hand
// are appended by other goroutines.
type verdictLog struct {
	log    *state.Log
	clock  clock.Clock
	agents bool

	again bool  // the last Emit failed
	from  int64 // where the log ended before the first try
}

// trigger turns the offset of a trigger into what the log says of it, and back.
// Offset 0 has a complement below zero, too, which a minus would not give it.
func (l *verdictLog) trigger(offset int64) int64 {
	if l.agents {
		return ^offset
	}
	return offset
}

// Emit appends verdicts. After an error some of them may be in the log, and are left out when it is
// called again with the same verdicts, as the pump does.
// It returns where the log ends.
func (l *verdictLog) Emit(_ context.Context, verdicts []pump.Emitted) (int64, error) {
	again := l.again
	if !again {
		l.from = l.log.End()
	}
	now := events.StampOf(l.clock.Now())
	entries := make([]state.Entry, len(verdicts))
	for i := range verdicts {
		entries[i] = state.Entry{Appended: now, Trigger: l.trigger(verdicts[i].Offset), Value: verdicts[i].Verdict.AppendJSON(nil)}
	}
	l.again = true
	if again {
		n, err := l.written(entries)
		if err != nil {
			return l.log.End(), err
		}
		entries = entries[n:]
	}
	_, err := l.log.Append(entries)
	l.again = err != nil
	return l.log.End(), err
}

// written returns how many of the entries are in the log behind l.from, where they are in their order.
// Others may stand between them.
func (l *verdictLog) written(entries []state.Entry) (n int, err error) {
	var there []state.Entry
	for from := l.from; n < len(entries); from += int64(len(there)) {
		if from, there, err = state.ReadOn(l.log.Read, from, batchRecords, there[:0]); err != nil || len(there) == 0 {
			return n, err
		}
		for i := 0; i < len(there) && n < len(entries); i++ {
			if there[i].Trigger == entries[n].Trigger && bytes.Equal(there[i].Value, entries[n].Value) {
				n++
			}
		}
	}
	return n, nil
}

// Since reads the ids of the verdicts of the stage.
// The pump asks it after a start, to leave out what stands there already (see decision 16).
func (l *verdictLog) Since(_ context.Context, from int64, fn func(id string, trigger int64)) (int64, error) {
	var entries []state.Entry
	for {
		var err error
		from, entries, err = state.ReadOn(l.log.Read, from, batchRecords, entries[:0])
		if err != nil || len(entries) == 0 {
			return from, err
		}
		for i := range entries {
			if entries[i].Trigger < 0 != l.agents {
				continue
			}
			var v events.Verdict
			if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
				return 0, fmt.Errorf("verdict %d: %w", entries[i].Offset, err)
			}
			fn(v.ID, l.trigger(entries[i].Trigger))
		}
		from += int64(len(entries))
	}
}
