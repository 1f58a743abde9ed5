package app

import (
	"context"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/cmd/internal/api"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/embedded"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
)

// backend is how a program gets its log: it keeps a journal of its own, or it is a
// member of a group that shares the partitions of a Kafka topic. All else is the same.
// No caller asks which one it is (see decision 21).
type backend interface {
	api.Log

	// Start begins to fold.
	Start(ctx context.Context) error

	// SetLimits puts limits into the log unless it has them already. It may be called
	// before Start.
	SetLimits(limits analyzer.Limits) error

	// AppendChecks puts the check requests of a batch into the log, see ask.Log.
	AppendChecks(ctx context.Context, batch []*check.Request) error

	// Now is the time of the log: what it would say of an event that it took now.
	Now() events.Stamp

	// Progress says how far the partitions of events are folded that this process folds.
	// It is from this that degraded mode is found (see decision 73).
	Progress() []pump.Progress

	// Stop folds what is there to the end, publishes it, and takes a last checkpoint.
	Stop(ctx context.Context) error
}

// members are the other processes of a group: requests are passed on to them, and come from them.
type members interface {
	api.Members
	ask.Members
}

// folded returns what is folded here.
// It gives package ask and the self-test what they need in their own terms, so that neither
// depends on pumps.
type folded struct{ backend }

// Folded are the partitions of events that are folded here now.
func (f folded) Folded() (out []int) {
	for _, p := range f.Pumps(pump.FlowStage) {
		out = append(out, p.Partition())
	}
	return out
}

// PartitionOf is where a flow is folded; false when that is not here.
func (f folded) PartitionOf(flow string) (int, bool) {
	p, err := f.PumpOf(pump.FlowStage, flow)
	if err != nil {
		return 0, false
	}
	return p.Partition(), true
}

// Ready reports what is wrong with the log, in the words of the self-test.
func (f folded) Ready() (why []string, lag int64) {
	why, lag, _ = f.backend.Ready()
	return why, lag
}

// Progress is that of the backend, in the type of package ask.
func (f folded) Progress() (out []ask.Progress) {
	for _, p := range f.backend.Progress() {
		out = append(out, ask.Progress(p))
	}
	return out
}

// Known returns copies of the flow and of its partition as they were folded last, for
// answers in degraded mode. The error is that another process folds it.
func (f folded) Known(flow string) (*analyzer.Flow, analyzer.Partition, error) {
	p, err := f.PumpOf(pump.FlowStage, flow)
	if err != nil {
		return nil, analyzer.Partition{}, err
	}
	return p.Known(flow)
}

// Above is the tree that a tree of flows passes on to; "" for none, and where another process
// folds it.
func (f folded) Above(tree string) string {
	p, err := f.PumpOf(pump.AgentStage, activity.TreeKey(tree))
	if err != nil {
		return ""
	}
	above, _ := p.TreeAbove(tree) // a record that cannot be read ends the fold by itself
	return above
}

// Waits is what it costs the flow to wait from now on; nil for nothing, and where another process folds it.
func (f folded) Waits(flow string) *events.Waiting {
	is, _, err := f.Known(flow)
	if err != nil {
		return nil
	}
	return is.Waits(f.backend.Now())
}

// newBackend makes the one that the options want. It begins nothing.
func (a *App) newBackend() (backend, error) {
	shared := pump.Options{Limits: *a.limits.Current(), Parse: pump.LimitsParser(), Answer: a.answers.Deliver, Memory: a.o.Memory,
		CheckpointEvery: a.o.CheckpointEvery, Turn: pump.NewTurn(), Counts: &a.counts, Metrics: a.api.Metrics(), Clock: a.clock, Logger: a.logger}
	if a.o.Kafka == nil {
		// An allowance that waits for the word of its tree: both stages are folded in this
		// process. In a group the owner of the flow may have to ask another member for it.
		shared.Held = func(_ int64, ev *events.Event, _ string, v *events.Verdict) { a.answers.Hold(ev, v) }
		// No other process appends, so the end of the journal is known.
		a.checks.End = a.store.Journal(0).End
		return embedded.New(embedded.Options{Pump: shared, Store: a.store, Tick: a.o.Tick, Settle: a.answers.Settle,
			Recall: a.answers.Recall, Recalled: ask.Recalled, CaughtUp: a.api.CaughtUp, Fail: a.Fail}), nil
	}
	shared.Read = func(r *pump.Record, ev *events.Event) { a.look(r.Value, ev) }
	m := group.New(*a.o.Kafka, group.Host{Pump: shared, Store: a.store, StateDir: a.o.StateDir, Peer: a.peer, Tick: a.o.Tick,
		AnswerTimeout: a.o.AnswerTimeout, KeepVerdicts: a.o.State.JournalTTL, Limits: a.limits.Current,
		Hold: a.answers.Hold, Settle: a.answers.Settle, Sign: a.keys.sign, Recall: a.answers.Recall, Recalled: ask.Recalled, CaughtUp: a.api.CaughtUp, Fail: a.Fail})
	a.members, a.checks.Members = m, m
	return m, nil
}
