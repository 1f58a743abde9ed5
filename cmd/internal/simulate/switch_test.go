package simulate

import (
	"testing"
	"testing/synctest"
)

// TestSwitchSimulation runs orders by hand, their receipts and guards, with members that are cut off,
// heartbeats that are lost and guards that start anew.
func TestSwitchSimulation(t *testing.T) {
	from, n := *first, *seeds
	switch {
	case *seed != 0:
		from, n = *seed, 1
	case n == 0:
		n = 200
	}
	stats := new(SwitchStats)
	for s := from; s < from+uint64(n); s++ {
		broken := ""
		synctest.Test(t, func(*testing.T) {
			broken = RunSwitch(Plan{Seed: s, Steps: *steps, Without: without}, synctest.Wait, stats)
		})
		if broken != "" {
			t.Fatalf("seed %d breaks: %s\nagain: go test ./cmd/internal/simulate -run TestSwitchSimulation -seed %d -steps %d", s, broken, s, *steps)
		}
	}
	t.Logf("%d runs: %+v", n, *stats)
	if n >= 100 && (stats.Complete == 0 || stats.Refused == 0 || stats.Releases == 0 || stats.Restarts == 0 || stats.Moves == 0) {
		t.Error("the runs try nothing")
	}
}
