package backtest

import (
	"cmp"
	"slices"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/rules"
	"weir/cmd/internal/costs"
	"weir/events"
)

// listed is how many lines of each list of the ledger a report has.
//
// The sums below a list are over all lines, listed or not.
const listed = 50

// Report is what a trial found. Shares are from 0 to 1.
//
// It is printed as JSON as it is. Repeats are events that had been folded before, BadRecords
// what could not be read, which the caller of the trial fills in. AfterStop is what came after
// the first stop of each flow, in the log as it is.
type Report struct {
	Profile       string `json:"profile"`
	ConfigVersion string `json:"config_version"`
	Events        int64  `json:"events"`
	Repeats       int64  `json:"repeats"`
	BadRecords    int64  `json:"bad_records"`
	Flows         int    `json:"flows"`
	Warned        int    `json:"flows_warned"` // stopped ones included
	Stopped       int    `json:"flows_stopped"`
	Incidents     int    `json:"incidents"`
	StoppedTimes  int    `json:"incidents_stopped"` // incidents in which a call was refused

	Calls           int64 `json:"calls"`
	CallsAfterStop  int64 `json:"calls_after_stop"`
	Tokens          int64 `json:"tokens"`
	TokensAfterStop int64 `json:"tokens_after_stop"`
	Cost            int64 `json:"cost_micro_usd"`
	CostAfterStop   int64 `json:"cost_after_stop_micro_usd"`

	Costs    *costs.Costs      `json:"costs"`
	Budgets  []BudgetReport    `json:"budgets,omitempty"` // over flows, those in dollars first
	Rules    []RuleReport      `json:"rules"`
	Stops    []Stop            `json:"stops"`    // the review list, those with the most calls after them first
	Exempted []Stop            `json:"exempted"` // flows that would have been stopped but for an exemption by tags
	Coverage coverage.Coverage `json:"coverage"`
	Blind    []coverage.Blind  `json:"blind"`
	// BlindFlows is what some of the flows never report, though others do.
	BlindFlows []coverage.Part `json:"blind_flows"`
	// WarnsOnly says why flows were warned and not stopped; see coverage.Coverage.WarnsOnly.
	WarnsOnly string `json:"warns_only,omitempty"`
}

// RuleReport is what one row measured in all flows and what it brought about.
//
// Thresholds are the values at which the row speaks, nil where it does not. The quantiles
// are over flows in which the row measured anything, not over all.
type RuleReport struct {
	Rule    string      `json:"rule"`
	Unit    events.Unit `json:"unit"`
	Mode    string      `json:"mode"`
	Warn    *int64      `json:"warn,omitempty"` // thresholds; millionths of a dollar in rows about money
	Stop    *int64      `json:"stop,omitempty"`
	Warned  int         `json:"flows_warned"`  // of which this row spoke first
	Stopped int         `json:"flows_stopped"` // which this row stopped first

	Measured int     `json:"flows_measured"` // in which it measured more than nothing
	P50      int64   `json:"p50"`            // of the greatest value in each of these
	P90      int64   `json:"p90"`
	P99      int64   `json:"p99"`
	P999     int64   `json:"p99_9"`
	Max      int64   `json:"max"`
	Bars     []Bar   `json:"bars"`
	At       []Other `json:"at"`      // what other thresholds would do
	Nearest  []Near  `json:"nearest"` // flows that came nearest and were not stopped by any
}

// Bar is how many flows had their greatest value from From to before To.
//
// Together the bars of a row cover all values from 0 on.
type Bar struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Flows int   `json:"flows"`
}

// Other is how many flows reach another stop threshold.
type Other struct {
	Stop  int64 `json:"stop"`
	Flows int   `json:"flows"`
}

// Near is a flow that came near to a threshold.
type Near struct {
	Flow  string `json:"flow"`
	Value int64  `json:"value"`
}

// Stop is a flow that would have been stopped.
//
// CallsAfter and the other fields ending in After are what the stop would have saved if the flow had
// not gone on.
type Stop struct {
	Flow string `json:"flow"`
	Moment
	Calls       int64  `json:"calls"`
	CallsAfter  int64  `json:"calls_after"`
	TokensAfter int64  `json:"tokens_after,omitempty"`
	CostAfter   int64  `json:"cost_after_micro_usd,omitempty"`
	Mark        string `json:"mark,omitempty"` // what a person said of it: right or wrong
}

// nearest is how many flows are named that came near, and most how many bars are drawn.
const (
	nearest  = 5
	mostBars = 12
)

