package forecast

import (
	"math/rand/v2"
	"testing"

	"weir/analyzer/rules"
)

func TestBin(t *testing.T) {
	t.Parallel()
	last := int64(0)
	for n := int64(1); n < 5000; n++ {
		bin := Bin(n)
		if bin > n || bin < last || bin*5 < n*4 && n >= 8 {
			t.Fatalf("Bin(%d) = %d after %d", n, bin, last)
		}
		if Bin(bin) != bin {
			t.Fatalf("Bin(%d) = %d is no lower end of a bin", n, bin)
		}
		last = bin
	}
	if Bin(0) != 0 || Bin(-1) != 0 {
		t.Error("a run without calls is in a bin")
	}
}

// course is a run of so many calls, each of which costs the given amount.
func course(calls, each int64) (run []Point) {
	for n := int64(1); n <= calls; n++ {
		run = append(run, Point{n, n * each})
	}
	return run
}

func TestTooFewRunsEstimateNothing(t *testing.T) {
	t.Parallel()
	var runs [][]Point
	for n := range int64(Least - 1) {
		runs = append(runs, course(n+4, 10))
	}
	table := Table{{Name: "a", Rows: [MeasureCount][]Row{Tokens: Calibrate(runs)}}}
	if e := table.Of("a", Tokens, 3, 30); e.Known() || e.Runs != Least-1 || e.High != 0 {
		t.Errorf("%d runs give %+v", Least-1, e)
	}
	runs = append(runs, course(100, 10))
	table[0].Rows[Tokens] = Calibrate(runs)
	// Of nineteen, the extreme ones are the ends: 4 calls and 100.
	if e := table.Of("a", Tokens, 3, 30); e != (Estimate{Runs: Least, Low: 40, Expected: 130, High: 1000}) {
		t.Errorf("%d runs give %+v", Least, e)
	}
	// Where fewer of them came, nothing is known; and where none came.
	if e := table.Of("a", Tokens, 10, 100); e.Known() || e.Runs == 0 {
		t.Errorf("at 10 calls: %+v", e)
	}
	if e := table.Of("a", Tokens, 5000, 100); e != (Estimate{}) {
		t.Errorf("at 5,000 calls: %+v", e)
	}
	for _, e := range []Estimate{table.Of("b", Tokens, 3, 30), table.Of("a", USD, 3, 30), table.Of("a", Tokens, 0, 30), table.Of("a", Tokens, 3, 0), Table(nil).Of("a", Tokens, 3, 30)} {
		if e != (Estimate{}) {
			t.Errorf("nothing is known, and yet %+v", e)
		}
	}
}

func TestAnyKind(t *testing.T) {
	t.Parallel()
	table := Table{{Name: Any, Rows: [MeasureCount][]Row{Tokens: {{3, 20, 1000, 2000, 3000, 0, 0}}}}, {Name: "a", Rows: [MeasureCount][]Row{Tokens: {{3, 30, 1000, 5000, 9000, 0, 0}}}}}
	if e := table.Of("b", Tokens, 3, 10); e.Runs != 20 || e.Expected != 20 {
		t.Errorf("another kind: %+v", e)
	}
	if e := table.Of("a-hooks", Tokens, 3, 10); e.Runs != 30 || e.Expected != 50 {
		t.Errorf("its kind by hooks: %+v", e)
	}
	if e := table.Of("a", Tokens, 3, 10); e.Runs != 30 || e.Expected != 50 {
		t.Errorf("its own kind: %+v", e)
	}
	if e := table.Of("a", Tokens, 3, rules.MaxThreshold); e.High != rules.MaxThreshold {
		t.Errorf("too large a figure: %+v", e)
	}
}

// At each number of calls the interval holds about nine of ten further runs, whatever they cost.
func TestIntervalHolds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() (run []Point) {
		calls, each, spent := 3+int64(random.ExpFloat64()*30), 1+random.Int64N(1000), int64(0)
		for n := int64(1); n <= calls; n++ {
			spent += each + n*random.Int64N(50)
			run = append(run, Point{n, spent})
		}
		return run
	}
	held, of := 0, 0
	for range 30 {
		var runs [][]Point
		for range 100 {
			runs = append(runs, draw())
		}
		table := Table{{Name: "a", Rows: [MeasureCount][]Row{Tokens: Calibrate(runs)}}}
		for range 100 {
			run := draw()
			e, end := table.Of("a", Tokens, 3, run[2].Spent), run[len(run)-1].Spent
			of++
			if e.Low <= end && end <= e.High {
				held++
			}
		}
	}
	if share := float64(held) / float64(of); share < 0.88 || share > 0.95 {
		t.Errorf("the interval holds %.3f of the runs", share)
	}
}
