package scenario

import (
	"weir/analyzer"
	"weir/events"
)

// Run folds the events of the case by the limits, as the running program would:
// every deadline is fired when the clock passes it, whatever flow it belongs to,
// and once more at the end of the case. It returns what was said. What the case
// expects and what its settings say does not matter here; see Limits and Diff.
func (c *Case) Run(l analyzer.Limits) Outcome {
	r := run{engine: analyzer.New(l), flows: map[string]*analyzer.Flow{}}
	for i := range c.deliveries {
		d := &c.deliveries[i]
		r.advance(d.now)
		ev := d.event()
		r.acknowledge(&ev, d.ack)
		r.step(i+1, &ev)
	}
	r.advance(c.end)
	for _, key := range r.keys {
		r.out.Flows = append(r.out.Flows, FlowState{key, r.engine.Explain(r.flows[key])})
	}
	return r.out
}

type run struct {
	engine    *analyzer.Engine
	partition analyzer.Partition
	fx        analyzer.Effects
	flows     map[string]*analyzer.Flow
	keys      []string // of flows, in the order in which they appeared
	out       Outcome
}

func (r *run) step(n int, ev *events.Event) {
	key := ev.FlowKey()
	f := r.flows[key]
	if f == nil {
		f = new(analyzer.Flow)
		r.flows[key], r.keys = f, append(r.keys, key)
	}
	r.fx.Reset()
	before := r.engine.Due(f)
	r.engine.Step(&r.partition, f, ev, &r.fx)
	for i := range r.fx.Verdicts {
		v := &r.fx.Verdicts[i]
		s := Said{Event: n, Verdict: *v}
		if before != 0 && v.Trigger == nil {
			s.Event, s.At = 0, events.Stamp(v.Time)
		}
		r.out.Said = append(r.out.Said, s)
	}
	if r.fx.Answer != nil {
		r.out.Said = append(r.out.Said, Said{Event: n, Ask: true, Verdict: *r.fx.Answer})
	}
	r.count()
}

// advance fires the deadlines of all flows up to now, the earliest first.
func (r *run) advance(now events.Stamp) {
	for {
		var first *analyzer.Flow
		var due events.Stamp
		for _, key := range r.keys {
			if at := r.engine.Due(r.flows[key]); at != 0 && at <= now && (first == nil || at < due) {
				first, due = r.flows[key], at
			}
		}
		if first == nil {
			return
		}
		r.fx.Reset()
		r.engine.Advance(&r.partition, first, due, &r.fx)
		for i := range r.fx.Verdicts {
			r.out.Said = append(r.out.Said, Said{At: due, Verdict: r.fx.Verdicts[i]})
		}
		r.count()
	}
}

// acknowledge fills in the verdict that a dispatcher acted on: the latest of the
// flow that refuses calls, for the reason when one is given.
func (r *run) acknowledge(ev *events.Event, reason string) {
	if ev.Ack == nil {
		return
	}
	for i := len(r.out.Said) - 1; i >= 0; i-- {
		v := &r.out.Said[i].Verdict
		if v.Effective != "" && v.Mode != "shadow" && v.CorrelationID == ev.FlowKey() && (reason == "" || reason == string(v.Reason)) {
			ev.Ack.VerdictID = v.ID
			return
		}
	}
}

// count adds up what the last step counted.
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
	c.Episodes += n.Episodes
}
