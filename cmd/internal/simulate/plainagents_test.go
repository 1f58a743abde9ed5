package simulate

import (
	"strings"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/cmd/internal/pump"
	"weir/events"
)

// plainAgents folds a partition of the activity.
// As plainFlows it is ahead of every pump of its partition, since the record is folded as
// soon as the log has it.
type plainAgents struct {
	plain
	partition agents.Partition
	sources   []activitySource // the flows, then the agents, whose trees pass on to those above
	flows     int
	// Compared with what the owners get, see owner.settled.
	settled map[pump.Position]string // what trees said to asks
	// Kept beside the trees themselves, to count their asks a second time.
	trees map[string]*budget
}

// activitySource is what is known of a source of activity.
// It is what the pump keeps of each source, to drop what came before.
type activitySource struct {
	last pump.Position // seen
	any  bool
	// 0 before its first tick.
	lowWatermark events.Stamp
}

// newPlainAgents has folded nothing. flows and agents are how many partitions of each there
// are: either is a source.
func newPlainAgents(partition, flows, agents int, limits analyzer.Limits) *plainAgents {
	return &plainAgents{plain: newPlain(partition, limits), sources: make([]activitySource, flows+agents), flows: flows,
		settled: make(map[pump.Position]string), trees: make(map[string]*budget)}
}

// fold reports whether the record was one that had not come before. Time may have passed with any
// record, so deadlines are looked for in any case. The key names the agent, project or tree of a
// record; reports have each their own.
func (p *plainAgents) fold(offset int64, key string, from pump.Position, value []byte) (fresh bool) {
	p.fx.Reset()
	var ev events.Event
	reports := pump.IsReports(value)
	if !reports {
		must(events.Decode(value, &ev))
	}
	// Limits come from no source and may stand there twice: taking them up again changes nothing.
	if ev.Kind == events.LimitsSet {
		p.limits(ev.Limits, offset)
		p.fire(offset)
		return false
	}
	s := &p.sources[from.Source]
	// Positions of a source only rise; what is not above the last came before (decision 27).
	if fresh = !s.any || from.Offset > s.last.Offset || from.Offset == s.last.Offset && from.Part > s.last.Part; fresh {
		s.last, s.any = from, true
		if reports {
			must(pump.EachReport(value, func(r *activity.Report) { p.report(r, offset) }))
		} else {
			p.take(&ev, key, from, offset)
		}
	}
	p.fire(offset)
	return fresh
}

// take folds one event of activity that is new.
// A tick changes no state by itself: fire, which comes after it, does.
func (p *plainAgents) take(ev *events.Event, key string, from pump.Position, offset int64) {
	if ev.Kind == events.Tick {
		s := &p.sources[from.Source]
		s.lowWatermark = max(s.lowWatermark, ev.Time)
		least := s.lowWatermark
		// Silence is judged up to the time up to which all flow partitions have reported (decision
		// 38). Those of the agent stage, which pass on to trees above, report no time.
		for i := range p.flows {
			least = min(least, p.sources[i].lowWatermark)
		}
		p.partition.Watermark = max(p.partition.Watermark, least)
		return
	}
	var a agents.Agent
	p.open(&a, key)
	p.engine.Agents().Step(&p.partition, &a, ev, &p.fx.Effects)
	// By the position of the record that asked, which is how owners name it.
	if v := p.fx.Answer; v != nil {
		p.settled[from] = string(v.AppendJSON(nil))
	}
	if strings.HasPrefix(key, activity.TreePrefix) {
		p.spend(&a, key, ev)
	}
	p.keep(&a, key, offset)
}

// budget is what the asks of a tree were allowed since it began anew.
type budget struct {
	// When it began, and when the tree had its last event: both by the time of the events.
	began, last events.Stamp
	allowed     int
	known       map[string]bool // ids of all that were ever allowed: a repeated request makes no second call
}

// spend counts the asks that a tree has allowed, beside what the tree counts itself.
// It knows no rule: a tree that counts wrongly would count wrongly in the plain fold as
// well, and only a second count shows it.
func (p *plainAgents) spend(a *agents.Agent, key string, ev *events.Event) {
	b := p.trees[key]
	if b == nil {
		b = &budget{known: make(map[string]bool)}
		p.trees[strings.Clone(key)] = b
	}
	limits := p.engine.Limits()
	last := events.Stamp(p.engine.Agents().View(&p.partition, a).Last)
	if last.Sub(b.last) > limits.Flow.Idle || last.Sub(b.began) > limits.Flow.MaxAge {
		b.began, b.allowed = last, 0 // after silence it is whole again
	}
	// An event that came late may have left it where it was.
	b.last = last
	if v := p.fx.Answer; ev.Ask && v != nil && !v.Stops() {
		if id := strings.Clone(ev.CorrelationID + " " + ev.ID); !b.known[id] {
			b.known[id] = true
			b.allowed++
		}
	}
}

// mostAllowed is the tree that has allowed most. It is checked after each record, so the violation
// names the step that allows one too many.
func (p *plainAgents) mostAllowed() (tree string, n int) {
	for key, b := range p.trees {
		if b.allowed > n {
			tree, n = key, b.allowed
		}
	}
	return tree, n
}

// report folds one report of a record that holds many.
func (p *plainAgents) report(r *activity.Report, offset int64) {
	p.fx.Reset()
	// A report is about a party of a flow, and its key is that of the party's agent.
	key := string(r.AppendKey(nil))
	var a agents.Agent
	p.open(&a, key)
	p.engine.Agents().StepReport(&p.partition, &a, r, &p.fx.Effects)
	p.keep(&a, key, offset)
}

// fire advances what is due by the watermark. The deadline is taken away first: the step sets the
// next one, and a state that gives none must not be found again.
func (p *plainAgents) fire(offset int64) {
	for {
		key, due, ok := p.ripe(p.partition.Watermark)
		if !ok {
			return
		}
		delete(p.due, key)
		p.fx.Reset()
		var a agents.Agent
		p.open(&a, key)
		p.engine.Agents().Advance(&p.partition, &a, due, &p.fx.Effects)
		p.keep(&a, key, offset)
	}
}

// open decodes the state of a key; an unknown one is empty.
func (p *plainAgents) open(a *agents.Agent, key string) {
	a.Reset(key)
	if r := p.records[key]; r != "" {
		must(a.UnmarshalBinary(key, []byte(r)))
	}
}

// keep encodes a state and takes over its effects. An agent without an event is not kept.
func (p *plainAgents) keep(a *agents.Agent, key string, offset int64) {
	if a.Events() > 0 {
		record, err := a.AppendBinary(nil)
		must(err)
		due := p.engine.Agents().Due(a)
		if old := p.due[key]; old != 0 && (due == 0 || due > old) {
			due = old // an agent's deadline is never moved back: it is looked at when it comes
		}
		p.set(strings.Clone(key), offset, record, due)
	}
	for _, x := range p.collect(offset) {
		p.pass(x.Key, offset, &x.Event)
	}
}