// Report sums up what was folded.
//
// The trial may go on being folded afterwards: nothing of it is shared but the texts. marks
// may be nil.
func (t *Trial) Report(marks Marks) *Report {
	r := &Report{Profile: t.Limits.Profile, ConfigVersion: t.Limits.Version, Flows: len(t.list), Coverage: t.seen, Costs: t.Costs().Most(listed),
		Blind: t.seen.Blind(&t.Limits), WarnsOnly: t.seen.WarnsOnly(&t.Limits), Stops: []Stop{}, Exempted: []Stop{}, Budgets: t.accounts.report()}
	r.Events, r.Repeats = t.Events()
	by := map[string]*[2]int{}
	count := func(m *Moment, what int) {
		if by[m.Rule] == nil {
			by[m.Rule] = new([2]int)
		}
		by[m.Rule][what]++
	}
	var told coverage.Flows
	for _, f := range t.list {
		told.Add(f.ID, &f.Told)
		r.Calls, r.Tokens, r.Cost = r.Calls+f.Calls, r.Tokens+f.Tokens, r.Cost+f.Cost
		all, stops := f.Incidents()
		r.Incidents, r.StoppedTimes = r.Incidents+all, r.StoppedTimes+stops
		if f.Warned != nil {
			r.Warned++
			count(f.Warned, 0)
		}
		if m := f.Stopped; m != nil {
			r.Stopped++
			count(m, 1)
			s := f.stop(m, marks)
			r.CallsAfterStop, r.TokensAfterStop, r.CostAfterStop = r.CallsAfterStop+s.CallsAfter, r.TokensAfterStop+s.TokensAfter, r.CostAfterStop+s.CostAfter
			r.Stops = append(r.Stops, s)
		}
		if m := f.Exempted; m != nil && f.Stopped == nil {
			r.Exempted = append(r.Exempted, f.stop(m, marks))
		}
	}
	r.BlindFlows = told.Blind(&t.Limits, r.Blind)
	r.Blind = coverage.Unjudged(r.Blind, func(rule string) bool { return by[rule] != nil })
	for _, list := range [...][]Stop{r.Stops, r.Exempted} {
		slices.SortStableFunc(list, func(a, b Stop) int { return cmp.Compare(b.CallsAfter, a.CallsAfter) })
	}
	for i := range analyzer.Rules {
		row := &analyzer.Rules[i]
		if row.Fixed {
			continue // a person's word, which measures nothing
		}
		rule := t.rule(analyzer.RuleID(i))
		if n := by[row.Name]; n != nil {
			rule.Warned, rule.Stopped = n[0], n[1]
		}
		r.Rules = append(r.Rules, rule)
	}
	return r
}

// stop is the flow that was, or would have been, stopped then.
func (f *Flow) stop(m *Moment, marks Marks) Stop {
	return Stop{Flow: f.ID, Moment: *m, Calls: f.Calls, CallsAfter: f.Calls - m.Call, TokensAfter: f.Tokens - m.Tokens, CostAfter: f.Cost - m.Cost, Mark: marks[f.ID]}
}

// rule sums up what one row measured, over all flows, and where its thresholds lie in it.
func (t *Trial) rule(id analyzer.RuleID) RuleReport {
	row, set := &analyzer.Rules[id], &t.Limits.Rules[id]
	r := RuleReport{Rule: row.Name, Unit: row.Unit, Mode: set.Mode.String(), Bars: []Bar{}, At: []Other{}, Nearest: []Near{}}
	if set.Warn != rules.Off {
		r.Warn = &set.Warn
	}
	if set.Stop != rules.Off {
		r.Stop = &set.Stop
	}
	var values []int64
	for _, f := range t.list {
		if v := f.Most(id); v > 0 {
			values = append(values, v)
			// Who was stopped is past a threshold and not near it, whichever row came first: what
			// the others measure afterwards is far beyond theirs.
			if f.Stopped == nil {
				r.Nearest = nearer(r.Nearest, Near{f.ID, v})
			}
		}
	}
	r.Measured = len(values)
	if len(values) == 0 {
		return r
	}
	slices.Sort(values)
	r.P50, r.P90, r.P99, r.P999, r.Max = quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99), quantile(values, 0.999), values[len(values)-1]
	r.Bars = bars(values, set)
	if r.Stop != nil {
		r.At = others(values, set.Stop)
	}
	return r
}

// nearer keeps the nearest few, the nearest first.
//
// Of equal values the one that came first stays.
func nearer(list []Near, n Near) []Near {
	at, _ := slices.BinarySearchFunc(list, n, func(a, b Near) int { return cmp.Compare(b.Value, a.Value) })
	if at < nearest {
		list = slices.Insert(list, at, n)
	}
	return list[:min(len(list), nearest)]
}

// quantile is the least of the sorted values that a share q of them does not exceed.
func quantile(sorted []int64, q float64) int64 {
	i := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[max(0, min(i, len(sorted)-1))]
}

// bars draws how the values are spread: bars of one width, from zero to what is greater,
// the greatest value or a threshold that is not far above it.
func bars(sorted []int64, set *rules.Setting) []Bar {
	top := sorted[len(sorted)-1] + 1
	for _, v := range [...]int64{set.Warn, set.Stop} {
		if v != rules.Off && v < 4*top {
			top = max(top, v+1)
		}
	}
	width := roundUp((top + mostBars - 1) / mostBars)
	out := make([]Bar, 0, mostBars)
	for from, i := int64(0), 0; from < top; from += width {
		b := Bar{From: from, To: from + width}
		for ; i < len(sorted) && sorted[i] < b.To; i++ {
			b.Flows++
		}
		out = append(out, b)
	}
	return out
}

// roundUp returns the least of 1, 2 and 5 times a power of ten that is not below v.
func roundUp(v int64) int64 {
	for w := int64(1); ; w *= 10 {
		for _, f := range [...]int64{1, 2, 5} {
			if w*f >= v {
				return w * f
			}
		}
	}
}

// others says how many flows reach other thresholds around the one in force.
//
// They are shares of that threshold, so a small one has fewer of them. It is an answer by
// greatest values: a flow that is stopped early would have measured less.
func others(sorted []int64, stop int64) (out []Other) {
	seen := map[int64]bool{}
	for _, share := range [...]float64{0.5, 0.75, 1, 1.25, 1.5, 2, 4} {
		v := max(1, int64(float64(stop)*share+0.5))
		if seen[v] {
			continue
		}
		seen[v] = true
		at, _ := slices.BinarySearch(sorted, v)
		out = append(out, Other{v, len(sorted) - at})
	}
	return out
}
