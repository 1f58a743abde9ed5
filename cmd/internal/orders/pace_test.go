package orders

import (
	"fmt"
	"testing"
	"time"

	"weir/events"
)

// TestPace holds the interval of guards, and that their heartbeats come together.
func TestPace(t *testing.T) {
	const begin = events.Stamp(1_795_000_000_000)
	for _, c := range []struct {
		guards int
		holds  bool
		want   time.Duration
	}{
		{1, false, BeatIdle},
		{FewGuards + 1, false, BeatIdle},
		{1, true, BeatEvery},
		{FewGuards - 1, true, BeatEvery},
		{FewGuards, true, BeatEvery},
		{FewGuards + 1, true, BeatMany},
	} {
		for off, late := range map[int64]int64{0: 0, 1: 1, 249: 249, 250: -250, 251: -249, 499: -1} {
			var p pace
			now := begin.Add(time.Duration(off) * time.Millisecond)
			if got, want := p.next(now, c.guards, c.holds, false), c.want-time.Duration(late)*time.Millisecond; got != want {
				t.Errorf("%d guards, holds %v, %d ms behind a slot: %v, want %v", c.guards, c.holds, off, got, want)
			}
		}
	}
	// A heartbeat that takes some time stays in its slot, and one that comes a little early, too.
	for _, takes := range []time.Duration{-time.Millisecond, 0, 80 * time.Millisecond} {
		var p pace
		at := begin.Add(123 * time.Millisecond)
		for range 5 {
			at = at.Add(p.next(at, 1, true, false) + takes)
		}
		if want := begin.Add(5*BeatEvery + takes); at != want {
			t.Errorf("by %v a heartbeat comes %v from its slot", takes, at.Sub(want))
		}
	}
	// Guards that all begin at one moment get all slots of the interval, each as often as another one.
	var p pace
	slots := map[time.Duration]int{}
	for range 4 * int(BeatMany/beatSlot) {
		slots[p.next(begin, FewGuards+1, true, true)]++
	}
	for at := beatSlot; at <= BeatMany; at += beatSlot {
		if slots[at] != 4 {
			t.Errorf("%d guards after %v, want 4", slots[at], at)
		}
	}
	if len(slots) != int(BeatMany/beatSlot) {
		t.Errorf("slots are %v", slots)
	}
}

// TestALostHeartbeatCutsNoGuardOff is about the longest interval, a heartbeat that gets no answer in a second,
// and the quarter of a second until the guard sends it again.
func TestALostHeartbeatCutsNoGuardOff(t *testing.T) {
	if longest := BeatMany + beatSlot/2 + time.Second + 250*time.Millisecond; longest > Silent {
		t.Errorf("a guard that has lost a heartbeat is silent for %v, and counts as cut off after %v", longest, Silent)
	}
}

// TestGuardsKeepTheirSlots gives a slot in turn to guards that hold other orders than before. Other guards keep
// their slots.
func TestGuardsKeepTheirSlots(t *testing.T) {
	const now = events.Stamp(1_795_000_000_000)
	var g Guards
	read := func(inFlight int, held ...string) time.Duration {
		b := Beat{Guard: "shop", Instance: "1", Language: "go", Held: held, InFlight: inFlight}
		return g.Read("p", fmt.Append(nil, inFlight, held), b, now)
	}
	for i, got := range []time.Duration{read(0), read(1), read(2, "v-1"), read(3, "v-1"), read(4, "v-2"), read(5, "v-2", "w-1"), read(6)} {
		if want := []time.Duration{BeatIdle, BeatIdle, BeatEvery, BeatEvery, BeatEvery - beatSlot, BeatEvery - 2*beatSlot, BeatIdle - 3*beatSlot}[i]; got != want {
			t.Errorf("heartbeat %d: %v, want %v", i, got, want)
		}
	}
	read(5, "v-2", "w-1")
	if next, ok := g.Again("p", fmt.Append(nil, 5, []string{"v-2", "w-1"}), now); !ok || next != BeatEvery {
		t.Errorf("a heartbeat that repeats: %v %v", next, ok)
	}
	for n := range FewGuards {
		g.Heard("p", Beat{Guard: "many", Instance: fmt.Sprint(n)}, now)
	}
	if next, _ := g.Again("p", fmt.Append(nil, 5, []string{"v-2", "w-1"}), now); next != BeatMany {
		t.Errorf("among %d guards: %v", len(g.byName), next)
	}
}
