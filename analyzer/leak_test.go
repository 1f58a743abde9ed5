package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// TestLeaksAreCounted makes sixteen callers call at once, past a limit, and looks at
// what was counted. A call that was made although an order refuses it has either leaked,
// when it was in flight, or is an attempt, and is counted once.
func TestLeaksAreCounted(t *testing.T) {
	const callers = 16
	f := func(name string, l analyzer.Limits, tell func(s *story), leaked, attempts int64, by ...analyzer.RuleID) {
		t.Helper()
		s := newStory()
		s.gap = 0
		tell(s)
		e := analyzer.New(l)
		var (
			p       analyzer.Partition
			flow    analyzer.Flow
			fx      analyzer.Effects
			refused string
			got     activity.Counts
		)
		for i := range s.events {
			ev := &s.events[i]
			if ev.Ack != nil {
				ev.Ack.VerdictID = refused
			}
			fx.Reset()
			e.Step(&p, &flow, ev, &fx)
			for k := range fx.Verdicts {
				if fx.Verdicts[k].Effective != "" {
					refused = fx.Verdicts[k].ID
				}
			}
			c := &fx.Counts
			got.Leaked += c.Leaked
			got.Attempts += c.Attempts
			for r := range events.ReasonCount {
				got.By(r).Leaked += c.Of(r).Leaked
				got.By(r).Defied += c.Of(r).Defied
			}
		}
		if got.Leaked != leaked || got.Attempts != attempts {
			t.Errorf("%s: %d calls leaked and %d are attempts, want %d and %d", name, got.Leaked, got.Attempts, leaked, attempts)
		}
		var want analyzer.RuleSet
		for _, r := range by {
			want = want.With(placeOf(r))
		}
		var had analyzer.RuleSet
		for r := range events.ReasonCount {
			if n := got.Of(r); n.Leaked+n.Defied > 0 {
				had = had.With(analyzer.RuleID(r))
			}
		}
		if had != want {
			t.Errorf("%s: counted by the rows %b, want %b", name, had, want)
		}
	}
	total := func(most int64) analyzer.Limits {
		l := analyzer.Balanced()
		for i := range l.Rules {
			l.Rules[i].Mode = rules.ModeOff
		}
		l.Rules[analyzer.RuleTotalCalls] = rules.Setting{Warn: rules.Off, Stop: most + 1, Max: true}
		return l
	}
	round := func(s *story, ack bool) {
		for i := range callers {
			s.hop(fmt.Sprint("caller-", i), "worker", fmt.Sprint("text ", i))
			if ack && i%3 == 2 { // another caller's dispatcher has heard of it
				s.add(events.VerdictAck, fmt.Sprint("caller-", i), "worker").Ack = &events.Ack{Applied: true}
			}
		}
	}

	for most := int64(1); most <= callers; most++ {
		f(fmt.Sprint("at most ", most), total(most), func(s *story) { round(s, false) }, max(0, callers-most), 0, rulesIf(most < callers, analyzer.RuleTotalCalls)...)
	}
	f("others are refused in the meantime", total(5), func(s *story) { round(s, true) }, 11, 4, analyzer.RuleTotalCalls)
	f("within the grace", total(5), func(s *story) {
		s.gap = time.Second / (callers - 5)
		round(s, false)
	}, 11, 0, analyzer.RuleTotalCalls)
	f("a second round, when all know", total(5), func(s *story) {
		round(s, false)
		s.at = s.at.Add(1001 * time.Millisecond)
		round(s, false)
	}, 11, 16, analyzer.RuleTotalCalls)
	f("one after the other", total(5), func(s *story) {
		s.gap = 2 * time.Second
		round(s, false)
	}, 0, 11, analyzer.RuleTotalCalls)
	f("the grace begins when the limit is used up", total(5), func(s *story) {
		s.gap = 300 * time.Millisecond
		round(s, false)
	}, 3, 8, analyzer.RuleTotalCalls)
	more := total(5)
	more.Rules[analyzer.RuleFlowRate] = rules.Setting{Warn: rules.Off, Stop: 6, Max: true, Window: 60}
	more.Rules[analyzer.RuleUniqueSessions] = rules.Setting{Warn: rules.Off, Stop: 7, Max: true}
	f("three limits at once", more, func(s *story) { round(s, false) }, 11, 0, analyzer.RuleTotalCalls)
	f("three limits, one after the other", more, func(s *story) {
		s.gap = 2 * time.Second
		round(s, false)
	}, 0, 11, analyzer.RuleTotalCalls)
	rate := total(100)
	rate.Rules[analyzer.RuleFlowRate] = rules.Setting{Warn: rules.Off, Stop: 6, Max: true, Window: 60}
	f("a rate", rate, func(s *story) { round(s, false) }, 11, 0, analyzer.RuleFlowRate)
	f("calls that were made before and come late", total(5), func(s *story) {
		round(s, false)
		s.at = s.at.Add(30 * time.Second)
		round(s, false)
		for i := callers; i < 2*callers; i++ {
			s.events[i].Time -= 30_000
		}
	}, 27, 0, analyzer.RuleTotalCalls)

	stop := func(s *story, gap time.Duration) {
		s.hop("main", "worker", "x")
		s.add(events.OperatorStop, "", "").Operator = &events.Operator{Reason: "r", By: "o", For: time.Hour}
		s.gap = gap
		round(s, false)
	}
	f("a person stops the flow", total(100), func(s *story) { stop(s, 0) }, 16, 0, analyzer.RuleOperator)
	f("a person stopped the flow", total(100), func(s *story) { stop(s, 2*time.Second) }, 0, 16, analyzer.RuleOperator)
	f("a person stopped the flow that is over a limit", total(5), func(s *story) {
		round(s, false)
		stop(s, 2*time.Second)
	}, 12, 16, analyzer.RuleTotalCalls, analyzer.RuleOperator)
}

