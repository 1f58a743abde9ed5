package limitfile

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"

	"weir/analyzer/forecast"
	"weir/events"
)

// forecastKeys are the keys of a row of forecasts, in the order in which they are written.
var forecastKeys = []string{"calls", "runs", "low", "expected", "high", "typical", "power"}

// perThousandth is how many millionths a thousandth has: multiples have as many decimals as money is
// read with, of which only three count.
const perThousandth = 1000

// Bounds of the section, which keep the record of the limits small.
const (
	maxForecastKinds = 64
	maxForecastRows  = 128 // of one measure: each doubling of the calls takes four
)

// forecasts reads the section of forecasts.
func (r *reader) forecasts(n *yaml.Node) (t forecast.Table) {
	for key, v := range r.pairs("forecast", n) {
		path := join("forecast", key.Value)
		f := r.fields(path, v, measureWords()...)
		k := forecast.Kind{Name: key.Value}
		for m := range forecast.MeasureCount {
			k.Rows[m] = readForecastRows(&r.nodeReader, path+"."+m.String(), m, f[m.String()])
		}
		t = append(t, k)
	}
	return t
}

// measureWords are the measures as a file names them.
func measureWords() (words []string) {
	for m := range forecast.MeasureCount {
		words = append(words, m.String())
	}
	return words
}

// readForecastRows reads the rows of one measure.
func readForecastRows(r *nodeReader, path string, m forecast.Measure, n *yaml.Node) (rows []forecast.Row) {
	for i, c := range r.items(path, n) {
		at := index(path, i)
		f := r.fields(at, c, forecastKeys...)
		var row forecast.Row
		for _, key := range forecastKeys[:2] {
			if f[key] == nil && c.Kind == yaml.MappingNode {
				r.fail(c, at+"."+key, "write it as weir limits calibrate --forecast does", "is missing")
			}
		}
		r.integer(at+".calls", f["calls"], &row.Calls)
		r.integer(at+".runs", f["runs"], &row.Runs)
		row.Typical, _ = r.amount(at+".typical", f["typical"], m.Unit())
		for _, x := range []struct {
			key string
			set *int64
		}{{"low", &row.Low}, {"expected", &row.Expected}, {"high", &row.High}, {"power", &row.Power}} {
			key, set := x.key, x.set
			v, ok := r.amount(at+"."+key, f[key], events.UnitUSD)
			if ok && v%perThousandth != 0 {
				r.fail(f[key], at+"."+key, "", "want at most three decimals")
			}
			*set = v / perThousandth
		}
		rows = append(rows, row)
	}
	return rows
}

// describeForecasts writes the section of forecasts.
func describeForecasts(t forecast.Table) object {
	out := object{}
	for i := range t {
		kind := object{}
		for m, rows := range t[i].Rows {
			if len(rows) == 0 {
				continue
			}
			all := list{}
			for _, r := range rows {
				o := object{{"calls", integer(r.Calls)}, {"runs", integer(r.Runs)}}
				if r.Runs >= forecast.Least {
					for j, v := range [...]int64{r.Low, r.Expected, r.High} {
						o.put(forecastKeys[2+j], amount(events.UnitUSD, v*perThousandth))
					}
					if r.Typical > 0 {
						o.put("typical", amount(forecast.Measure(m).Unit(), r.Typical))
						o.put("power", amount(events.UnitUSD, r.Power*perThousandth))
					}
				}
				all = append(all, o)
			}
			kind.put(forecast.Measure(m).String(), all)
		}
		out.put(t[i].Name, kind)
	}
	return out
}

// ForecastSection returns the section as a limits file has it, for people who put it into theirs.
func ForecastSection(t forecast.Table) []byte {
	return printYAML("", object{{"forecast", describeForecasts(t)}})
}

// forecasts checks the section and puts its kinds into their order.
func (c *checker) forecasts(t forecast.Table) {
	if c.tooMany("forecast", "keep the kinds that you run", "%d kinds of runs are more than the %d that can have forecasts", len(t), maxForecastKinds) {
		return
	}
	for i := range t {
		path := join("forecast", t[i].Name)
		c.text(path, t[i].Name, maxName)
		for m, rows := range t[i].Rows {
			c.forecastRows(path+"."+forecast.Measure(m).String(), rows)
		}
	}
}

