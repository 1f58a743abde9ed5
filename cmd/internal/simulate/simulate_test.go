package simulate

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

var (
	seed    = flag.Uint64("seed", 0, "run this seed alone; 0 runs as many as -seeds says")
	seeds   = flag.Int("seeds", 0, "run this many `SEEDS`; 0 runs 40, and 10 with -short")
	first   = flag.Uint64("first", 1, "the first of them")
	steps   = flag.Int("steps", 600, "steps of trouble in a run")
	shorter = flag.Bool("shrink", true, "make a run that fails shorter")
	without Faults
)

func init() {
	flag.Var(&without, "without", "kinds of faults that do not happen, with commas between them")
}

// run runs a plan where time and goroutines are the simulation's.
func run(t *testing.T, plan Plan, stats *Stats) (broken *Violation) {
	synctest.Test(t, func(*testing.T) { broken = Run(plan, synctest.Wait, stats) })
	return broken
}

// TestSimulation runs seeds until one breaks an invariant.
func TestSimulation(t *testing.T) {
	from, n := *first, *seeds
	switch {
	case *seed != 0:
		from, n = *seed, 1
	case n == 0 && testing.Short():
		n = 10
	case n == 0:
		n = 40
	}
	start, stats := time.Now(), new(Stats)
	for s := from; s < from+uint64(n); s++ {
		plan := Plan{s, *steps, without}
		broken := run(t, plan, stats)
		if broken == nil {
			continue
		}
		if *seed == 0 && *shorter {
			plan, broken = shrink(t, plan, broken)
		}
		t.Fatalf("seed %d breaks: %s\n%s\nthe last steps:\n%s\nagain: %s", s, broken.Invariant, broken.Error(), strings.Join(broken.Trace, "\n"), command(plan))
	}
	if n >= 10 && (stats.Injected == 0 || stats.RefusedAlone == 0) {
		t.Errorf("the adversary tries nothing: %+v", *stats)
	}
	t.Logf("%d runs in %v: %+v", n, time.Since(start).Round(time.Millisecond), *stats)
}

func command(p Plan) string {
	c := fmt.Sprintf("go test ./cmd/internal/simulate -seed %d -steps %d", p.Seed, p.Steps)
	if p.Without != None {
		c += " -without " + p.Without.String()
	}
	return c
}

// shrink looks for a shorter run with fewer kinds of faults that breaks the same invariant.
func shrink(t *testing.T, plan Plan, broken *Violation) (Plan, *Violation) {
	try := func(p Plan) bool {
		b := run(t, p, new(Stats))
		if b == nil || b.Invariant != broken.Invariant {
			return false
		}
		p.Steps = min(p.Steps, b.Step+1)
		plan, broken = p, b
		return true
	}
	for again := true; again; {
		again = false
		for f := Faults(1); f < end; f <<= 1 {
			if p := plan; p.Without&f == 0 {
				p.Without |= f
				try(p)
			}
		}
		for cut := plan.Steps / 2; cut > 0; {
			if p := plan; cut <= p.Steps {
				if p.Steps -= cut; try(p) {
					again = true
					continue
				}
			}
			cut /= 2
		}
	}
	return plan, broken
}

// TestSameSeedSameRun shows that a seed says everything.
func TestSameSeedSameRun(t *testing.T) {
	for s := range uint64(5) {
		var one, other Stats
		a, b := run(t, Plan{s + 1, 300, None}, &one), run(t, Plan{s + 1, 300, None}, &other)
		if fmt.Sprint(a, one) != fmt.Sprint(b, other) {
			t.Fatalf("seed %d:\n%v %+v\n%v %+v", s+1, a, one, b, other)
		}
	}
}

// TestLimitsAreRead shows that the limits of the simulation are some that a log may set.
func TestLimitsAreRead(t *testing.T) {
	for i := range limits {
		var ev events.Event
		if err := events.Decode(pump.LimitsRecord(limits[i], pumptest.Start), &ev); err != nil {
			t.Fatal(err)
		}
		if got, err := parseLimits(ev.Limits); err != nil || got.Version != limits[i].Version {
			t.Errorf("limits %d: version %s, %v", i, got.Version, err)
		}
	}
}
