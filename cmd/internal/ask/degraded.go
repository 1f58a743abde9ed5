package ask

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// Degraded answers checks about flows whose partition the fold is behind with, so that callers do
// not wait in vain. It folds the checks into copies of the last known flows, by the
// limits of that mode (see analyzer.Limits.WhenBehind). It writes each answered check to the
// log as its result, a call or an attempt, so that the fold counts it later.
//
// The mode is on or off for each partition of its own. It begins when the fold has needed more than
// Degraded.After to reach the position where the log ended then. It ends when the fold has needed at
// most half of that, for Degraded.Until.
//
// The exported fields are set before Run. Any goroutine may ask.
type Degraded struct {
	Fold    Fold
	Limits  func() *analyzer.Limits
	Append  func(ctx context.Context, entries []state.Entry) error
	Now     func() events.Stamp // the time of the log
	Answers *Answers
	Clock   clock.Clock
	Logger  *slog.Logger

	// mu is held while an ask is folded into a copy: asks of all partitions take turns then.
	mu         sync.Mutex
	partitions map[int]*partition

	begun, unlogged atomic.Int64
	// By whether they were allowed (0) or refused (1).
	answered [2]atomic.Int64
}

// Fold is how far the log is folded, and what is known of its flows.
type Fold interface {
	// Progress says of each partition of events that is folded here how far that is.
	Progress() []Progress
	// PartitionOf returns the partition of a flow; false when it is not folded here.
	PartitionOf(flow string) (partition int, ok bool)
	// Known returns a flow as it was folded last, as a copy, and what was known over all flows.
	Known(flow string) (*analyzer.Flow, analyzer.Partition, error)
}

// Progress is how far a partition is folded: Next is the first offset that is not, and End
// that of the next record to come.
type Progress struct {
	Partition int
	Next, End int64
}

// lookEvery is how often it is looked how far the fold is, and leastMissed how many looks in
// a row have to find it behind: one look after a machine has slept says nothing.
const (
	lookEvery   = 250 * time.Millisecond
	leastMissed = 4
)

// partition is how far the fold of one partition is behind its log.
type partition struct {
	end    int64     // where the log ended at since
	since  time.Time // when the fold was last seen to have come to where the log had ended before
	missed int       // looks since then
	calm   time.Time // since when it keeps up, while the mode is on
	on     time.Time // since when the mode is on; the zero time when it is off

	beginning context.Context // ends when the mode begins
	begin     context.CancelFunc
	engine    *analyzer.Engine
	known     map[string][]byte // flows as they are with what was answered, by key
	before    map[string][]byte // those of the time before; forgotten when known is full again
}

// mostKnown is how many flows of a partition are kept with what was answered, times two.
const mostKnown = 4096

var (
	// errBegun is why an ask stops to wait.
	errBegun = errors.New("the fold is behind")
	// errTree is why the mode does not answer an ask.
	errTree = errors.New("a tree of flows has the last word")
)

