package analyzer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// acts reports whether the event says of its caller that it did something.
func acts(ev *events.Event) bool {
	switch ev.Kind {
	case events.AgentCall:
		return ev.By() == events.OriginAgent
	case events.AgentReturn, events.ToolCall, events.ToolResult, events.LLMCall, events.TaskLoop, events.TaskReflect:
		return true
	}
	return false
}

// pump folds a log as the pump does: what is due a grace before the watermark is fired
// after every event. After each of them it calls check with the folded event, nil for one
// that says nothing of its caller, and how far its own log had come before.
func (w *fold) pump(t *testing.T, log []events.Event, check func(key string, ev *events.Event, before events.Stamp)) {
	for i := range log {
		key, before := log[i].FlowKey(), w.partition.Watermark
		w.step(t, log[i])
		ev := &log[i]
		if c := &w.fx.Counts; c.Duplicates+c.TooLate+c.Refused > 0 || !acts(ev) {
			ev = nil
		}
		for key, f := range w.flows {
			if due := w.engine.Due(f); due != 0 && due <= w.partition.Watermark.Add(-activity.Grace) {
				w.advance(key, w.partition.Watermark.Add(-activity.Grace))
			}
		}
		check(key, ev, before)
	}
}

// reportsOf returns the reports that the flow has sent, those before n left out.
func (w *fold) reportsOf(t *testing.T, key string, n int) (out []events.Event) {
	for _, line := range w.passed[key][n:] {
		i := slices.Index([]byte(line), '{')
		var ev events.Event
		if err := events.Decode([]byte(line[i:]), &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if ev.Kind == events.AgentActivity && ev.Source == "weir" && ev.AgentState.Status != activity.WorkRefused {
			out = append(out, ev)
		}
	}
	return out
}

func nameOf(p events.Party) string {
	if p.Session != "" {
		return p.Session
	}
	return p.Agent
}

// promised holds the flow to what AlwaysPublished promises: of all that a party did up to then, what
// came in time was passed on, or something later.
func promised(t *testing.T, l analyzer.Limits, log []events.Event) {
	l.Agents = analyzer.Balanced().Agents
	l.Agents.Report = 20 * time.Second
	keepsPromise(t, l, log)
	log = slices.Clone(log)
	for i := range log { // many come a little late
		log[i].Time -= events.Stamp(uint32(i+1) * 2654435761 % 5000)
	}
	keepsPromise(t, l, log)
}

func keepsPromise(t *testing.T, l analyzer.Limits, log []events.Event) {
	type who struct{ flow, name string }
	did, sent, read := map[who][]events.Stamp{}, map[who]events.Stamp{}, map[string]int{}
	w := newFold(l)
	w.partition.Reporting = true
	n := 0
	w.pump(t, log, func(key string, ev *events.Event, before events.Stamp) {
		n++
		if ev != nil && !ev.From.IsZero() && ev.From.Type != events.PartyHuman {
			p := who{key, l.Identity.Of(ev.From)}
			if before == 0 || ev.Time >= before.Add(-activity.Grace) { // else it is too late for any promise
				did[p] = append(did[p], ev.Time)
			}
		}
		for key := range w.flows {
			for _, r := range w.reportsOf(t, key, read[key]) {
				p := who{key, l.Identity.Of(r.From)}
				sent[p] = max(sent[p], r.Time)
			}
			read[key] = len(w.passed[key])
		}
		told := w.engine.LowWatermark(w.partition.Watermark)
		for p, times := range did {
			for _, at := range times {
				if at <= told && sent[p] < at {
					t.Fatalf("after event %d everything up to %d is told, but not what %q did in flow %q at %d; the last that was told is from %d", n, told, p.name, p.flow, at, sent[p])
				}
			}
		}
	})
}

// forward holds for logs whose times do not run backwards and flows that remember all their
// parties: each report of a party tells of what is not before that of the one before, so
// that who keeps only the last loses nothing.
func forward(t *testing.T, l analyzer.Limits, log []events.Event) {
	l.Agents = analyzer.Balanced().Agents
	log = slices.Clone(log)
	parties := map[string]bool{}
	for i := range log {
		log[i].Time = max(log[i].Time, log[max(0, i-1)].Time)
		parties[log[i].From.ID()], parties[log[i].To.ID()] = true, true
	}
	if len(parties) > 30 {
		return
	}
	w := newFold(l)
	w.partition.Reporting = true
	w.pump(t, log, func(string, *events.Event, events.Stamp) {})
	w.run(t, nil)
	for key := range w.flows {
		last := map[string]events.Stamp{}
		for _, r := range w.reportsOf(t, key, 0) {
			name := nameOf(r.From)
			if r.Time < last[name] {
				t.Fatalf("flow %q tells of %q at %d after %d", key, name, r.Time, last[name])
			}
			last[name] = r.Time
		}
	}
}

// unheard wants the verdicts to be the same when nobody wants to hear of agents, and before any of
// them reports.
func unheard(t *testing.T, l analyzer.Limits, log []events.Event) {
	deaf := l
	deaf.Agents = agents.Limits{}
	for i := range deaf.Agents.Rules {
		deaf.Agents.Rules[i].Mode = rules.ModeOff
	}
	all, none, early := newFold(l), newFold(deaf), newFold(l)
	all.partition.Reporting = true
	for _, w := range []*fold{all, none, early} {
		w.pump(t, log, func(string, *events.Event, events.Stamp) {})
		w.run(t, nil)
	}
	for key := range all.flows {
		if diff := firstDifference(all.said[key], none.said[key]); diff != "" {
			t.Fatalf("flow %q, with and without agents: %s", key, diff)
		}
		if diff := firstDifference(all.said[key], early.said[key]); diff != "" {
			t.Fatalf("flow %q, with agents that report from the first or later: %s", key, diff)
		}
	}
}

// reported is what a report tells, as events.
func reported(r *activity.Report) (out []events.Event) {
	ev := events.Event{ID: fmt.Sprintf("%x", r.Flow), Source: "weir", Kind: events.AgentActivity, CorrelationSource: r.Source, From: r.Who()}
	if r.Tries > 0 {
		ev.Time, ev.AgentState = r.Tried, &events.AgentState{Status: activity.WorkRefused, TotalUpdates: int64(r.Tries)}
		out = append(out, ev)
	}
	if r.Did != 0 {
		ev.Time, ev.AgentState = r.Did, &events.AgentState{Status: r.Work.String()}
		out = append(out, ev)
	}
	return out
}
