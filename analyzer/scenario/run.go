package scenario

import (
	"slices"

	"weir/analyzer"
	"weir/events"
)

// Run folds the events of the case by the limits, as the running program would. Reports of flows
// on agents are folded by the agent stage. Every deadline is fired when the clock passes it,
// whatever flow it belongs to, and once more at the end of the case. It returns all verdicts,
// answers and states. The expected outcome and the settings of the case do not matter here; see
// Limits and Diff. It is the same Step as the pump's (decision 1), with one partition of each stage
// in memory. A Case can be run many times.
func (c *Case) Run(l analyzer.Limits) Outcome {
	r := run{engine: analyzer.New(l), byKey: map[string]*tracked{}, stage: agentStage{byKey: map[string]*member{}}}
	for i := range c.deliveries {
		d := &c.deliveries[i]
		// Deadlines up to the event fire before it, as the watermark of a log would have it.
		r.advance(d.now)
		ev := d.event()
		r.acknowledge(&ev, d.ack)
		r.step(i+1, &ev)
	}
	r.advance(c.end)
	// Where a case ends everything is known: waiting reports are passed on, and the deadlines of
	// agents fire.
	r.report()
	r.advanceAll(c.end)
	for _, f := range r.flows {
		r.out.Flows = append(r.out.Flows, FlowState{f.key, r.engine.Explain(&f.flow)})
	}
	for _, m := range r.stage.members {
		// Agents that only took part in flows would fill every outcome.
		if m.shown {
			r.out.Agents = append(r.out.Agents, FlowState{m.key, r.engine.Agents().Explain(&r.stage.partition, &m.agent)})
		}
	}
	return r.out
}

// run is one run of a case. It plays the pump: it keeps flows, deadlines and what waits for
// the agent stage.
type run struct {
	engine    *analyzer.Engine
	partition analyzer.Partition
	fx        analyzer.Effects
	byKey     map[string]*tracked
	// A slice beside the map, because the order of a map would show in the outcome.
	flows []*tracked // in the order in which they appeared
	stage agentStage
	out   Outcome
}

// tracked is a flow and its next deadline.
type tracked struct {
	key  string
	flow analyzer.Flow
	due  events.Stamp
}

// step folds event n of the case, first by its flow and then by the agents and trees that the
// flow reports to.
func (r *run) step(n int, ev *events.Event) {
	r.fx.Reset()
	if r.engine.Relay(&r.partition, ev, &r.fx) {
		r.count()
		r.foldAgents(n)
		return
	}
	key := ev.FlowKey()
	f := r.byKey[key]
	if f == nil {
		f = &tracked{key: key}
		r.byKey[key], r.flows = f, append(r.flows, f)
	}
	// A verdict without a trigger in a step was given by a deadline before the event.
	before := f.due
	r.engine.Step(&r.partition, &f.flow, ev, &r.fx)
	f.due = r.engine.Due(&f.flow)
	for i := range r.fx.Verdicts {
		v := &r.fx.Verdicts[i]
		s := Said{Event: n, Verdict: *v}
		if before != 0 && v.Trigger == nil {
			s.Event, s.At = 0, events.Stamp(v.Time)
		}
		r.out.Said = append(r.out.Said, s)
	}
	answer, at := r.fx.Answer, len(r.out.Said)
	r.count()
	if last := r.foldAgents(n); r.fx.Asked && last != nil && last.Stops() {
		answer = last // the tree of the flow has the last word
		r.out.Counts.Refused++
	}
	if answer != nil {
		r.out.Said = slices.Insert(r.out.Said, at, Said{Event: n, Ask: true, Verdict: *answer})
	}
}

// advance fires the deadlines of all flows and agents up to now, the earliest first.
// Those of agents wait until the flows have reported everything up to then, which they do in
// steps of time.
func (r *run) advance(now events.Stamp) {
	// At the same times of the log as the pump, or silence would be judged by other reports.
	if r.engine.ReportsDue(r.stage.reported, now) {
		r.report()
		r.stage.reported = now
	}
	for {
		flow, agent, settled := r.next(), r.stage.next(), events.Stamp(0)
		if agent != nil {
			settled = r.knownBy(agent.due)
		}
		switch {
		// A flow goes first where both are due: what it says may be about the agent.
		case flow != nil && flow.due <= now && (agent == nil || flow.due <= settled):
			r.fire(flow)
		case agent != nil && settled <= now:
			r.stage.advance(r.engine.LowWatermark(settled))
			r.fireAgent(agent)
		default:
			r.stage.advance(r.engine.LowWatermark(now / watermarkEvery * watermarkEvery))
			return
		}
	}
}

// next returns the flow with the earliest deadline; nil when none has one.
func (r *run) next() (first *tracked) {
	for _, f := range r.flows {
		if f.due != 0 && (first == nil || f.due < first.due) {
			first = f
		}
	}
	return first
}

// fire fires the deadline of a flow at its own time.
func (r *run) fire(f *tracked) {
	due := f.due
	r.fx.Reset()
	r.engine.Advance(&r.partition, &f.flow, due, &r.fx)
	f.due = r.engine.Due(&f.flow)
	for i := range r.fx.Verdicts {
		r.out.Said = append(r.out.Said, Said{At: due, Verdict: r.fx.Verdicts[i]})
	}
	r.count()
	r.foldAgents(0)
}

// acknowledge fills in the verdict that a dispatcher acted on: the latest of the flow, or
// about the agents or the project of the call, that is an order, for the reason when one
// is given.
func (r *run) acknowledge(ev *events.Event, reason string) {
	if ev.Ack == nil {
		return
	}
	// From the latest on, since a dispatcher acts on what it heard last.
	for i := len(r.out.Said) - 1; i >= 0; i-- {
		v := &r.out.Said[i].Verdict
		if v.Mode == events.ModeShadow || reason != "" && reason != string(v.Reason) {
			continue
		}
		if v.Effective != "" && v.CorrelationID == ev.FlowKey() || concerns(v, ev) {
			ev.Ack.VerdictID = v.ID
			return
		}
	}
}

// count adds up what the last step counted. What is counted by reason is left out: no line
// shows it.
func (r *run) count() {
	c, n := &r.out.Counts, &r.fx.Counts
	c.Events += n.Events
	c.Duplicates += n.Duplicates
	c.TooLate += n.TooLate
	c.Late += n.Late
	c.Clamped += n.Clamped
	c.Asks += n.Asks
	c.Refused += n.Refused
	c.Attempts += n.Attempts
	c.Leaked += n.Leaked
	c.Strays += n.Strays
	c.Rewritten[0] += n.Rewritten[0]
	c.Rewritten[1] += n.Rewritten[1]
	c.Episodes += n.Episodes
}