// Run looks how far the fold is until ctx ends.
func (d *Degraded) Run(ctx context.Context) error {
	for {
		d.look()
		select {
		case <-d.Clock.After(lookEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look begins and ends the mode.
// The partitions are those folded here now: what another process has taken over is forgotten,
// with its copies.
func (d *Degraded) look() {
	now, limits := d.Clock.Now(), d.Limits()
	d.mu.Lock()
	defer d.mu.Unlock()
	partitions := make(map[int]*partition, len(d.partitions))
	for _, p := range d.Fold.Progress() {
		l := d.partitions[p.Partition]
		if l == nil {
			l = &partition{end: p.End, since: now}
			l.arm()
		}
		partitions[p.Partition] = l
		// It has come to where the log ended when it was last seen to keep up; from here on the
		// next stretch is measured.
		if p.Next >= l.end {
			l.end, l.since, l.missed = p.End, now, 0
		} else {
			l.missed++
		}
		behind := now.Sub(l.since)
		switch set := &limits.Degraded; {
		case l.on.IsZero():
			// The copies are begun anew each time, since what was answered in the last time is
			// in the log by now.
			if set.After > 0 && behind >= set.After && l.missed >= leastMissed {
				l.on, l.calm = now, time.Time{}
				wanted := limits.WhenBehind()
				l.engine, l.known = analyzer.New(wanted), make(map[string][]byte)
				l.begin()
				d.begun.Add(1)
				d.Logger.Warn("degraded mode begins: the fold is behind, and asks are answered by what was folded last", "partition", p.Partition, "behind", behind, "records", p.End-p.Next)
			}
		// Half of what it takes to begin, so that the mode does not flutter.
		case set.After > 0 && l.missed > 0 && behind > set.After/2:
			l.calm = time.Time{}
		case l.calm.IsZero():
			l.calm = now
			fallthrough
		default:
			if set.After == 0 || now.Sub(l.calm) >= set.Until {
				d.Logger.Info("degraded mode ends: the fold keeps up again", "partition", p.Partition, "lasted", now.Sub(l.on))
				l.on, l.engine, l.known, l.before = time.Time{}, nil, nil, nil
				l.arm()
			}
		}
	}
	for n, l := range d.partitions {
		if partitions[n] == nil { // another process folds it now, and answers
			l.begin()
		}
	}
	d.partitions = partitions
}

// arm makes what asks wait for beside their answer: that the mode begins.
func (l *partition) arm() { l.beginning, l.begin = context.WithCancel(context.Background()) }

// modeOf says whether the mode is on for a flow, and returns what ends when it begins.
// A flow of a partition that is not folded here has no mode: its owner answers.
func (d *Degraded) modeOf(flow string) (beginning context.Context, on bool) {
	n, folded := d.Fold.PartitionOf(flow)
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.partitions[n]; folded && l != nil {
		return l.beginning, !l.on.IsZero()
	}
	return context.Background(), false
}

// answer answers by what is known. With appends, the result is put into the log.
func (d *Degraded) answer(ctx context.Context, ev *events.Event, appends bool) (*events.Verdict, error) {
	key := keyOf(ev)
	// An id names one call in this mode, too.
	if err := d.Answers.begin(ev, key); err != nil {
		return nil, err
	}
	v, err := d.judge(ev)
	if err != nil {
		return nil, err
	}
	v.Degraded = events.DegradedBehind
	refused := check.Refuses(v)
	if refused {
		d.answered[1].Add(1)
	} else {
		d.answered[0].Add(1)
	}
	if appends {
		made := *ev
		made.Ask = false
		value := made.AppendJSON(nil)
		if refused {
			value = attempt(ev, v)
		}
		// A log that accepts nothing is no reason to stop all work: a call missing in it is logged.
		if err := d.Append(ctx, []state.Entry{{Value: value}}); err != nil {
			d.unlogged.Add(1)
			d.Logger.Warn("a call that was answered in degraded mode is not in the log, and is not counted later", "flow", ev.FlowKey(), "id", ev.ID, "error", err)
		}
	}
	return d.Answers.give(ev, key, v)
}

// judge folds the ask into the copy of its flow.
func (d *Degraded) judge(ev *events.Event) (*events.Verdict, error) {
	flow := ev.FlowKey()
	// Before the lock, because it may read the store.
	f, over, err := d.Fold.Known(flow)
	if err != nil {
		return nil, err
	}
	asked := *ev
	asked.Appended = d.Now() // as the log would say
	n, _ := d.Fold.PartitionOf(flow)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.partitions[n]
	if l == nil || l.on.IsZero() {
		return nil, check.ErrTimeout // the mode has ended in between: asked again, the fold answers
	}
	// What was answered here is newer than what the fold knows.
	record, ok := l.known[flow]
	if !ok {
		record, ok = l.before[flow]
	}
	if ok {
		if err := f.UnmarshalBinary(flow, record); err != nil {
			return nil, err
		}
	}
	var fx analyzer.Effects
	l.engine.Step(&over, f, &asked, &fx)
	// Nothing is kept of it: the tree may refuse what the flow allows.
	if fx.Asked && !check.Refuses(fx.Answer) {
		return nil, errTree
	}
	if record, err = f.AppendBinary(nil); err != nil {
		return nil, err
	}
	// The older half goes as a whole. A flow that is asked about again is kept once more.
	if len(l.known) >= mostKnown {
		l.before, l.known = l.known, make(map[string][]byte)
	}
	l.known[flow] = record
	return fx.Answer, nil
}

// DegradedStatus is what people and metrics see of the mode.
type DegradedStatus struct {
	Reason     string         `json:"reason"` // of events.DegradedLoad and events.DegradedBehind
	Since      events.RFC3339 `json:"since,omitzero"`
	Partitions []int          `json:"partitions"`    // for which it is on
	Why        []string       `json:"why,omitempty"` // what would be wrong if the mode were not on
}

// Status says for which partitions the mode is on; nil for none.
func (d *Degraded) Status() *DegradedStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out *DegradedStatus
	for _, p := range d.Fold.Progress() {
		l := d.partitions[p.Partition]
		if l == nil || l.on.IsZero() {
			continue
		}
		if out == nil {
			out = &DegradedStatus{Reason: events.DegradedBehind}
		}
		out.Partitions = append(out.Partitions, p.Partition)
		if since := events.RFC3339(events.StampOf(l.on)); out.Since == 0 || since < out.Since {
			out.Since = since
		}
	}
	return out
}

// Counted is what was done in the mode since the start: how often it began, how many calls
// it has allowed and refused, and how many of them are missing in the log.
func (d *Degraded) Counted() (begun, allowed, refused, unlogged int64) {
	return d.begun.Load(), d.answered[0].Load(), d.answered[1].Load(), d.unlogged.Load()
}