// placeOf is where the calls are counted that met orders of the row.
func placeOf(r analyzer.RuleID) analyzer.RuleID {
	return analyzer.RuleID(analyzer.Rules[r].Reason.Place())
}

func rulesIf(on bool, r analyzer.RuleID) []analyzer.RuleID {
	if on {
		return []analyzer.RuleID{r}
	}
	return nil
}

// once holds for every log: what is seen in spite of orders is counted once.
func once(t *testing.T, l analyzer.Limits, log []events.Event) {
	w := newFold(l)
	for i := range log {
		w.step(t, log[i])
		c := &w.fx.Counts
		leaked, defied := int64(0), int64(0)
		for r := range events.ReasonCount {
			leaked += c.Of(r).Leaked
			defied += c.Of(r).Defied
		}
		if leaked != c.Leaked || leaked+defied > 1 || defied > c.Attempts || c.Attempts > 1 || leaked > 0 && c.Attempts > 0 {
			t.Fatalf("event %d: %d leaked, by reason %d; %d attempts, by reason %d", i+1, c.Leaked, leaked, c.Attempts, defied)
		}
	}
}

// TestNothingIsWiderThanAFlow wants attempts against an order that halts the whole flow
// to bring about no other order.
func TestNothingIsWiderThanAFlow(t *testing.T) {
	f := func(name string, l analyzer.Limits, halt func(s *story)) {
		t.Helper()
		s := newStory()
		halt(s)
		s.gap = 2 * time.Second
		before := len(s.events)
		for i := range 20 {
			s.hop("a", "b", fmt.Sprint("text ", i))
			s.call("b", "read", fmt.Sprint(i))
			s.events[len(s.events)-1].Ask = true
		}
		e := analyzer.New(l)
		var (
			p    analyzer.Partition
			flow analyzer.Flow
			fx   analyzer.Effects
		)
		for i := range s.events {
			if i == before {
				if fx.Reset(); flow.Standing() != analyzer.Stopped {
					t.Fatalf("%s: the flow is not stopped", name)
				}
			}
			e.Step(&p, &flow, &s.events[i], &fx)
		}
		if len(fx.Verdicts) > 0 {
			t.Errorf("%s: %d verdicts, the first is %s", name, len(fx.Verdicts), fx.Verdicts[0].Message)
		}
		if fx.Counts.Attempts != 40 {
			t.Errorf("%s: %d attempts, want 40", name, fx.Counts.Attempts)
		}
	}
	l := analyzer.Balanced()
	for i := range l.Rules {
		l.Rules[i].Mode = rules.ModeOff
	}
	f("a person's stop", l, func(s *story) {
		s.hop("a", "b", "x")
		s.add(events.OperatorStop, "", "").Operator = &events.Operator{Reason: "r", By: "o", For: time.Hour}
	})
	spent := l
	spent.Rules[analyzer.RuleTotalTokens] = rules.Setting{Warn: rules.Off, Stop: 100}
	f("a budget of tokens", spent, func(s *story) {
		s.hop("a", "b", "x")
		s.add(events.LLMCall, "b", "").Usage = events.Usage{Known: true, Input: 200}
	})
}
