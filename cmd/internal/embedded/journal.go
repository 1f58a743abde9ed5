package embedded

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// batchRecords is how many records of the journal are folded at one time.
// It is also what one request may have to fold for others (see decision 81).
const batchRecords = 1000

// turnEvery is how often the pump loop turns when nothing happens. It makes a loop that hangs
// distinguishable from one that has nothing to do. It has to be far below app.Options.Stuck, which
// /healthz uses.
const turnEvery = 5 * time.Second

// The embedded form has one partition of events, and behind it one of activity.
const (
	// The numbers stand in the store: state of one partition is never read as that of the
	// other.
	partition      = 0
	agentPartition = partition + 1
	activitySource = "activity"
)

// Options are what a journal works with. All are required.
// They are those of one program; a store belongs to one Journal at a time.
type Options struct {
	// Pump is what both pumps have in common. The budget of memory is that of both. Answer
	// and Metrics are for the flows alone.
	Pump  pump.Options
	Store *state.Store
	Tick  time.Duration // silence after which a tick is appended

	// Settle gets what the agent stage says to asks of which a tree has the last word, see
	// pump.Options.Settled.
	Settle func(ev *events.Event, v *events.Verdict)
	// Recall gets the last records before the start, in their order, and Recalled is how many.
	Recall   func(record []byte)
	Recalled int64
	// The pump loop calls CaughtUp when the pumps reach the end of their logs for the first time.
	CaughtUp func()
	// Fail is called with an error after which the program cannot continue.
	Fail func(error)
}

// Journal is the log backend that needs only a directory. One goroutine folds both stages, a batch of
// events and then its activity. If that goroutine is idle, a check request folds the waiting records
// itself. Make it with New, then Start, then Stop.
type Journal struct {
	o        Options
	logClock *logClock // what ticks in the log of events go by
	// The log of events is written by any goroutine: the store puts appends in a row.
	log *state.Log // of events
	folder
	// failed means that a checkpoint could hold a wrong state, see Stop.
	failed atomic.Bool

	ticking *phase.Phase // what appends beside producers
}

// New returns a journal that does not fold yet.
// Append may be called before Start, as SetLimits does: the pumps come to it later.
func New(o Options) *Journal {
	j := &Journal{o: o, log: o.Store.Journal(partition)}
	fail := func(err error) {
		j.failed.Store(true)
		o.Fail(err)
	}
	j.folder = folder{o: &j.o, clock: o.Pump.Clock, fail: fail, folding: phase.New(fail), stays: true, more: make(chan struct{}, 1)}
	j.ticking = phase.New(fail)
	// The log's time goes on from its last entry, so it never goes back by a restart.
	j.logClock = newLogClock(j.clock, lastAppended(j.log))
	j.flows = feed{of: &j.folder, name: "journal", log: j.log, read: journalRecord}
	j.activity = feed{of: &j.folder, name: activitySource, log: o.Store.Derived(agentPartition), read: activityRecord}
	j.turned.Store(j.clock.Now().UnixMilli())
	return j
}

// Start goes on where the last checkpoints left off.
// An error is one of the store, or of a state that this weir cannot read. The context is
// for the start alone.
func (j *Journal) Start(ctx context.Context) (err error) {
	o, verdicts := j.o.Pump, j.o.Store.Verdicts(partition)
	flows, agents := pump.SplitMemory(o.Memory)
	o.Partition, o.Source, o.Store, o.Memory = partition, j.flows.name, j.o.Store, flows
	o.Sink = &verdictLog{log: verdicts, clock: j.clock}
	o.Activity = &activityLog{log: j.activity.log, clock: j.clock}
	if j.flows.pump, err = pump.New(ctx, o); err != nil {
		return err
	}
	if err := j.recall(); err != nil {
		return err
	}
	o.Partition, o.Source, o.Stage, o.Memory = agentPartition, j.activity.name, pump.AgentStage, agents
	// Both stages publish into one log of verdicts, in one loop, so their verdicts are in
	// one order.
	o.Sink = &verdictLog{log: verdicts, clock: j.clock, agents: true}
	o.Answer, o.Held, o.Activity, o.Metrics = nil, nil, &activityLog{log: j.activity.log, clock: j.clock, up: true}, nil
	o.Settled = func(_ pump.Position, ev *events.Event, v *events.Verdict) { j.o.Settle(ev, v) }
	if j.activity.pump, err = pump.New(ctx, o); err != nil {
		return err
	}
	// Who appends beside producers ends first, see Stop, so the fold finds an end.
	j.folding.Run("pump", j.runPumps)
	j.ticking.Run("ticks", j.runTicks)
	return nil
}

