package app

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
	"weir/state"
)

// batchRecords is how many records of the journal are folded at one time.
const batchRecords = 1000

// turnEvery is how often the pump loop turns when nothing happens, so that one that
// hangs can be told from one that has nothing to do.
const turnEvery = 5 * time.Second

// partition is the only one that the embedded form has.
const partition = 0

// journal is the embedded form: its log is in the store.
type journal struct {
	app      *App
	log      *state.Log
	pump     *Pump
	caughtUp atomic.Bool // the pump has been at the end of the log
}

func newJournal(a *App) *journal { return &journal{app: a, log: a.store.Journal(partition)} }

func (j *journal) start(ctx context.Context) (err error) {
	a := j.app
	j.pump, err = NewPump(ctx, PumpOptions{
		Partition: partition, Source: "journal", Limits: a.limits.wanted, Parse: parseLimits,
		Store: a.store, Sink: &verdictLog{log: a.verdicts, clock: a.clock}, Answer: a.answers.deliver,
		Memory: a.o.Memory, CheckpointEvery: a.o.CheckpointEvery, Counts: &a.counts, Metrics: a.metrics, Clock: a.clock, Logger: a.logger,
	})
	if err != nil {
		return err
	}
	if err := a.limits.begin(); err != nil {
		return err
	}
	a.run(a.pumping, "pump", j.runPump)
	a.run(a.intake, "ticks", j.runTicks)
	return nil
}

func (j *journal) stop(ctx context.Context) error {
	j.pump.Hurry()
	if err := j.app.pumping.end(ctx); err != nil {
		return err
	}
	if j.app.Err() != nil {
		j.pump.Abandon()
		return nil
	}
	if err := j.pump.Close(ctx); err != nil {
		return fmt.Errorf("last checkpoint: %w", err)
	}
	return nil
}

func (j *journal) pumps() []*Pump {
	if j.pump == nil {
		return nil
	}
	return []*Pump{j.pump}
}

func (j *journal) pumpOf(string) (*Pump, error) { return j.pump, nil }

func (j *journal) append(_ context.Context, entries []state.Entry) error {
	now := events.StampOf(j.app.clock.Now())
	for i := range entries {
		entries[i].Appended = now
	}
	if _, err := j.log.Append(entries); err != nil {
		return fmt.Errorf("append to the journal: %w", err)
	}
	return nil
}

func (j *journal) ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	return j.app.answered(ctx, ev, func() error { return j.append(ctx, []state.Entry{{Value: raw}}) })
}

// limitsCursor names what the store remembers of the limits that the journal has.
const limitsCursor = "limits.set"

// setLimits appends the limits when the journal has others. The cursor is written
// after that: a crash in between tells the journal twice, which changes nothing.
func (j *journal) setLimits(limits analyzer.Limits) error {
	set, _, err := j.app.store.Cursor(limitsCursor)
	if err != nil || string(set) == limits.Version {
		return err
	}
	if err := j.append(context.Background(), []state.Entry{{Value: limitsEvent(limits, j.app.clock)}}); err != nil {
		return err
	}
	return j.app.store.SetCursor(limitsCursor, []byte(limits.Version))
}

func (j *journal) eventsOf(ctx context.Context, key string, since events.Stamp, fn func(line []byte) bool) error {
	from, err := j.appendedAt(since)
	if err != nil {
		return err
	}
	find := newFinder(key)
	end := j.log.End()
	var entries []state.Entry
	for from < end && ctx.Err() == nil {
		entries, err = j.log.Read(from, batchRecords, entries[:0])
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			from = gap.To
			continue
		}
		if err != nil {
			return err
		}
		for i := range entries {
			if find.has(entries[i].Value) && !fn(entries[i].Value) {
				return nil
			}
		}
		from += int64(len(entries))
	}
	return ctx.Err()
}

// appendedAt returns the first offset of the journal that was appended at or after at.
func (j *journal) appendedAt(at events.Stamp) (int64, error) {
	var rerr error
	from := sort.Search(int(j.log.End()), func(i int) bool {
		entries, err := j.log.Read(int64(i), 1, nil)
		if _, ok := errors.AsType[*state.GapError](err); ok {
			return false // expired: what is there comes after it
		}
		if err != nil || len(entries) == 0 {
			rerr = errors.Join(rerr, err)
			return true
		}
		return entries[0].Appended >= at
	})
	return int64(from), rerr
}

func (j *journal) ready(out *readyAnswer) {
	out.Lag = j.log.End() - j.pump.Next()
	if !j.caughtUp.Load() {
		out.Why = append(out.Why, "the pump has not caught up with the journal since the start")
	} else if out.Lag > maxLag {
		out.Why = append(out.Why, "the pump is behind the journal")
	}
}

// runPump reads the journal from where the last checkpoint left off, and when it is
// told to end, to the end of what is there: nothing more comes then.
func (j *journal) runPump(ctx context.Context) error {
	a := j.app
	next := j.pump.Next()
	var entries []state.Entry
	var records []Record
	for ctx.Err() == nil || next < j.log.End() && a.pumping.hard.Err() == nil {
		var err error
		entries, err = j.log.Read(next, batchRecords, entries[:0])
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
		if err := j.pump.Batch(a.pumping.hard, records); err != nil {
			return err
		}
		next += int64(len(records))
		a.turned.Store(a.clock.Now().UnixMilli())
		behind := j.log.End() - next
		if behind > 0 {
			continue
		}
		if !j.caughtUp.Swap(true) {
			a.meter.restored(a.clock.Now())
		}
		wait := turnEvery
		if j.pump.Pending() {
			wait = min(wait, a.o.CheckpointEvery)
		}
		select {
		case <-j.log.Ready(next):
		case <-a.clock.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// runTicks appends a tick when nothing else was appended for a while, so that
// deadlines fire from the log.
func (j *journal) runTicks(ctx context.Context) error {
	a := j.app
	last := j.log.End()
	for {
		if err := a.pause(ctx, a.o.Tick); err != nil {
			return err
		}
		if end := j.log.End(); end != last {
			last = end
			continue
		}
		offset, err := j.log.Append([]state.Entry{{Appended: events.StampOf(a.clock.Now()), Value: tickEvent(a.clock)}})
		switch {
		case err == nil:
			last = offset + 1
		case !errors.Is(err, state.ErrDiskLow): // which the pump tells about
			return fmt.Errorf("append a tick: %w", err)
		}
	}
}

// tickEvent is a record that says how late it is.
func tickEvent(c Clock) []byte {
	now := events.StampOf(c.Now())
	tick := events.Event{ID: fmt.Sprintf("tick:%d", now), Time: now, Kind: events.Tick}
	return tick.AppendJSON(nil)
}

// limitsEvent is a record that sets limits.
func limitsEvent(limits analyzer.Limits, c Clock) []byte {
	now := events.StampOf(c.Now())
	ev := events.Event{ID: fmt.Sprintf("limits:%s:%d", limits.Version, now), Time: now, Kind: events.LimitsSet, Limits: limitfile.FormatJSON(limits)}
	return ev.AppendJSON(nil)
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
