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
	"weir/cmd/internal/pump"
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

// journal is the embedded form: its logs are in the store. One goroutine folds both
// stages, a batch of events and then the activity that came of it.
type journal struct {
	app      *App
	log      *state.Log // of events
	flows    feed
	activity feed
	caughtUp atomic.Bool // the pumps have been at the end of their logs
}

func newJournal(a *App) *journal {
	log := a.store.Journal(partition)
	return &journal{app: a, log: log, flows: feed{app: a, name: "journal", log: log, read: journalRecord},
		activity: feed{app: a, name: activitySource, log: a.store.Journal(agentLane), read: activityRecord}}
}

// The agent stage of the embedded form has a partition of the store behind that of the
// flow stage, and its share of the memory.
const (
	agentLane      = partition + 1
	activitySource = "activity"
	agentShare     = 4
)

func (j *journal) start(ctx context.Context) (err error) {
	a := j.app
	options := pump.Options{
		Partition: partition, Source: j.flows.name, Limits: a.limits.wanted, Parse: parseLimits,
		Store: a.store, Sink: &verdictLog{log: a.verdicts, clock: a.clock}, Answer: a.answers.deliver,
		Activity: &activityLog{log: j.activity.log, clock: a.clock},
		Memory:   a.o.Memory - a.o.Memory/agentShare, CheckpointEvery: a.o.CheckpointEvery, Counts: &a.counts, Metrics: a.metrics, Clock: a.clock, Logger: a.logger,
	}
	if j.flows.pump, err = pump.New(ctx, options); err != nil {
		return err
	}
	options.Partition, options.Source, options.Stage = agentLane, j.activity.name, pump.AgentStage
	options.Sink = &verdictLog{log: a.verdicts, clock: a.clock, agents: true}
	options.Memory, options.Answer, options.Activity, options.Metrics = a.o.Memory/agentShare, nil, nil, nil
	if j.activity.pump, err = pump.New(ctx, options); err != nil {
		return err
	}
	if err := a.limits.begin(); err != nil {
		return err
	}
	a.run(a.pumping, "pump", j.runPumps)
	a.run(a.intake, "ticks", j.runTicks)
	return nil
}

func (j *journal) stop(ctx context.Context) error {
	pumps := []*pump.Pump{j.flows.pump, j.activity.pump}
	for _, p := range pumps {
		p.Hurry()
	}
	if err := j.app.pumping.end(ctx); err != nil {
		return err
	}
	var err error
	for _, p := range pumps {
		if j.app.Err() != nil || err != nil {
			p.Abandon()
		} else if cerr := p.Close(ctx); cerr != nil {
			err = fmt.Errorf("last checkpoint: %w", cerr)
		}
	}
	return err
}

func (j *journal) pumps() []*pump.Pump { return j.flows.started() }

func (j *journal) pumpOf(string) (*pump.Pump, error) { return j.flows.pump, nil }

func (j *journal) agents() []*pump.Pump { return j.activity.started() }

func (j *journal) agentsOf(string) (*pump.Pump, error) { return j.activity.pump, nil }

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

// setLimits appends the limits to both logs when they have others. The cursor is written
// after that: a crash in between tells them twice, which changes nothing.
func (j *journal) setLimits(limits analyzer.Limits) error {
	set, _, err := j.app.store.Cursor(limitsCursor)
	if err != nil || string(set) == limits.Version {
		return err
	}
	value := limitsEvent(limits, j.app.clock)
	if err := j.append(context.Background(), []state.Entry{{Value: value}}); err != nil {
		return err
	}
	if err := (&activityLog{log: j.activity.log, clock: j.app.clock}).Send(context.Background(), []pump.Rekeyed{{Value: value}}); err != nil {
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
	out.Lag = j.flows.behind()
	if !j.caughtUp.Load() {
		out.Why = append(out.Why, "the pump has not caught up with the journal since the start")
	} else if out.Lag > maxLag {
		out.Why = append(out.Why, "the pump is behind the journal")
	} else if j.activity.behind() > maxLag {
		out.Why = append(out.Why, "the pump of agents is behind their activity")
	}
}

// feed is a log of the store and the pump that folds it.
type feed struct {
	app  *App
	name string
	log  *state.Log
	read func(*state.Entry) (pump.Record, error)
	pump *pump.Pump // nil before the start

	next    int64 // what the pump gets next
	entries []state.Entry
	records []pump.Record
}

func (f *feed) started() []*pump.Pump {
	if f.pump == nil {
		return nil
	}
	return []*pump.Pump{f.pump}
}

// behind is how many records the pump has not folded.
func (f *feed) behind() int64 { return f.log.End() - f.pump.Next() }

// fold folds the next records of the log, if there are any, and returns how many are left.
func (f *feed) fold(ctx context.Context) (left int64, err error) {
	f.entries, err = f.log.Read(f.next, batchRecords, f.entries[:0])
	if gap, ok := errors.AsType[*state.GapError](err); ok {
		f.app.counts.DeadLetter(pump.CodeLost)
		f.app.logger.Error("records have expired before they were folded; keep them longer", "log", f.name, "from", gap.From, "to", gap.To)
		f.next = gap.To
		return f.log.End() - f.next, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the %s: %w", f.name, err)
	}
	f.records = f.records[:0]
	for i := range f.entries {
		r, err := f.read(&f.entries[i])
		if err != nil {
			return 0, err
		}
		f.records = append(f.records, r)
	}
	if err := f.pump.Batch(ctx, f.records); err != nil {
		return 0, err
	}
	f.next += int64(len(f.records))
	return f.log.End() - f.next, nil
}

// runPumps reads the logs from where the last checkpoints left off, and when it is told
// to end, to the end of what is there: nothing more comes then.
func (j *journal) runPumps(ctx context.Context) error {
	a := j.app
	hard := a.pumping.hard
	j.flows.next, j.activity.next = j.flows.pump.Next(), j.activity.pump.Next()
	for ctx.Err() == nil || j.flows.next < j.log.End() && hard.Err() == nil {
		behind, err := j.flows.fold(hard)
		if err != nil {
			return err
		}
		for left := int64(1); left > 0 && hard.Err() == nil; {
			if left, err = j.activity.fold(hard); err != nil {
				return err
			}
			a.turned.Store(a.clock.Now().UnixMilli())
		}
		if behind > 0 {
			continue
		}
		if !j.caughtUp.Swap(true) {
			a.meter.restored(a.clock.Now())
		}
		wait := turnEvery
		if j.flows.pump.Pending() || j.activity.pump.Pending() {
			wait = min(wait, a.o.CheckpointEvery)
		}
		select {
		case <-j.log.Ready(j.flows.next):
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

// verdictLog is the log that streams read, as the sink that the pump of one stage
// publishes to. The triggers of the agent stage stand there below zero, so that each
// knows its own.
type verdictLog struct {
	log    *state.Log
	clock  Clock
	agents bool

	again bool  // the last Emit failed
	from  int64 // where the log ended before it
}

// trigger turns the offset of a trigger into what the log says of it, and back.
func (l *verdictLog) trigger(offset int64) int64 {
	if l.agents {
		return ^offset
	}
	return offset
}

// Emit appends verdicts. After an error some of them may be in the log; nobody else
// writes there until it is called again, so its end tells how many.
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