// recall gives the last records to Recall before a check is answered: those that were folded before the start, and those
// that are folded again only while checks come.
func (j *Journal) recall() error {
	if j.o.Recall == nil {
		return nil
	}
	var entries []state.Entry
	end := j.log.End()
	for from := max(0, end-j.o.Recalled); from < end; {
		first, read, err := state.ReadOn(j.log.Read, from, batchRecords, entries[:0])
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		for i := range read {
			j.o.Recall(read[i].Value)
		}
		if len(read) == 0 {
			break
		}
		entries, from = read, first+int64(len(read))
	}
	return nil
}

// Stop folds what is there to the end, publishes it, and takes a last checkpoint.
//
// Nothing may append any more but the ticks, which it ends. After a fault no checkpoint is
// taken: the next start folds again from the last good one. state.ErrDiskLow says that
// there was no room for one, with the same consequence.
func (j *Journal) Stop(ctx context.Context) error {
	err := j.ticking.End(ctx)
	pumps := append(j.flows.started(), j.activity.started()...)
	for _, p := range pumps {
		// There is no time to wait for free space any more.
		p.Hurry()
	}
	if err := errors.Join(err, j.folding.End(ctx)); err != nil {
		return err
	}
	j.turn.Lock()
	// A request that is late must not fold into a pump that is closed.
	j.stays = true
	j.turn.Unlock()
	for _, p := range pumps {
		if j.failed.Load() || err != nil {
			p.CloseWithoutCheckpoint()
		} else if cerr := p.Close(ctx); cerr != nil {
			err = fmt.Errorf("last checkpoint: %w", cerr)
		}
	}
	return err
}

// Pumps is the one that folds a stage, when it has started.
func (j *Journal) Pumps(stage pump.Stage) []*pump.Pump { return j.feedOf(stage).started() }

// PumpOf returns the pump that folds a flow or an agent.
// It folds all of them; the error is for the other backend.
func (j *Journal) PumpOf(stage pump.Stage, _ string) (*pump.Pump, error) {
	return j.feedOf(stage).pump, nil
}

func (j *Journal) feedOf(stage pump.Stage) *feed {
	if stage == pump.AgentStage {
		return &j.activity
	}
	return &j.flows
}

// Turned is when the loop of the pumps last turned.
// Before the first turn it is when the journal was made.
func (j *Journal) Turned() time.Time { return time.UnixMilli(j.turned.Load()) }

// few is the most events that their sender folds itself, if no other goroutine folds. A sender of more
// does not wait for their fold.
const few = 16

// Append puts events into the log and returns when they are safe there.
//
// All entries get the time of the log at this moment. The values are the caller's again
// when it returns. state.ErrDiskLow passes by itself; repeats are dropped by their ids in
// the fold.
func (j *Journal) Append(_ context.Context, entries []state.Entry) error {
	if _, err := j.append(entries, j.log.Append); err != nil {
		return err
	}
	if len(entries) <= few {
		j.foldAhead(nil)
	} else {
		j.wake()
	}
	return nil
}

// append puts events into the log by one of its methods, and returns the offset of the first.
func (j *Journal) append(entries []state.Entry, by func([]state.Entry) (int64, error)) (first int64, err error) {
	now := j.logClock.now()
	for i := range entries {
		entries[i].Appended = now
	}
	if first, err = by(entries); err != nil {
		return 0, fmt.Errorf("append to the journal: %w", err)
	}
	return first, nil
}

// AppendChecks puts check requests into the log by one write, and folds them unless another
// goroutine folds. The end of the process takes none of them. A loss of power may take those of the
// last moment, see state.SyncWithin: a guard that forgets a call or two then costs less than one
// that waits for the disk at each call.
func (j *Journal) AppendChecks(_ context.Context, batch []*check.Request) error {
	entries := make([]state.Entry, len(batch))
	for i, q := range batch {
		entries[i].Value = q.Raw
	}
	first, err := j.append(entries, j.log.AppendUnsynced)
	if err != nil {
		return err
	}
	j.foldAhead(&fresh{first, entries, batch})
	return nil
}

// limitsCursor names what the store remembers of the limits that the journal has.
// The fold finds out by itself which limits are in force; this only spares the log a record
// at each start.
const limitsCursor = "limits.set"

// SetLimits appends the limits to both logs if they have others. The cursor is written after that: a
// crash in between appends them twice, which changes nothing. Both stages judge by limits, each by
// those of its own log. The error is one of the store.
func (j *Journal) SetLimits(limits analyzer.Limits) error {
	set, _, err := j.o.Store.Cursor(limitsCursor)
	if err != nil || string(set) == limits.Version {
		return err
	}
	value := pump.LimitsRecord(limits, events.StampOf(j.clock.Now()))
	if err := j.Append(context.Background(), []state.Entry{{Value: value}}); err != nil {
		return err
	}
	if err := (&activityLog{log: j.activity.log, clock: j.clock}).Send(context.Background(), []pump.Repartitioned{{Value: value}}); err != nil {
		return err
	}
	return j.o.Store.SetCursor(limitsCursor, []byte(limits.Version))
}

