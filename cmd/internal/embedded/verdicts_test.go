package embedded

import (
	"testing"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// TestEmitAgain calls Emit with verdicts of which the log has taken some before it failed.
func TestEmitAgain(t *testing.T) {
	store := pumptest.OpenState(t)
	log := store.Verdicts(0)
	l := &verdictLog{log: log, clock: clock.NewFake()}
	verdicts := []pump.Emitted{{Verdict: events.Verdict{ID: "1", Action: "deny"}, Offset: 5}, {Verdict: events.Verdict{ID: "2", Action: "deny"}, Offset: 5}, {Verdict: events.Verdict{ID: "3", Action: "deny"}, Offset: 6}}
	if end, err := l.Emit(t.Context(), verdicts[:1]); err != nil || end != 1 {
		t.Fatal(end, err)
	}
	l.again, l.from = true, 0 // as if all three had been tried, and the first alone was taken
	if end, err := l.Emit(t.Context(), verdicts); err != nil || end != 3 {
		t.Fatal(end, err)
	}
	var ids []string
	var last int64
	end, err := l.Since(t.Context(), 0, func(id string, trigger int64) { ids, last = append(ids, id), trigger })
	if err != nil || end != 3 || last != 6 || len(ids) != 3 || ids[0] != "1" || ids[2] != "3" {
		t.Errorf("ids %q up to %d, trigger %d, %v", ids, end, last, err)
	}
	if end, err := l.Emit(t.Context(), nil); err != nil || end != 3 {
		t.Error(end, err)
	}
}
