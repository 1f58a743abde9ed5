package backtest

import (
	"fmt"
	"slices"
	"testing"

	"weir/analyzer"
	"weir/events"
)

// spending is a flow: the number of its calls, and what each model request after each of them spends; last is what
// five requests after the last call spend each.
type spending struct {
	calls, tokens, last int
}

// spent is a log of flows that report tokens.
func spent(t *testing.T, flows ...spending) []events.Event {
	t.Helper()
	var calls []int
	for _, s := range flows {
		calls = append(calls, s.calls)
	}
	var out []events.Event
	n := 0
	request := func(ev events.Event, tokens int) {
		if tokens == 0 {
			return
		}
		n++
		var usage events.Event
		line := fmt.Sprintf(`{"id":"u%d","time":%q,"kind":"llm.call","correlation_id":%q,"from":{"agent":"a"},"usage":{"scope":"delta","input_tokens":%d}}`,
			n, (ev.Time + 2000).Time().Format("2006-01-02T15:04:05.000Z"), ev.CorrelationID, tokens)
		if err := events.Decode([]byte(line), &usage); err != nil {
			t.Fatal(err)
		}
		out = append(out, usage)
	}
	done := map[string]int{}
	for _, ev := range log(t, calls...) {
		out = append(out, ev)
		if ev.Kind != events.AgentReturn {
			continue
		}
		var f int
		if _, err := fmt.Sscanf(ev.CorrelationID, "f%d", &f); err != nil {
			t.Fatal(err)
		}
		request(ev, flows[f].tokens)
		if done[ev.CorrelationID]++; done[ev.CorrelationID] == flows[f].calls {
			for range 5 {
				request(ev, flows[f].last)
			}
		}
	}
	return out
}

// TestTokenBudgetIsFound holds that savings are compared in tokens where flows report them: runaways that
// make no more calls than good flows, and spend on, are stopped by a budget of tokens.
func TestTokenBudgetIsFound(t *testing.T) {
	var flows []spending
	for i := range 60 {
		flows = append(flows, spending{calls: 10 + i/3, tokens: 1000})
	}
	flows = append(flows, slices.Repeat([]spending{{calls: 20, tokens: 1000, last: 1_000_000}}, 10)...)
	flows = append(flows, slices.Repeat([]spending{{calls: 40, tokens: 400}}, 10)...)
	trial := fold(t, limits(t, "profile: balanced\n"), true, spent(t, flows...))
	runaway := map[string]bool{}
	for i := range 20 {
		runaway[fmt.Sprintf("f%d", 60+i)] = true
	}
	good := func(f *Flow) bool { return !runaway[f.ID] }
	failed := func(f *Flow) bool { return runaway[f.ID] }
	c, err := trial.Calibrate(0.1, good, failed)
	if err != nil {
		t.Fatal(err)
	}
	stop := min(c.Limits.Rules[analyzer.RuleInputTokens].Stop, c.Limits.Rules[analyzer.RuleTotalTokens].Stop)
	if stop < 20_000 || stop > 40_000 {
		t.Errorf("the budget of tokens is %d, where good flows spend up to 29,000 and runaways 5 million", stop)
	}
	got := trial.Savings([]float64{0.1}, good, failed)
	if len(got) != 1 || got[0].Unit != "tokens" || got[0].Budget == nil {
		t.Fatalf("got %+v", got)
	}
	// 50.36 million tokens, 40 of them after the first request that spends too much.
	s := got[0]
	if s.Budget.Tokens < 0.75 || s.Budget.Tokens > 0.85 || s.Rules.Tokens < s.Budget.Tokens || s.Budget.Calls > 0.01 {
		t.Errorf("rules save %+v, a budget of tokens %+v", s.Rules, *s.Budget)
	}
	// The step limit refuses the last calls of the longer runaways: 28 of 40 calls remain, as good flows make
	// at most 29, and what these calls spend is little.
	if s.Steps.Calls < 0.1 || s.Steps.Tokens > 0.01 {
		t.Errorf("a limit of steps saves %+v", s.Steps)
	}
}

// TestBudgetNeedsReports holds that no budget of tokens is drawn where most good flows report none: what is
// unusual is then unknown.
func TestBudgetNeedsReports(t *testing.T) {
	for reporting, want := range map[int]bool{10: false, 30: false, 31: true, 60: true} {
		var flows []spending
		for i := range 60 {
			s := spending{calls: 10 + i/3}
			if i < reporting {
				s.tokens = 100
			}
			flows = append(flows, s)
		}
		flows = append(flows, slices.Repeat([]spending{{calls: 20, tokens: 10_000}}, 20)...)
		trial := fold(t, limits(t, "profile: balanced\n"), true, spent(t, flows...))
		failed := func(f *Flow) bool { return f.Tokens >= 100_000 }
		c, err := trial.Calibrate(0.1, func(f *Flow) bool { return !failed(f) }, failed)
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		for _, id := range []analyzer.RuleID{analyzer.RuleInputTokens, analyzer.RuleTotalTokens, analyzer.RuleContextTokens} {
			changed = changed || c.Limits.Rules[id] != trial.Limits.Rules[id]
		}
		if changed != want {
			t.Errorf("%d of 60 good flows report tokens: a budget of tokens is drawn: %v", reporting, changed)
		}
	}
}

// TestMixturesAreMeasured holds that a row which saves something only in one runaway takes no share from
// the row that saves most in all others.
func TestMixturesAreMeasured(t *testing.T) {
	var flows []spending
	for i := range 100 {
		flows = append(flows, spending{calls: 10 + i/4, tokens: 1000})
	}
	for i := range 40 {
		flows = append(flows, spending{calls: 22 + i/20, tokens: 3000 + 10*i})
	}
	flows = append(flows, spending{calls: 60, tokens: 100})
	trial := fold(t, limits(t, "profile: balanced\n"), true, spent(t, flows...))
	good, failed := trial.Flows()[:100], trial.Flows()[100:]
	r := trial.rarity(good, true)
	all := r.mixtures(0.03, good, failed, inTokens, int(analyzer.RuleCount))
	chosen, cost := r.worth(0.03, good, failed)
	if cost > len(all) || chosen.many() != cost {
		t.Errorf("%d rows are chosen of at most %d, at a cost of %d", chosen.many(), len(all), cost)
	}
	if !countsTokens(first(chosen)) || cost != 1 {
		t.Errorf("%d rows are chosen, the first is %s", cost, analyzer.Rules[first(chosen)].Name)
	}
}

// first is the first row that takes part.
func first(chosen rows) analyzer.RuleID {
	for id := range analyzer.RuleCount {
		if chosen[id] > 0 {
			return id
		}
	}
	return 0
}
