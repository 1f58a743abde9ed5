package embedded

import (
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
// It is for the goroutine of its pump; both stages write in turns, never at one time.
type verdictLog struct {
	log    *state.Log
	clock  clock.Clock
	agents bool

	again bool  // the last Emit failed
	from  int64 // where the log ended before it
}

// trigger turns the offset of a trigger into what the log says of it, and back.
// Offset 0 has a complement below zero, too, which a minus would not give it.
func (l *verdictLog) trigger(offset int64) int64 {
	if l.agents {
		return ^offset
	}
	return offset
}

// Emit appends verdicts. After an error some of them may be in the log; nobody else
// writes there until it is called again, so its end tells how many.
// It returns where the log ends. The pump calls it again with the same verdicts after an
// error.
func (l *verdictLog) Emit(_ context.Context, verdicts []pump.Emitted) (int64, error) {
	if !l.again {
		l.from = l.log.End()
	}
	verdicts = verdicts[l.log.End()-l.from:]
	now := events.StampOf(l.clock.Now())
	entries := make([]state.Entry, len(verdicts))
	for i := range verdicts {
		entries[i] = state.Entry{Appended: now, Trigger: l.trigger(verdicts[i].Offset), Value: verdicts[i].Verdict.AppendJSON(nil)}
	}
	_, err := l.log.Append(entries)
	l.again = err != nil
	return l.log.End(), err
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
