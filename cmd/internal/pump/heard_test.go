package pump

import (
	"fmt"
	"testing"
	"time"

	"weir/events"
)

// TestHeardIsBounded hears of more flows with old events than are kept, until some fall silent.
func TestHeardIsBounded(t *testing.T) {
	const idle = 10 * time.Minute
	var h heard
	at := events.Stamp(1_800_000_000_000)
	old := func(flow int) {
		h.note(fmt.Sprint(flow), &events.Event{Appended: at}, at.Add(-24*time.Hour), idle)
	}
	for i := range mostHeard {
		old(i)
	}
	if h.dropped != 0 || len(h.flows) != mostHeard {
		t.Fatalf("%d flows, dropped %v", len(h.flows), h.dropped)
	}
	at = at.Add(time.Minute)
	old(mostHeard)
	if h.dropped != at || len(h.flows) != mostHeard {
		t.Errorf("beyond the bound: %d flows, dropped %v", len(h.flows), h.dropped)
	}
	old(0) // which is known
	at = at.Add(idle - time.Second)
	old(mostHeard)
	if _, known := h.flows["0"]; len(h.flows) != 2 || !known {
		t.Errorf("%d flows once others have fallen silent, want 2", len(h.flows))
	}
	// By an event in time a flow is like any other.
	h.note("0", &events.Event{Appended: at}, at, idle)
	if len(h.flows) != 1 {
		t.Errorf("%d flows, want 1", len(h.flows))
	}
}
