package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/analyzer/rules"
)

// TestLogarithms holds logarithms and powers against those of floating point.
func TestLogarithms(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, x := range []int64{1, 2, 3, 1000, 1 << 40, rules.MaxThreshold, math.MaxInt64} {
		for range 50 {
			if got, want := float64(log2(x))/unit, math.Log2(float64(x)); math.Abs(got-want) > 1e-8 {
				t.Errorf("the logarithm of %d is %v, want %v", x, got, want)
			}
			if back := exp2(log2(x)); x < rules.MaxThreshold && math.Abs(float64(back-x)) > 1+float64(x)/1e8 {
				t.Errorf("%d becomes %d", x, back)
			}
			x = 1 + random.Int64N(x)
		}
	}
	if exp2(-1) != 0 || exp2(0) != 1 || exp2(63<<32) != rules.MaxThreshold {
		t.Errorf("%d, %d, %d", exp2(-1), exp2(0), exp2(63<<32))
	}
	for _, x := range []int64{0, -5} {
		if log2(x) != 0 {
			t.Errorf("the logarithm of %d is %d", x, log2(x))
		}
	}
}

// TestPower holds that a power is found, and that the interval is then narrower and holds as many runs.
func TestPower(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	// What was spent at the third call differs by a factor of hundreds, the final spend grows with its root.
	draw := func() []Point {
		then := math.Exp(8 + 1.5*random.NormFloat64())
		end := then + math.Exp(10+0.5*math.Log(then)+0.5*random.NormFloat64())
		return []Point{{3, int64(then)}, {4, int64(end)}}
	}
	held, of := 0, 0
	var widths, before []float64
	for range 30 {
		var runs [][]Point
		for range 40 {
			runs = append(runs, draw())
		}
		row := Calibrate(runs)[0]
		if row.Typical <= 0 || row.Power < 200 || row.Power > 800 {
			t.Fatalf("%+v", row)
		}
		var multiples []int64
		for _, r := range runs {
			multiples = append(multiples, multiple(r[1].Spent, r[0].Spent))
		}
		slices.Sort(multiples)
		before = append(before, float64(multiples[38])/float64(multiples[1]))
		table := Table{{Name: "a", Rows: [MeasureCount][]Row{Tokens: {row}}}}
		for range 100 {
			run := draw()
			e, end := table.Of("a", Tokens, 3, run[0].Spent), run[1].Spent
			of++
			if e.Low <= end && end <= e.High {
				held++
			}
			widths = append(widths, float64(e.High)/float64(e.Low))
		}
	}
	slices.Sort(widths)
	slices.Sort(before)
	if share := float64(held) / float64(of); share < 0.87 || share > 0.96 {
		t.Errorf("the interval holds %.3f of the runs", share)
	}
	if is, was := widths[len(widths)/2], before[len(before)/2]; is > was/3 {
		t.Errorf("the interval is %.1f wide, and in proportion %.1f", is, was)
	}
}

// TestNoRunSpendsLess holds that no figure is below what was spent.
func TestNoRunSpendsLess(t *testing.T) {
	t.Parallel()
	table := Table{{Name: "a", Rows: [MeasureCount][]Row{Tokens: {{Calls: 3, Runs: 20, Low: 1100, Expected: 1500, High: 2000, Typical: 100, Power: 500}}}}}
	if e := table.Of("a", Tokens, 3, 100); e != (Estimate{Runs: 20, Low: 110, Expected: 150, High: 200}) {
		t.Errorf("at the typical spend: %+v", e)
	}
	if e := table.Of("a", Tokens, 3, 400); e != (Estimate{Runs: 20, Low: 400, Expected: 400, High: 400}) {
		t.Errorf("far above it: %+v", e)
	}
	if e := table.Of("a", Tokens, 3, 25); e.High < 95 || e.High > 100 {
		t.Errorf("a quarter of it: %+v", e)
	}
}
