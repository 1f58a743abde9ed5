// Package forecast estimates what a run will have spent at its end, from what good runs of its kind spent.
//
// A run that has made n calls is compared with the good runs that made as many. Runs that spent more by then
// spend more in the end, but mostly not in proportion: a power of the spend so far is fitted to them. Each of
// them gives one figure: its final spend as a multiple of what is typical at its spend. The quantiles of these
// multiples (conformal, with the finite-sample correction) times what is typical for the run are the estimate.
// All arithmetic is on whole numbers, so each machine gives the same figures.
package forecast

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"weir/analyzer/rules"
	"weir/events"
)

// Least is the number of good runs below which nothing is estimated: the least for which an interval
// that holds nine of ten further runs is finite at both ends.
const Least = 19

// One is a multiple of one. Multiples are in thousandths.
const One = 1000

// MostMultiple is the highest multiple of a table.
const MostMultiple = 1_000_000 * One

// Any is the kind for runs whose own kind has no table.
const Any = "*"

// Measure is what a run spends.
type Measure uint8

// The measures.
const (
	USD Measure = iota // millionths of a US dollar
	Tokens
	MeasureCount
)

var measureNames = [MeasureCount]string{"usd", "tokens"}

// String returns the measure as limits files spell it.
func (m Measure) String() string { return measureNames[m] }

// Unit is the unit in which people read the measure.
func (m Measure) Unit() events.Unit {
	if m == USD {
		return events.UnitUSD
	}
	return events.UnitTokens
}

// Row is what good runs spent that made at least Calls calls, and no fewer than the next row asks for.
type Row struct {
	Calls int64 // lower end of a bin, see Bin
	Runs  int64 // good runs that came so far
	// The final spend as a multiple of the spend so far: one run in twenty has less than Low, half of
	// them more than Expected, and one in twenty more than High. All 0 below Least runs.
	Low, Expected, High int64
	// Typical is what these runs had spent by then, in the middle, and Power with which power of the spend so
	// far the final spend grows, in thousandths. The multiples are of the typical spend at the spend so far,
	// which is Typical at Typical. Both are 0 where it grows in proportion.
	Typical, Power int64
}

// Kind is the table of one kind of runs. Rows are in the order of their calls.
type Kind struct {
	Name string // service that reports the run, or Any
	Rows [MeasureCount][]Row
}

// Table has the kinds in the order of their names. A nil Table estimates nothing.
type Table []Kind

// Bin returns the lower end of the bin of a number of calls: 1 to 7 have one each, and then each doubling
// has four.
func Bin(calls int64) int64 {
	if calls < 8 {
		return max(0, calls)
	}
	return calls >> (bits.Len64(uint64(calls)) - 3) << (bits.Len64(uint64(calls)) - 3)
}

// Estimate is what a run will have spent at its end.
type Estimate struct {
	// Runs is how many good runs came as far. The figures are 0 below Least: then nothing is known.
	Runs                int64
	Low, Expected, High int64 // in the measure
}

// Known reports whether there were runs enough for figures.
func (e *Estimate) Known() bool { return e.Runs >= Least }

// Of estimates the final spend of a run that has made a number of calls and spent so much.
func (t Table) Of(kind string, m Measure, calls, spent int64) (e Estimate) {
	if len(t) == 0 || spent <= 0 || calls <= 0 {
		return e
	}
	rows := t.rows(kind, m)
	i, ok := slices.BinarySearchFunc(rows, Bin(calls), func(r Row, bin int64) int { return cmp.Compare(r.Calls, bin) })
	if !ok {
		return e
	}
	r := &rows[i]
	if e.Runs = r.Runs; e.Known() {
		base := r.scaled(spent)
		// No run spends less in the end than it has spent.
		e.Low, e.Expected, e.High = max(spent, times(base, r.Low)), max(spent, times(base, r.Expected)), max(spent, times(base, r.High))
	}
	return e
}

// hooks ends the service of an agent that reports by its hooks. The service of its transcripts has no such end.
const hooks = "-hooks"

// rows are those of the kind, of the transcripts of an agent that reports by hooks, or of any kind.
func (t Table) rows(kind string, m Measure) []Row {
	for _, name := range [...]string{kind, strings.TrimSuffix(kind, hooks), Any} {
		i, ok := slices.BinarySearchFunc(t, name, func(k Kind, name string) int { return cmp.Compare(k.Name, name) })
		if ok && len(t[i].Rows[m]) > 0 {
			return t[i].Rows[m]
		}
	}
	return nil
}

// times multiplies by a multiple and rounds to the nearest. What does not fit becomes the greatest
// threshold.
func times(spent, multiple int64) int64 {
	hi, lo := bits.Mul64(uint64(spent), uint64(max(0, multiple)))
	lo, carry := bits.Add64(lo, One/2, 0)
	if hi += carry; hi >= One {
		return rules.MaxThreshold
	}
	n, _ := bits.Div64(hi, lo, One)
	return int64(min(n, rules.MaxThreshold))
}

// Point is a moment of a run: its calls, and what it had spent before the last of them.
type Point struct{ Calls, Spent int64 }

// Calibrate makes the rows of one measure of the courses of good runs. The points of a run are in the
// order of their calls; the last one is its end. A run counts once in each bin that it came to, by its
// first point there.
func Calibrate(runs [][]Point) (rows []Row) {
	type figure struct {
		bin int64
		spend
	}
	var all []figure
	for _, run := range runs {
		last := int64(0)
		for _, p := range run {
			if bin := Bin(p.Calls); bin > last && p.Spent > 0 {
				last = bin
				all = append(all, figure{bin, spend{p.Spent, run[len(run)-1].Spent}})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b figure) int { return cmp.Compare(a.bin, b.bin) })
	for begin, end := 0, 0; begin < len(all); begin = end {
		for end < len(all) && all[end].bin == all[begin].bin {
			end++
		}
		r := Row{}
		if n := end - begin + 1; n > Least {
			var list []spend
			for _, f := range all[begin:end] {
				list = append(list, f.spend)
			}
			var multiples []int64
			r, multiples = fit(list)
			slices.Sort(multiples)
			// A tenth of the places of a further run, rounded down, lies outside: half of them below.
			out := n / 10
			r.Low, r.Expected, r.High = multiples[out/2-1], multiples[(n+1)/2-1], multiples[n-(out-out/2)-1]
		}
		r.Calls, r.Runs = all[begin].bin, int64(end-begin)
		rows = append(rows, r)
	}
	return rows
}

// multiple is the final spend as a multiple of an earlier one, in thousandths.
func multiple(end, spent int64) int64 {
	return int64(math.Round(min(MostMultiple, float64(end)/float64(spent)*One)))
}
