package agents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// dawn is when the plays of agents begin.
const dawn = events.Stamp(1_700_000_000_000)

// balancedTerms are those of the default limits.
var balancedTerms = Terms{TTL: 15 * time.Minute, Grace: time.Second, Hold: time.Hour, Idle: 10 * time.Minute, MaxAge: 2 * time.Hour,
	WarnOnly: 1<<events.CorrelationDerived | 1<<events.CorrelationPrincipal}

// agentPlay folds one agent as the pump does: decoded before each step, encoded after it.
type agentPlay struct {
	t      *testing.T
	e      *Engine
	p      Partition
	a      Agent
	fx     activity.Effects
	record []byte
	n      int
}

func newAgentPlay(t *testing.T, change ...func(*Limits)) *agentPlay {
	t.Helper()
	l := Balanced()
	for _, c := range change {
		c(&l)
	}
	y := &agentPlay{t: t, e: New(l, balancedTerms)}
	y.a.Reset("agent:probe")
	return y
}

// recovers turns the ladder on.
func recovers(l *Limits) { l.Recover = true }

// only leaves one row about silence on.
func only(on ...RuleID) func(*Limits) {
	return func(l *Limits) {
		for r := RuleCriticalMargin; r <= RuleCadence; r++ {
			l.Rules[r].Mode = rules.ModeOff
		}
		for _, r := range on {
			l.Rules[r].Mode = rules.ModeEnforce
		}
	}
}

func inMode(m rules.Mode, on ...RuleID) func(*Limits) {
	return func(l *Limits) {
		for _, r := range on {
			l.Rules[r].Mode = m
		}
	}
}

// step folds an event about the agent at the given time after dawn.
func (y *agentPlay) step(at time.Duration, ev events.Event) {
	y.t.Helper()
	y.n++
	if ev.ID == "" {
		ev.ID = fmt.Sprint("e", y.n)
	}
	ev.Time = dawn.Add(at)
	y.e.Step(&y.p, &y.a, &ev, &y.fx)
	y.restart()
}

func (y *agentPlay) advance(to time.Duration) {
	y.t.Helper()
	y.p.Watermark = max(y.p.Watermark, dawn.Add(to))
	y.e.Advance(&y.p, &y.a, y.p.Watermark, &y.fx)
	y.restart()
}

// restart is what a checkpoint and a new start do. The memory of the record before is
// written over, so that what still points there shows.
func (y *agentPlay) restart() {
	y.t.Helper()
	record, err := y.a.AppendBinary(nil)
	if err != nil {
		y.t.Fatal(err)
	}
	all, _ := y.p.AppendBinary(nil)
	y.a, y.p = Agent{}, Partition{}
	if err := y.a.UnmarshalBinary("agent:probe", record); err != nil {
		y.t.Fatal(err)
	}
	if err := y.p.UnmarshalBinary(all); err != nil {
		y.t.Fatal(err)
	}
	for i := range y.record {
		y.record[i] = '#'
	}
	y.record = record
}

var probe = events.Party{Agent: "probe"}

func (y *agentPlay) status(at time.Duration, s events.AgentState) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.AgentStatus, From: probe, AgentState: &s})
}

func (y *agentPlay) work(at time.Duration, flow, work string) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.AgentActivity, From: probe, CorrelationID: flow, AgentState: &events.AgentState{Status: work}})
}

func (y *agentPlay) note(at time.Duration, from, to events.Party, tags ...string) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.NoteAdded, From: from, To: to, Note: &events.Note{Summary: "what I saw", Tags: tags}})
}

func (y *agentPlay) rescue(at time.Duration, from string, admin bool) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.RescueRequest, From: events.Party{Agent: from}, To: probe,
		Rescue: &events.Rescue{Reason: "no answer", Admin: admin}})
}

func (y *agentPlay) review(at time.Duration, from, decision string) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.ReviewResult, From: events.Party{Agent: from}, To: probe,
		Review: &events.Review{Decision: decision, Reason: "looked at it"}})
}

func (y *agentPlay) ack(at time.Duration, v events.Verdict, applied bool) {
	y.t.Helper()
	y.step(at, events.Event{Kind: events.VerdictAck, From: events.Party{Agent: "executor"}, To: probe,
		Ack: &events.Ack{VerdictID: v.ID, Applied: applied}})
}

// peer has another agent of the partition report.
func (y *agentPlay) peer(at time.Duration, name string, s events.AgentState) {
	y.t.Helper()
	var a Agent
	a.Reset("agent:" + name)
	y.n++
	ev := events.Event{ID: fmt.Sprint("e", y.n), Time: dawn.Add(at), Kind: events.AgentStatus, From: events.Party{Agent: name}, AgentState: &s}
	y.e.Step(&y.p, &a, &ev, &y.fx)
}

// The verdicts since the last call, one line each.
func (y *agentPlay) told() string {
	var out []string
	for i := range y.fx.Verdicts {
		out = append(out, verdictLine(&y.fx.Verdicts[i]))
	}
	y.fx.Reset()
	return strings.Join(out, "\n")
}

func (y *agentPlay) want(lines ...string) {
	y.t.Helper()
	if got, want := y.told(), strings.Join(lines, "\n"); got != want {
		y.t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// last returns the last verdict that was given, and forgets all.
func (y *agentPlay) last() events.Verdict {
	y.t.Helper()
	if len(y.fx.Verdicts) == 0 {
		y.t.Fatal("no verdict was given")
	}
	v := y.fx.Verdicts[len(y.fx.Verdicts)-1]
	y.fx.Reset()
	return v
}

// condition is what people are shown of the agent at that time.
func (y *agentPlay) condition(at time.Duration) string {
	state, waiting, _ := y.e.condition(&y.a, dawn.Add(at))
	return strings.TrimSpace(state + " " + waiting)
}

// verdictLine is: action, reason, observed and limit, time in milliseconds since dawn, reviewer,
// who asked, and the mode when it is not to be enforced.
func verdictLine(v *events.Verdict) string {
	s := string(v.Action) + " " + string(v.Reason)
	if v.Observed != nil {
		s += fmt.Sprintf(" %v/%v", *v.Observed, *v.Limit)
	}
	s += fmt.Sprintf(" @%d", events.Stamp(v.Time)-dawn)
	if r := v.Recovery; r != nil {
		if r.Reviewer != "" {
			s += " by " + r.Reviewer
		}
		if r.RequestedBy != "" {
			s += " for " + r.RequestedBy
		}
	}
	if v.Mode != events.ModeEnforce {
		s += " " + string(v.Mode)
	}
	return s
}
