package analyzer_test

import (
	"testing"

	"weir/analyzer"
	"weir/analyzer/forecast"
	"weir/analyzer/rules"
	"weir/events"
)

// foresight are limits with a forecast for the first call of the service s.
func foresight(runs int64) analyzer.Limits {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleTotalTokens] = rules.Most(rules.Off, 10_000)
	row := forecast.Row{Calls: 1, Runs: runs}
	if runs >= forecast.Least {
		row.Low, row.Expected, row.High = 1500, 4000, 30_000
	}
	l.Forecast = forecast.Table{{Name: "s", Rows: [forecast.MeasureCount][]forecast.Row{forecast.Tokens: {row}}}}
	return l
}

func TestAnswersAndViewsForecast(t *testing.T) {
	t.Parallel()
	for _, runs := range []int64{forecast.Least - 1, 40} {
		e := analyzer.New(foresight(runs))
		var p analyzer.Partition
		var f analyzer.Flow
		var fx analyzer.Effects
		at := events.Stamp(1_700_000_000_000)
		llm := events.Event{ID: "l", Source: "s", Kind: events.LLMCall, CorrelationID: "f", From: events.Party{Agent: "a"}, Time: at, Usage: events.Usage{Known: true, Input: 900, Output: 100}}
		e.Step(&p, &f, &llm, &fx)
		ask := events.Event{ID: "c", Source: "s", Kind: events.ToolCall, Ask: true, Tell: true, CorrelationID: "f", From: events.Party{Agent: "a"}, Time: at + 1000, Tool: events.Tool{Name: "read"}}
		e.Step(&p, &f, &ask, &fx)
		want := events.Forecast{Runs: runs}
		if runs >= forecast.Least {
			want = events.Forecast{Runs: runs, Low: 1500, Expected: 4000, High: 30_000}
		}
		found := false
		for _, r := range fx.Answer.Remaining {
			switch {
			case r.RuleID == analyzer.Rules[analyzer.RuleTotalTokens].Name:
				found = r.Forecast != nil && *r.Forecast == want
			case r.Forecast != nil && r.Unit != events.UnitUSD:
				t.Errorf("%s has a forecast", r.RuleID)
			}
		}
		if !found {
			t.Errorf("%d runs: the answer has %+v, want a forecast of %+v", runs, fx.Answer.Remaining, want)
		}
		view := e.View(&f)
		if len(view.Forecast) != 1 || view.Forecast[0] != (analyzer.ForecastView{Unit: events.UnitTokens, Calls: 1, Spent: 1000, Runs: runs, Low: want.Low, Expected: want.Expected, High: want.High, Limit: 10_000}) {
			t.Errorf("%d runs: the view has %+v", runs, view.Forecast)
		}
	}
	e := analyzer.New(analyzer.Balanced())
	var f analyzer.Flow
	if v := e.View(&f); v.Forecast != nil {
		t.Errorf("without a table the view has %+v", v.Forecast)
	}
}
