package scenario

import (
	"strings"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/reports"
	"weir/events"
)

// watermarkEvery is the step of time, in milliseconds, at which the running program reports to the
// agent stage how far its flows have reported everything. If this differed from the program's,
// verdicts about silence would come at another time in a case.
const watermarkEvery = 30_000

// agentStage is the agent stage, with one partition. Its agents are kept decoded, unlike those
// of the program: what a record forgets when it is full does not show in cases.
type agentStage struct {
	partition agents.Partition
	fx        analyzer.Effects
	reports   reports.Waiting // of flows, which wait
	reported  events.Stamp    // when they were passed on last
	byKey     map[string]*member
	members   []*member // in the order in which they appeared
}

// member is an agent or a project. It may also be a tree. One that is not shown was only
// mentioned, as each agent is that takes part in a flow.
type member struct {
	key   string
	agent agents.Agent
	due   events.Stamp
	shown bool // it reported, or a verdict or an answer was about it
}

// member returns who is kept under the key, a new one if need be. The key is cloned, because
// it aliases effects that are reset.
func (s *agentStage) member(key string) *member {
	m := s.byKey[key]
	if m == nil {
		m = &member{key: strings.Clone(key)}
		m.agent.Reset(m.key)
		s.byKey[m.key], s.members = m, append(s.members, m)
	}
	return m
}

// next returns the member with the earliest deadline; nil when none has one.
func (s *agentStage) next() (first *member) {
	for _, m := range s.members {
		if m.due != 0 && (first == nil || m.due < first.due) {
			first = m
		}
	}
	return first
}

// advance moves the watermark on.
func (s *agentStage) advance(upTo events.Stamp) {
	s.partition.Watermark = max(s.partition.Watermark, upTo)
}

// foldAgents folds what the last step of a flow reports on agents. The step was that of event n
// of the case, or, when n is 0, of a deadline. It returns what was answered last. Trees pass
// on to those above them, so there may be more to fold after each.
func (r *run) foldAgents(n int) (answer *events.Verdict) {
	attempts, leaked := false, false
	waiting := logged(nil, r.fx.Activity)
	for len(waiting) > 0 {
		// In the order in which it was reported, as the log of activity has it.
		act, ev := &waiting[0], waiting[0].Event
		waiting = waiting[1:]
		m := r.stage.member(act.Key)
		switch ev.Kind {
		case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult:
			m.shown = true
		}
		fx := &r.stage.fx
		fx.Reset()
		r.engine.Agents().Step(&r.stage.partition, &m.agent, &ev, &fx.Effects)
		attempts, leaked = attempts || fx.Counts.Attempts > 0, leaked || fx.Counts.Leaked > 0
		r.hear(m, n)
		waiting = logged(waiting, fx.Activity) // of trees to those above
		// Asked means that it was passed on to the tree above, which answers in its stead.
		if ev.Ask && !fx.Asked {
			answer, m.shown = fx.Answer, true
		}
	}
	for i := range r.fx.Reports {
		if report := &r.fx.Reports[i]; report.Now {
			now := r.stage.reports.Urge(report)
			r.reportOne(&now, n)
		} else {
			r.stage.reports.Add(report)
		}
	}
	// A call against several orders is one: that of the flow has counted it.
	switch c := &r.fx.Counts; {
	case c.Attempts+c.Leaked > 0:
	case attempts:
		r.out.Counts.Attempts++
	case leaked:
		r.out.Counts.Leaked++
	}
	return answer
}

// logged appends activity as a log carries it, which keeps nothing of what the flow goes on to
// change. It goes through JSON and back, as what a log keeps does.
func logged(dst, produced []activity.Activity) []activity.Activity {
	for i := range produced {
		one := activity.Activity{Key: strings.Clone(produced[i].Key)}
		if events.Decode(produced[i].Event.AppendJSON(nil), &one.Event) == nil {
			dst = append(dst, one)
		}
	}
	return dst
}

// report passes on what flows reported on their parties and has waited so far. It is done where
// the program does it: by Engine.ReportsDue, and at the end of the case.
func (r *run) report() {
	s := &r.stage
	for i := range s.reports.Len() {
		report := s.reports.At(i)
		r.reportOne(&report, 0)
	}
	s.reports.Reset()
}

// reportOne folds one report, which event n of the case brought about, or 0 when it has waited.
func (r *run) reportOne(report *activity.Report, n int) {
	s := &r.stage
	m := s.member(string(report.AppendKey(nil)))
	s.fx.Reset()
	r.engine.Agents().StepReport(&s.partition, &m.agent, report, &s.fx.Effects)
	r.hear(m, n)
}

// hear records the verdicts of the agent stage on the agent or project. With n 0 they are placed
// by the time of the verdict.
func (r *run) hear(m *member, n int) {
	m.due = r.engine.Agents().Due(&m.agent)
	for _, v := range r.stage.fx.Verdicts {
		s := Said{Event: n, Verdict: v}
		if n == 0 {
			s.At = events.Stamp(v.Time)
		}
		r.out.Said = append(r.out.Said, s)
		m.shown = true
	}
}

// fireAgent fires the deadline of an agent at its own time.
func (r *run) fireAgent(m *member) {
	r.stage.fx.Reset()
	r.engine.Agents().Advance(&r.stage.partition, &m.agent, m.due, &r.stage.fx.Effects)
	r.hear(m, 0)
}

// knownBy returns the step of time at which the agent stage knows everything up to due. It is
// when the program would find out: later than due by the grace, the interval of reports and a
// step of the watermark.
func (r *run) knownBy(due events.Stamp) events.Stamp {
	at := due
	// LowWatermark is behind its argument by what the limits say, so the time is found by
	// trying.
	for r.engine.LowWatermark(at) < due {
		at += due - r.engine.LowWatermark(at)
	}
	return (at + watermarkEvery - 1) / watermarkEvery * watermarkEvery
}

// advanceAll fires the deadlines of agents up to the end of the case, as far as no flow has
// anything to report on the time before, as a pump would that runs on.
func (r *run) advanceAll(end events.Stamp) {
	report := r.engine.Limits().Agents.Report
	for {
		upTo := end
		// Flows with a deadline have something to report at it.
		if f := r.next(); f != nil {
			upTo = min(upTo, f.due.Add(-report))
		}
		r.stage.advance(upTo)
		m := r.stage.next()
		if m == nil || m.due > r.stage.partition.Watermark {
			return
		}
		r.fireAgent(m)
	}
}
