package pump

import (
	"context"
	"errors"
	"strings"

	"weir/analyzer/agents"
	"weir/events"
)

// Replay folds events in memory as the embedded form does, both stages: what the flows
// pass on is folded by agent at once. It is for one goroutine.
//
// It is what backtests, replays of files and demonstrations fold with: the same two pumps as a
// running weir's, with the log of activity between them replaced by a call.
type Replay struct {
	flows, agents *Pump
	// activity numbers what would be the records of that log, from 0.
	activity int64    // records that the agents were given
	up       []passed // by trees to those above, and not folded yet
	given    []events.Verdict

	// What was said to the last ask, by its flow and, if its flow held that back, by its tree.
	answer     func(offset int64, record []byte, ev *events.Event, v *events.Verdict)
	held, last *events.Verdict
}

// NewReplay returns a replay that has seen nothing. The options are those of the flow
// stage, without a Store.
func NewReplay(ctx context.Context, o Options) (*Replay, error) {
	if o.Store != nil {
		return nil, errors.New("a replay keeps nothing, and needs no store")
	}
	r := &Replay{answer: o.Answer}
	var err error
	// With Held set a flow that is part of a tree does not answer by itself; its allowance is
	// completed below by what the tree says.
	o.Held = func(_ int64, _ *events.Event, _ string, v *events.Verdict) { r.held = v }
	if r.flows, err = New(ctx, o); err != nil {
		return nil, err
	}
	// Metrics and asks are the flow stage's alone, or all would count twice.
	o.Partition, o.Source, o.Stage, o.Sources, o.Metrics = o.Partition+1, "activity", AgentStage, 1, nil
	o.Answer, o.Held = nil, nil
	o.Settled = func(_ Position, _ *events.Event, v *events.Verdict) { r.last = v }
	if r.agents, err = New(ctx, o); err != nil {
		return nil, err
	}
	r.flows.outbox.activity.handOn, r.agents.outbox.activity.handOn, r.flows.outbox.activity.handReports = r.pass, r.passUp, r.passReports
	return r, nil
}

// Fold folds ev as the record at offset and returns what it brought about: the verdicts
// about its flow, then those about agents. The result is good until the next call.
func (r *Replay) Fold(ev *events.Event, offset int64) []events.Verdict {
	r.given = r.given[:0]
	if ev.Kind == events.LimitsSet {
		// The agent stage judges by limits of its own, and has to have them before what the
		// flows pass on.
		r.pass("", Position{}, ev)
	}
	r.held, r.last = nil, nil
	// What concerns agents is folded within this call, by handOn, and puts its verdicts into
	// r.given.
	flows := r.flows.Fold(ev, offset)
	// By now the tree has folded the ask, so both words are there.
	if r.held != nil && r.answer != nil {
		r.answer(offset, nil, ev, agents.LastWord(r.held, r.last))
	}
	if len(r.given) == 0 {
		return flows
	}
	// Those about agents were put first, as they came.
	// The result lies behind them in the same memory, so that no call has to allocate.
	n := len(r.given)
	r.given = append(append(r.given, flows...), r.given...)
	return r.given[n:]
}

// pass gives the agents what the flows pass on.
func (r *Replay) pass(key string, from Position, ev *events.Event) {
	r.fold(&passed{key, from, ev})
	// A tree may pass on to the one above it, which may do so again: each in its turn, because a
	// pump folds one record at a time.
	for len(r.up) > 0 {
		next := r.up[0]
		r.up = r.up[1:]
		r.fold(&next)
	}
}

// fold gives the agent stage one record.
func (r *Replay) fold(x *passed) {
	r.given = append(r.given, r.agents.FoldRecord(x.ev, &Record{Offset: r.activity, Key: x.key, From: x.from})...)
	r.activity++
}

// passUp keeps what a tree passes on to the one above until its own fold is over.
func (r *Replay) passUp(key string, from Position, ev *events.Event) {
	// The event lies in the memory of the effects, which the next fold uses again. Written and
	// read it is what a log would have handed over.
	own := new(events.Event)
	if err := events.Decode(ev.AppendJSON(nil), own); err != nil {
		return // as a log would not take it
	}
	// Behind the one source of events, as partitions of the activity are numbered (see sources).
	from.Source = 1
	r.up = append(r.up, passed{strings.Clone(key), from, own})
}

// passed is what agents are given.
type passed struct {
	key  string
	from Position
	ev   *events.Event
}

// passReports gives the agents a batch of reports.
func (r *Replay) passReports(from Position, batch []byte) {
	one := Record{Offset: r.activity, From: from, Value: batch}
	r.given = append(r.given, r.agents.feeder.foldOne(&one, func() { r.agents.fold.stage.foldReports(&one) })...)
	r.activity++
}

// Counted returns what was folded, and what was refused by flows and by trees.
func (r *Replay) Counted() Counted {
	n := r.flows.Counted()
	n.Add(r.agents.Counted())
	return n
}

// Pumps returns the pumps of the stages, for questions about what was folded.
func (r *Replay) Pumps() (flows, agents *Pump) { return r.flows, r.agents }
