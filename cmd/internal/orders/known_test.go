package orders

import (
	"log/slog"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
)

// cursors keeps values in memory.
type cursors map[string][]byte

func (c cursors) Cursor(name string) ([]byte, bool, error) { v, ok := c[name]; return v, ok, nil }

func (c cursors) SetCursor(name string, value []byte) error { c[name] = value; return nil }

// TestKnownGuards holds that a process that was killed names the guards that it knew before, until each
// is heard, ends in order, or is silent for so long that it is forgotten.
func TestKnownGuards(t *testing.T) {
	const verdict = "0123456789abcdef-1"
	c, at := cursors{}, events.Stamp(1_795_000_000_000)
	begin := func() *Known {
		k := &Known{Cursors: c, Guards: new(Guards), Clock: clock.NewFake(), Logger: slog.New(slog.DiscardHandler)}
		if err := k.Load(); err != nil {
			t.Fatal(err)
		}
		return k
	}
	beat := func(k *Known, name string, closed bool) {
		k.Guards.Heard("p", Beat{Guard: name, Instance: "i", Language: "go", Held: []string{verdict}, Closed: closed}, at)
		if err := k.save(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(k *Known, guards int, missing ...string) {
		t.Helper()
		got := k.Guards.Confirm(verdict, true, at)
		var names []string
		for _, m := range got.Missing {
			names = append(names, m.Guard)
		}
		if got.Guards != guards || len(names) != len(missing) {
			t.Fatalf("%d guards have confirmed, %v are missing; want %d, %v", got.Guards, names, guards, missing)
		}
		for i := range names {
			if names[i] != missing[i] {
				t.Errorf("%v are missing, want %v", names, missing)
			}
		}
	}
	k := begin()
	beat(k, "a", false)
	beat(k, "b", false)
	beat(k, "c", false)
	beat(k, "c", true)
	want(k, 2)
	k = begin() // killed
	want(k, 0, "a", "b")
	beat(k, "b", false)
	want(k, 1, "a")
	k = begin()
	want(k, 0, "a", "b")
	at = at.Add(forgotten + time.Second)
	want(k, 0)
}
