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
type Replay struct {
	flows, agents *Pump
	activity      int64    // records that the agents were given
	up            []passed // by trees to those above, and not folded yet
	given         []events.Verdict

	// What was said to the last ask, by its flow and, if its flow held that back, by its tree.
	answer     func(offset int64, ev *events.Event, v *events.Verdict)
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
	o.Held = func(_ int64, _ *events.Event, _ string, v *events.Verdict) { r.held = v }
	if r.flows, err = New(ctx, o); err != nil {
		return nil, err
	}
	o.Partition, o.Source, o.Stage, o.Sources, o.Metrics = o.Partition+1, "activity", AgentStage, 1, nil
	o.Answer, o.Held = nil, nil
	o.Settled = func(_ Position, _ *events.Event, v *events.Verdict) { r.last = v }
	if r.agents, err = New(ctx, o); err != nil {
		return nil, err
	}
	r.flows.handOn, r.agents.handOn, r.flows.handReports = r.pass, r.passUp, r.passReports
	return r, nil
}

// Fold folds ev as the record at offset and returns what it brought about: the verdicts
// about its flow, then those about agents. The result is good until the next call.
func (r *Replay) Fold(ev *events.Event, offset int64) []events.Verdict {
	r.given = r.given[:0]
	if ev.Kind == events.LimitsSet {
		r.pass("", Position{}, ev)
	}
	r.held, r.last = nil, nil
	flows := r.flows.Fold(ev, offset)
	if r.held != nil && r.answer != nil {
		r.answer(offset, ev, agents.LastWord(r.held, r.last))
	}
	if len(r.given) == 0 {
		return flows
	}
	// Those about agents were put first, as they came.
	n := len(r.given)
	r.given = append(append(r.given, flows...), r.given...)
	return r.given[n:]
}

// pass gives the agents what the flows pass on.
func (r *Replay) pass(key string, from Position, ev *events.Event) {
	r.fold(&passed{key, from, ev})
	for len(r.up) > 0 {
		next := r.up[0]
		r.up = r.up[1:]
		r.fold(&next)
	}
}

func (r *Replay) fold(x *passed) {
	r.given = append(r.given, r.agents.FoldRecord(x.ev, &Record{Offset: r.activity, Key: x.key, From: x.from})...)
	r.activity++
}

// passUp keeps what a tree passes on to the one above until its own fold is over.
func (r *Replay) passUp(key string, from Position, ev *events.Event) {
	own := new(events.Event)
	if err := events.Decode(ev.AppendJSON(nil), own); err != nil {
		return // as a log would not take it
	}
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
	r.given = append(r.given, r.agents.foldOne(&one, func() { r.agents.takeReports(&one) })...)
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
