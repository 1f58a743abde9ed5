package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/events"
	"weir/state"
)

// batchRecords is how many records of the journal are folded at one time.
const batchRecords = 1000

// turnEvery is how often the pump loop turns when nothing happens, so that one that
// hangs can be told from one that has nothing to do.
const turnEvery = 5 * time.Second

// runPump reads the journal from where the last checkpoint left off, and when it is
// told to end, to the end of what is there: nothing more comes then.
func (a *App) runPump(ctx context.Context) error {
	next := a.pump.Next()
	var entries []state.Entry
	var records []Record
	for ctx.Err() == nil || next < a.journal.End() && a.pumping.hard.Err() == nil {
		var err error
		entries, err = a.journal.Read(next, batchRecords, entries[:0])
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			a.counts.deadLetter(CodeLost)
			a.logger.Error("records of the journal have expired before they were folded; keep them longer", "from", gap.From, "to", gap.To)
			next = gap.To
			continue
		}
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		records = records[:0]
		for i := range entries {
			records = append(records, Record{entries[i].Offset, entries[i].Appended, entries[i].Value})
		}
		if err := a.pump.Batch(a.pumping.hard, records); err != nil {
			return err
		}
		next += int64(len(records))
		a.turned.Store(a.clock.Now().UnixMilli())
		behind := a.journal.End() - next
		a.counts.Lag.Store(behind)
		if behind > 0 {
			continue
		}
		a.caughtUp.Store(true)
		wait := turnEvery
		if a.pump.Pending() {
			wait = min(wait, a.o.CheckpointEvery)
		}
		select {
		case <-a.journal.Ready(next):
		case <-a.clock.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// runTicks appends a tick when nothing else was appended for a while, so that
// deadlines fire from the log.
func (a *App) runTicks(ctx context.Context) error {
	last := a.journal.End()
	for {
		if err := a.pause(ctx, a.o.Tick); err != nil {
			return err
		}
		if end := a.journal.End(); end != last {
			last = end
			continue
		}
		now := events.StampOf(a.clock.Now())
		tick := events.Event{ID: fmt.Sprintf("tick:%d", now), Time: now, Kind: events.Tick}
		offset, err := a.journal.Append([]state.Entry{{Appended: now, Value: tick.AppendJSON(nil)}})
		switch {
		case err == nil:
			last = offset + 1
		case !errors.Is(err, state.ErrDiskLow): // which the pump tells about
			return fmt.Errorf("append a tick: %w", err)
		}
	}
}

// verdictLog is the sink that the pump publishes to.
type verdictLog struct {
	log   *state.Log
	clock Clock

	again bool  // the last Emit failed
	from  int64 // where the log ended before it
}

// Emit appends verdicts. After an error some of them may be in the log; nobody else
// writes there, so its end tells how many.
func (l *verdictLog) Emit(_ context.Context, verdicts []Emitted) (int64, error) {
	if !l.again {
		l.from = l.log.End()
	}
	verdicts = verdicts[l.log.End()-l.from:]
	now := events.StampOf(l.clock.Now())
	entries := make([]state.Entry, len(verdicts))
	for i := range verdicts {
		entries[i] = state.Entry{Appended: now, Trigger: verdicts[i].Offset, Value: verdicts[i].Verdict.AppendJSON(nil)}
	}
	_, err := l.log.Append(entries)
	l.again = err != nil
	return l.log.End(), err
}

// Since reads the ids of verdicts.
func (l *verdictLog) Since(_ context.Context, from int64, fn func(id string, trigger int64)) (int64, error) {
	var entries []state.Entry
	for {
		var err error
		entries, err = l.log.Read(from, batchRecords, entries[:0])
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			from = gap.To
			continue
		}
		if err != nil || len(entries) == 0 {
			return from, err
		}
		for i := range entries {
			var v events.Verdict
			if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
				return 0, fmt.Errorf("verdict %d: %w", entries[i].Offset, err)
			}
			fn(v.ID, entries[i].Trigger)
		}
		from += int64(len(entries))
	}
}
