package analyzer_test

import (
	"fmt"
	"testing"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// A new correlation id for every call hides a loop from every flow. The agent that is
// called sees it, at the limit exactly, whatever the ids and however many follow.
func TestAHundredThousandFlowsBetweenTwoAgents(t *testing.T) {
	l := analyzer.Balanced()
	row(agents.RuleMinted, rules.ModeEnforce)(&l)
	e := analyzer.New(l)
	var (
		p      agents.Partition
		coder  agents.Agent
		fx     analyzer.Effects
		record []byte
	)
	coder.Reset("agent:coder")
	at := map[int]string{}
	attempts := int64(0)
	for i := range 100_000 {
		ev := opened()
		ev.ID, ev.Source, ev.Time = fmt.Sprint("call-", i), "/test", noon+events.Stamp(i)*100 // ten a second
		ev.CorrelationID = fmt.Sprint("flow-", i)
		fx.Reset()
		e.Agents().Step(&p, &coder, &ev, &fx.Effects)
		for j := range fx.Verdicts {
			v := &fx.Verdicts[j]
			if _, known := at[i]; known || len(at) > 5000 {
				t.Fatalf("call %d: one verdict more: %s", i, v.AppendJSON(nil))
			}
			at[i] = fmt.Sprintf("%s %s %g", v.Action, v.Effective, *v.Observed)
		}
		attempts += fx.Counts.Attempts
		if record, _ = coder.AppendBinary(record[:0]); len(record) > 2048 {
			t.Fatalf("call %d: a record of %d bytes", i, len(record))
		}
	}
	for i := range 100 {
		want := map[int]string{29: "warn  30", 59: "throttle next 60", 60: "throttle now 61"}[i]
		if at[i] != want {
			t.Errorf("call %d: said %q, want %q", i+1, at[i], want)
		}
	}
	// Nobody honors the order: it is given again each time that it has run out, about once
	// in a window and not for every call.
	if n := len(at); n < 100 || n > 1000 {
		t.Errorf("%d verdicts about 100,000 calls in 10,000 seconds", n)
	}
	if attempts < 90_000 {
		t.Errorf("%d attempts", attempts)
	}
	t.Logf("%d verdicts, %d attempts, record of %d bytes", len(at), attempts, len(record))
}

// Who of two flows comes first when both speak at the same time does not matter.
func TestFlowsThatSpeakAtTheSameTime(t *testing.T) {
	said := func(first, second string) (out []string) {
		c := counting(t, "agent:coder", func(l *analyzer.Limits) {
			row(agents.RuleRate, rules.ModeEnforce)(l)
			l.Agents.Rules[agents.RuleRate].All = true
		})
		for i := range 30 {
			for _, flow := range []string{first, second} {
				ev := message()
				ev.ID, ev.CorrelationID = fmt.Sprint(flow, i), flow
				out = append(out, c.at(float64(i), ev))
			}
		}
		return out
	}
	if diff := firstDifference(said("a", "b"), said("b", "a")); diff != "" {
		t.Error(diff)
	}
}

// usual returns what the agent stage gets of an agent at work: messages, reports, what
// flows tell of it.
func usual(n int) []events.Event {
	out := make([]events.Event, n)
	me, other := events.Party{Agent: "coder"}, events.Party{Agent: "planner"}
	for i := range out {
		ev := &out[i]
		*ev = events.Event{ID: fmt.Sprint("e", i), Source: "/bench", Time: noon + events.Stamp(i)*15_000, CorrelationID: fmt.Sprint("flow-", i/40)}
		switch i % 4 {
		case 0:
			ev.Kind, ev.From, ev.To, ev.CorrelationID = events.AgentCall, other, me, ""
		case 1:
			ev.Kind, ev.From, ev.AgentState = events.AgentActivity, me, &events.AgentState{Status: activity.WorkInTool}
		case 2:
			ev.Kind, ev.From = events.AgentStatus, me
			ev.AgentState = &events.AgentState{Status: "active", Health: "healthy", Margin: "comfortable", HasCoherence: true, Coherence: 0.9, HasRisk: true, Risk: 0.1}
		case 3:
			ev.Kind, ev.From, ev.To, ev.AgentState = events.AgentActivity, other, me, &events.AgentState{Status: activity.WorkOpened}
		}
	}
	return out
}

func TestAgentStepDoesNotAllocate(t *testing.T) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p      agents.Partition
		a      agents.Agent
		fx     analyzer.Effects
		record []byte
	)
	a.Reset("agent:coder")
	evs := usual(1400)
	i := 0
	step := func() {
		p.Watermark = evs[i].Time - 60_000
		e.Agents().Advance(&p, &a, p.Watermark, &fx.Effects)
		e.Agents().Step(&p, &a, &evs[i], &fx.Effects)
		i++
		record, _ = a.AppendBinary(record[:0])
		if err := a.UnmarshalBinary("agent:coder", record); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 { // until every slice has its size
		step()
	}
	if got := testing.AllocsPerRun(1000, step); got != 0 || len(fx.Verdicts) > 0 {
		t.Errorf("step, encode and decode of a known agent allocate %v times, want 0; %d verdicts", got, len(fx.Verdicts))
	}
	t.Logf("record of %d bytes", len(record))
}

func BenchmarkAgentStep(b *testing.B) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p  agents.Partition
		a  agents.Agent
		fx analyzer.Effects
	)
	evs := usual(1000)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%len(evs) == 0 {
			a.Reset("agent:coder")
			fx.Reset()
		}
		e.Agents().Step(&p, &a, &evs[i%len(evs)], &fx.Effects)
	}
}

// BenchmarkAgentFold is what the pump does for an event of an agent that is not at hand:
// decode the agent, step, encode it again.
func BenchmarkAgentFold(b *testing.B) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p             agents.Partition
		a             agents.Agent
		fx            analyzer.Effects
		record, spare []byte
	)
	evs := usual(1000)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%len(evs) == 0 {
			a.Reset("agent:coder")
			fx.Reset()
		} else if err := a.UnmarshalBinary("agent:coder", record); err != nil {
			b.Fatal(err)
		}
		e.Agents().Step(&p, &a, &evs[i%len(evs)], &fx.Effects)
		spare, _ = a.AppendBinary(spare[:0])
		record, spare = spare, record
	}
	b.ReportMetric(float64(len(record)), "B/agent")
}