// forecastRows checks the rows of one measure.
func (c *checker) forecastRows(path string, rows []forecast.Row) {
	const hint = "write the section with weir limits calibrate --forecast"
	if c.tooMany(path, hint, "%d rows are more than %d", len(rows), maxForecastRows) {
		return
	}
	last := int64(0)
	for i := range rows {
		r, at := &rows[i], index(path, i)
		switch {
		case r.Calls <= last || forecast.Bin(r.Calls) != r.Calls:
			c.fail(at+".calls", hint, "%d is no beginning of a bin, or not above the one before", r.Calls)
		case r.Runs < 1 || r.Runs > maxThreshold:
			c.fail(at+".runs", hint, "%d is no number of runs", r.Runs)
		case r.Runs < forecast.Least && (r.Low != 0 || r.Expected != 0 || r.High != 0 || r.Typical != 0 || r.Power != 0):
			c.fail(at+".runs", "delete all but calls and runs, or calibrate on more runs", "%d runs are too few for an estimate; it takes %d", r.Runs, forecast.Least)
		case r.Typical < 0 || r.Typical > maxThreshold || r.Power < 0 || r.Power > forecast.One || r.Typical == 0 && r.Power != 0:
			c.fail(at+".power", hint, "want typical, and a power from 0 to 1")
		// Of a spend that is scaled a run may reach less.
		case r.Runs >= forecast.Least && (r.Low < forecast.One && r.Typical == 0 || r.Low < 1 || r.Expected < r.Low || r.High < r.Expected || r.High > forecast.MostMultiple):
			c.fail(at, hint, "low, expected and high have to be multiples up to %d that do not fall, from 1 on where power is missing", forecast.MostMultiple/forecast.One)
		}
		last = r.Calls
	}
}

// sortForecasts returns the kinds in the order of their names.
func sortForecasts(t forecast.Table) forecast.Table {
	t = slices.Clone(t)
	slices.SortFunc(t, func(a, b forecast.Kind) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

// forecastSchema is one kind of the section of forecasts.
func forecastSchema() object {
	multiple := func(about string) object {
		return object{{"type", "number"}, {"exclusiveMinimum", number("0")}, {"maximum", integer(forecast.MostMultiple / forecast.One)}, {"description", about}}
	}
	row := closed("", object{
		{"calls", object{{"type", "integer"}, {"minimum", number("1")}, {"description", "Calls of agents and tools that the runs had made at least, up to those of the next row. 1 to 8, and then four values for each doubling: 10, 12, 14, 16, 20."}}},
		{"runs", object{{"type", "integer"}, {"minimum", number("1")}, {"description", "Good runs that came so far. Below " + string(integer(forecast.Least)) + " nothing is estimated."}}},
		{"low", multiple("What one in twenty of them had spent less than in the end, as a multiple of its spend by then.")},
		{"expected", multiple("The median of the final spend, as a multiple.")},
		{"high", multiple("What one in twenty of them had spent more than in the end, as a multiple.")},
		{"typical", object{{"type", "number"}, {"exclusiveMinimum", number("0")}, {"description", "What these runs had spent by then, in the middle: US dollars or tokens. With it the multiples are of typical x (spent / typical)^power, and not of what was spent."}}},
		{"power", object{{"type", "number"}, {"minimum", number("0")}, {"maximum", number("1")}, {"description", "With which power of the spend by then the final spend grows. 1 is in proportion."}}},
	})
	row.put("required", list{"calls", "runs"})
	keys := object{}
	for m := range forecast.MeasureCount {
		about := "By US dollars."
		if m == forecast.Tokens {
			about = "By tokens."
		}
		keys.put(m.String(), object{{"description", about}, {"type", "array"}, {"maxItems", integer(maxForecastRows)}, {"items", row}})
	}
	return closed("", keys)
}