// Events calls fn for the events of a flow that came into the journal at or after since, with the
// time of that, until it returns false; for the flow "" it calls fn for all records. The line is good
// until fn returns.
// It ends at what was the end when it was called. Records that have expired are skipped. There is no
// index of flows, since most flows are never asked for: every record is looked at.
func (j *Journal) Events(ctx context.Context, flow string, since events.Stamp, fn func(line []byte, appended events.Stamp) bool) error {
	fn = pump.OfFlow(flow, fn)
	from, err := j.appendedAt(since)
	if err != nil {
		return err
	}
	end := j.log.End()
	var entries []state.Entry
	for from < end && ctx.Err() == nil {
		from, entries, err = state.ReadOn(j.log.Read, from, batchRecords, entries[:0])
		if err != nil {
			return err
		}
		for i := range entries {
			if !fn(entries[i].Value, entries[i].Appended) {
				return nil
			}
		}
		from += int64(len(entries))
	}
	return ctx.Err()
}

// appendedAt returns the first offset of the journal that was appended at or after at.
// The times of entries grow with their offsets, but where the log was turned back: a search
// may then begin a little too early or too late by as much as it was turned.
func (j *Journal) appendedAt(at events.Stamp) (int64, error) {
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

// Follow has nothing to do: all verdicts are given here and stand in their log.
func (j *Journal) Follow(string, bool) (reached func(context.Context) bool, leave func()) {
	return func(context.Context) bool { return true }, func() {}
}

// Ready reports what is wrong, how many records the fold is behind, and by how much the clock of the
// machine and the log differ. The fold is as it should be while they do.
// The lag is of the events alone. Any goroutine may call it once Start has returned.
func (j *Journal) Ready() (why []string, lag int64, clock string) {
	lag = j.flows.behind()
	switch {
	case !j.caughtUp.Load():
		why = append(why, "the pump has not caught up with the journal since the start")
	case lag > pump.MaxLag:
		why = append(why, "the pump is behind the journal")
	case j.activity.behind() > pump.MaxLag:
		why = append(why, "the pump of agents is behind their activity")
	}
	return why, lag, j.logClock.differs()
}

// Progress says how far the events are folded.
func (j *Journal) Progress() []pump.Progress {
	return []pump.Progress{{Partition: partition, Next: j.flows.pump.Next(), End: j.log.End()}}
}

// Now is the time of the journal.
// It is what the next entry would get as the time of its append.
func (j *Journal) Now() events.Stamp { return j.logClock.now() }

// Measure reports on the logs as topics with one partition each.
func (j *Journal) Measure(r *prom.Reading) {
	j.flows.measure(r, false)
	j.activity.measure(r, true)
}

// runTicks appends a tick when nothing else was appended for a while, so that
// deadlines fire from the log.
// Any other entry says how late it is as well, so a busy log has no ticks.
func (j *Journal) runTicks(ctx context.Context) error {
	last := j.log.End()
	for {
		if err := retry.Pause(ctx, j.clock, j.o.Tick); err != nil {
			return err
		}
		turned, err := j.turnBack()
		if err != nil {
			return err
		}
		if end := j.log.End(); turned || end != last {
			last = end
			continue
		}
		now := j.logClock.now()
		offset, err := j.log.Append([]state.Entry{{Appended: now, Value: pump.TickRecord(now)}})
		j.wake()
		switch {
		case err == nil:
			last = offset + 1
		case !errors.Is(err, state.ErrDiskLow): // which the pump logs
			return fmt.Errorf("append a tick: %w", err)
		}
	}
}

// turnBack takes the time of the log back when the clock that gave it was ahead.
// It is one record, which a replay folds in the same way (see decision 61).
func (j *Journal) turnBack() (turned bool, err error) {
	from, to, wrong := j.logClock.turnBack()
	if !wrong {
		return false, nil
	}
	_, err = j.log.Append([]state.Entry{{Appended: to, Value: pump.TurnBackRecord(from, to)}})
	j.wake()
	if errors.Is(err, state.ErrDiskLow) { // which the pump logs
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("turn the journal back: %w", err)
	}
	j.logClock.turned(to)
	return true, nil
}

// lastAppended returns when the last entry was appended; 0 when there is none that can be
// read.
// An empty log begins with the machine's clock.
func lastAppended(log *state.Log) events.Stamp {
	end := log.End()
	if end == 0 {
		return 0
	}
	entries, err := log.Read(end-1, 1, nil)
	if err != nil || len(entries) == 0 { // it has expired
		return 0
	}
	return entries[0].Appended
}
