package backtest

import (
	"cmp"
	"slices"
	"strings"

	"weir/analyzer"
	"weir/analyzer/forecast"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/events"
)

// Course is what one episode of a flow had spent at each of its calls, and at its end.
type Course struct {
	Kind   string // the service that reports it
	number int64  // of the episode
	calls  int64
	spent  [forecast.MeasureCount]int64 // so far, also before the first call
	points [forecast.MeasureCount][]forecast.Point
}

// Of returns the points of one measure. The last one is the end of the episode.
func (c *Course) Of(m forecast.Measure) []forecast.Point { return c.points[m] }

// Calls returns how many calls the episode made.
func (c *Course) Calls() int64 { return c.calls }

// Spent returns what the episode has spent so far.
func (c *Course) Spent(m forecast.Measure) int64 { return c.spent[m] }

// note enters what the episode has spent after an event. A call adds a point; what is spent after the
// last call moves the end.
func (c *Course) note(now pump.Course) {
	called := now.Calls > c.calls
	c.calls = now.Calls
	for m, spent := range [forecast.MeasureCount]int64{forecast.USD: now.Cost, forecast.Tokens: now.Tokens} {
		p := &c.points[m]
		c.spent[m] = spent
		switch n := len(*p); {
		case spent == 0 || c.calls == 0:
		case called, n == 0:
			*p = append(*p, forecast.Point{Calls: c.calls, Spent: spent})
		case (*p)[n-1].Spent < spent:
			// The point of the call stays as it was: a check of that call saw no more. One more at the
			// same number of calls changes no bin.
			if n > 1 && (*p)[n-2].Calls == c.calls {
				(*p)[n-1].Spent = spent
			} else {
				*p = append(*p, forecast.Point{Calls: c.calls, Spent: spent})
			}
		}
	}
}

// follow enters the event that was folded last into the course of its flow.
func (t *Trial) follow(f *Flow, ev *events.Event) {
	if f.service == "" && ev.Source != "" {
		f.service = strings.Clone(analyzer.ServiceOf(ev.Source))
	}
	now, ok := t.replay.Course(f.ID)
	if !ok {
		return
	}
	n := len(f.courses)
	if n == 0 || f.courses[n-1].number != now.Episode {
		f.courses = append(f.courses, Course{number: now.Episode})
		f.courses[n].Kind = f.service
		n++
	}
	f.courses[n-1].note(now)
}

// Courses returns the episodes of the flow, of a trial that follows them.
func (f *Flow) Courses() []Course { return f.courses }

// Forecasts makes the table of forecasts of the episodes of good flows. Kinds of which no measure has
// runs enough for an estimate are left out.
func Forecasts(good []*Course) (t forecast.Table) {
	kinds := map[string]*[forecast.MeasureCount][][]forecast.Point{}
	for _, c := range good {
		name := cmp.Or(c.Kind, forecast.Any)
		if kinds[name] == nil {
			kinds[name] = new([forecast.MeasureCount][][]forecast.Point)
		}
		for m := range forecast.MeasureCount {
			kinds[name][m] = append(kinds[name][m], c.Of(m))
		}
	}
	for name, runs := range kinds {
		k := forecast.Kind{Name: name}
		known := false
		for m := range forecast.MeasureCount {
			rows := forecast.Calibrate(runs[m])
			last := len(rows) - 1
			for last >= 0 && rows[last].Runs < forecast.Least {
				last--
			}
			if last >= 0 {
				// One row says from where on nothing is known.
				k.Rows[m], known = rows[:min(len(rows), last+2)], true
			}
		}
		if known {
			t = append(t, k)
		}
	}
	slices.SortFunc(t, func(a, b forecast.Kind) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

// Forecasts makes the table of forecasts of the good flows of the trial, and returns of how many
// episodes it is made.
func (t *Trial) Forecasts(good func(*Flow) bool) (table forecast.Table, episodes int) {
	var all []*Course
	for _, f := range t.list {
		if !good(f) {
			continue
		}
		for i := range f.courses {
			if f.courses[i].calls > 0 {
				all = append(all, &f.courses[i])
			}
		}
	}
	return Forecasts(all), len(all)
}

// ForecastRule is the rule that holds forecasts against budgets, as a suggestion for limits that have it
// off; none for others.
func ForecastRule(l analyzer.Limits) []Suggestion {
	for id := range analyzer.RuleCount {
		if row := &analyzer.Rules[id]; row.Unit == events.UnitPercent && l.Rules[id].Mute() {
			return []Suggestion{{Row: id, Setting: rules.Stop(100, rules.Off), Changed: true, Evidence: "by the forecasts below"}}
		}
	}
	return nil
}
