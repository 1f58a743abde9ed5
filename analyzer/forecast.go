package analyzer

import (
	"weir/analyzer/forecast"
	"weir/analyzer/rules"
	"weir/events"
)

// What a flow is expected to have spent at the end of its episode. It follows from the calls and the
// spend that the flow keeps anyway, and from the table in the limits, so nothing more is stored.

// foreseen are the budgets of a flow for which there are forecasts.
var foreseen = [forecast.MeasureCount]RuleID{forecast.USD: ruleOfCost, forecast.Tokens: ruleOfTokens}

// foresee estimates the final spend of the flow. The kind of a flow is the service that reports it.
func foresee(t forecast.Table, f *Flow, m forecast.Measure) forecast.Estimate {
	spent := f.cost
	if m == forecast.Tokens {
		spent = f.tokens[2]
	}
	return t.Of(f.service, m, f.Calls(), spent)
}

// foresight works out what flows will have spent, by the table of the limits.
type foresight struct{ *settings }

// percent is how much of its budget the flow is expected to spend, of the budget that it
// exceeds most; 0 where nothing is known, or where it has no budget.
func (e foresight) percent(f *Flow, m *moment) (most int64) {
	for measure, r := range foreseen {
		set := e.limits.Rules[r]
		if e.varies(f) {
			set = e.setting(r, f, m)
		}
		if set.Mode == rules.ModeOff || set.Stop == rules.Off || set.Limit() <= 0 {
			continue
		}
		if x := foresee(e.limits.Forecast, f, forecast.Measure(measure)); x.Known() {
			const cap = rules.MaxThreshold / 100
			most = max(most, min(x.Expected, cap)*100/set.Limit())
		}
	}
	return most
}

// remaining is the forecast for the budget of a row, in its unit; nil for rows without one.
func (e foresight) remaining(f *Flow, r RuleID) *events.Forecast {
	if len(e.limits.Forecast) == 0 {
		return nil
	}
	for measure, row := range foreseen {
		if row == r {
			x := foresee(e.limits.Forecast, f, forecast.Measure(measure))
			unit := rules.InUnit(Rules[r].Unit)
			return &events.Forecast{Runs: x.Runs, Low: float64(x.Low) / unit, Expected: float64(x.Expected) / unit, High: float64(x.High) / unit}
		}
	}
	return nil
}

// ForecastView is what the flow is expected to have spent at the end of its episode.
type ForecastView struct {
	Unit  events.Unit `json:"unit"`
	Calls int64       `json:"calls"` // of agents and tools, so far
	Spent float64     `json:"spent"` // so far
	// Runs is how many good runs of the kind came as far. The figures are missing below 19 of them:
	// then the final spend is unknown.
	Runs     int64   `json:"runs"`
	Low      float64 `json:"low,omitempty"` // one run in twenty spends less
	Expected float64 `json:"expected,omitempty"`
	High     float64 `json:"high,omitempty"`  // one run in twenty spends more
	Limit    float64 `json:"limit,omitempty"` // the flow's budget; missing where it has none
}

// views are those of the flow, for each measure that it spends.
func (e foresight) views(f *Flow, m *moment) (out []ForecastView) {
	if len(e.limits.Forecast) == 0 {
		return nil
	}
	for measure, r := range foreseen {
		spent := [...]int64{forecast.USD: f.cost, forecast.Tokens: f.tokens[2]}[measure]
		if spent == 0 {
			continue
		}
		x, unit := foresee(e.limits.Forecast, f, forecast.Measure(measure)), rules.InUnit(Rules[r].Unit)
		v := ForecastView{Unit: Rules[r].Unit, Calls: f.Calls(), Spent: float64(spent) / unit, Runs: x.Runs,
			Low: float64(x.Low) / unit, Expected: float64(x.Expected) / unit, High: float64(x.High) / unit}
		if set := e.setting(r, f, m); set.Mode != rules.ModeOff && set.Stop != rules.Off {
			v.Limit = float64(set.Limit()) / unit
		}
		out = append(out, v)
	}
	return out
}
