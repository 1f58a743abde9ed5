package backtest

import (
	"bytes"
	"fmt"
	"testing"

	"weir/analyzer/forecast"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// spendingRun is a flow with the given number of calls: a model call of 100 tokens before each, and one of 50 at its end.
func spendingRun(flow string, at events.Stamp, calls int) (log []events.Event) {
	ev := func(kind events.Kind, n int) events.Event {
		return events.Event{ID: fmt.Sprint(flow, kind, n), Source: "svc", Time: at + events.Stamp(1000*n), Kind: kind, CorrelationID: flow, From: events.Party{Agent: "a"}}
	}
	for n := range calls + 1 {
		llm := ev(events.LLMCall, n)
		llm.Usage = events.Usage{Known: true, Input: 100}
		if n == calls {
			llm.Usage.Input = 50
			return append(log, llm)
		}
		call := ev(events.ToolCall, n)
		call.Tool = events.Tool{Name: "read", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(n + 1)}}
		log = append(log, llm, call)
	}
	return log
}

func TestForecastsOfGoodFlows(t *testing.T) {
	t.Parallel()
	var log []events.Event
	for f := range 40 {
		// Each flow has two episodes: an hour lies between them.
		log = append(log, spendingRun(fmt.Sprint("f", f), events.Stamp(1_700_000_000_000), 2+f%20)...)
		log = append(log, spendingRun(fmt.Sprint("f", f), events.Stamp(1_700_003_600_000), 2+f%20)...)
	}
	for i := range log { // ids are of the flow, and a repeated one is no event
		log[i].ID = fmt.Sprint(log[i].ID, log[i].Time)
	}
	trial, err := NewTrial(t.Context(), limits(t, "profile: none"))
	if err != nil {
		t.Fatal(err)
	}
	trial.Follow = true
	for i := range log {
		ev := log[i]
		trial.Fold(&ev)
	}
	if c := trial.Flow("f3").Courses(); len(c) != 2 || c[0].Calls() != 5 || c[0].Spent(forecast.Tokens) != 550 || c[1].Kind != "svc" {
		t.Fatalf("%+v", c)
	}
	points := trial.Flow("f1").Courses()[0].Of(forecast.Tokens)
	if want := []forecast.Point{{Calls: 1, Spent: 100}, {Calls: 1, Spent: 200}, {Calls: 2, Spent: 200}, {Calls: 2, Spent: 300}, {Calls: 3, Spent: 300}, {Calls: 3, Spent: 350}}; fmt.Sprint(points) != fmt.Sprint(want) {
		t.Errorf("the course is %v, want %v", points, want)
	}
	table, episodes := trial.Forecasts(func(*Flow) bool { return true })
	if episodes != 80 || len(table) != 1 || table[0].Name != "svc" || len(table[0].Rows[forecast.USD]) != 0 {
		t.Fatalf("%d episodes give %+v", episodes, table)
	}
	// At the first call 100 tokens are spent; the shortest runs end with 250, the longest with 2,150.
	if e := table.Of("svc", forecast.Tokens, 1, 100); e.Runs != 80 || e.Low != 250 || e.High != 2150 || e.Expected < 1100 || e.Expected > 1300 {
		t.Errorf("at the first call: %+v", e)
	}
	if few, n := trial.Forecasts(func(f *Flow) bool { return f.ID < "f15" }); n >= forecast.Least && len(few) == 0 || n < forecast.Least && len(few) > 0 {
		t.Errorf("%d good runs give %d kinds", n, len(few))
	}
	// What is printed is a limits file with the rule on.
	var b bytes.Buffer
	if err := WriteLimits(&b, "none", ForecastRule(trial.Limits), table); err != nil {
		t.Fatal(err)
	}
	l, err := limitfile.Parse("printed", b.Bytes())
	if err != nil || fmt.Sprint(l.Forecast) != fmt.Sprint(table) {
		t.Errorf("%v, read\n%v\nwant\n%v", err, l.Forecast, table)
	}
	for i := range l.Rules {
		if l.Rules[i] != trial.Limits.Rules[i] && (l.Rules[i].Warn != 100 || l.Rules[i].Stop != rules.Off) {
			t.Errorf("rule %d: %+v", i, l.Rules[i])
		}
	}
	if l.Rules == trial.Limits.Rules {
		t.Error("no rule holds the forecasts against budgets")
	}
}
