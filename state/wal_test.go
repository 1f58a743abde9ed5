package state_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/state"
)

// A few events at a time take no transaction and are there after a kill, in their order with what
// was written into the database; so they are after an end, and after they were opened twice.
func TestAhead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	before := state.Transactions(s)
	var want []string
	event := func(values ...string) {
		t.Helper()
		if at := appendTo(t, s.Journal(0), values...); at != int64(len(want)) {
			t.Errorf("%.10q is at %d, want %d", values, at, len(want))
		}
		want = append(want, values...)
	}
	is := func(when string) {
		t.Helper()
		equal(t, when, read(t, s.Journal(0), 0, 100), want)
		killed := kill(t, dir, small())
		equal(t, when+", killed", read(t, killed.Journal(0), 0, 100), want)
		if end := killed.Journal(0).End(); end != int64(len(want)) {
			t.Errorf("%s the log ends at %d, want %d", when, end, len(want))
		}
	}
	event("one")
	event("two", "three")
	is("ahead")
	if n := state.Transactions(s) - before; n != 0 {
		t.Errorf("they took %d transactions", n)
	}
	large := strings.Repeat("x", 100<<10)
	event(large, "five") // which takes along what is there
	is("behind a large one")
	if n := state.Transactions(s) - before; n != 1 {
		t.Errorf("with a large one they took %d transactions", n)
	}
	event("six")
	is("ahead again")
	appendTo(t, s.Verdicts(0), "verdict")
	is("behind a verdict")
	event("seven")
	must(t, s.Close())
	s = open(t, dir, small())
	is("after an end")
	event("eight")
	for range 2 { // which takes in again what was never written
		dir2 := t.TempDir()
		must(t, copySparse(dir, dir2))
		s, dir = open(t, dir2, small()), dir2
		is("opened after a kill")
		event("nine")
	}
}

// Many that come alone are written into the database now and then, and from there they are read,
// whether they wait for the disk or not.
func TestMuchAhead(t *testing.T) {
	for _, add := range []func(*state.Log, []state.Entry) (int64, error){(*state.Log).Append, (*state.Log).AppendUnsynced} {
		dir := t.TempDir()
		s := open(t, dir, never(small()))
		before := state.Transactions(s)
		const events = 2000
		for i := range events {
			if _, err := add(s.Journal(0), []state.Entry{{Value: []byte(fmt.Sprint(i, strings.Repeat(" ", 500)))}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := state.Transactions(s) - before; n < 2 || n > events/50 {
			t.Errorf("they took %d transactions", n)
		}
		for _, s := range []*state.Store{s, kill(t, dir, small())} {
			for i, v := range read(t, s.Journal(0), 0, events) {
				if strings.TrimSpace(v) != fmt.Sprint(i) {
					t.Fatalf("event %d is %.10q", i, v)
				}
			}
			if end := s.Journal(0).End(); end != events {
				t.Errorf("the log ends at %d", end)
			}
		}
	}
}

// On a full disk nothing is written ahead either, for it could not go into the database.
func TestWALOnAFullDisk(t *testing.T) {
	free := int64(math.MaxInt64)
	dir := t.TempDir()
	s := open(t, dir, state.WithFree(small(), func(string) (int64, error) { return free, nil }))
	appendTo(t, s.Journal(0), "one")
	free = 0
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("two")}}); !errors.Is(err, state.ErrDiskLow) {
		t.Errorf("got %v, want ErrDiskLow", err)
	}
	equal(t, "on a full disk", read(t, kill(t, dir, small()).Journal(0), 0, 10), []string{"one"})
	free = math.MaxInt64
	if at := appendTo(t, s.Journal(0), "three"); at != 1 {
		t.Errorf("the next one is at %d", at)
	}
}

// What could not be written is not acknowledged, and nothing is after it.
func TestWALFails(t *testing.T) {
	dir := t.TempDir()
	s, err := state.Open(dir, small())
	must(t, err)
	defer s.Close()
	appendTo(t, s.Journal(0), "one")
	must(t, state.BreakWAL(s))
	for range 2 {
		if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("two")}}); !errors.Is(err, state.ErrFailed) {
			t.Errorf("got %v, want ErrFailed", err)
		}
	}
	equal(t, "there", read(t, s.Journal(0), 0, 10), []string{"one"})
	equal(t, "after a kill", read(t, kill(t, dir, small()).Journal(0), 0, 10), []string{"one"})
}

// Missing acknowledged data is reported, and so is a file that was removed or replaced while it
// was in use.
func TestWALMissing(t *testing.T) {
	f := func(what string, add func(*state.Log, []state.Entry) (int64, error), harm func(path string) error) {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, small())
			appendTo(t, s.Journal(0), "one")
			appendTo(t, s.Journal(0), "two")
			image := t.TempDir()
			must(t, copySparse(dir, image))
			must(t, harm(filepath.Join(image, "journal.wal")))
			for range 2 { // and not only the first time
				if _, err := state.Open(image, small()); !errors.Is(err, state.ErrDamaged) {
					t.Errorf("an open said %v, want ErrDamaged", err)
				}
			}
			if add == nil { // the process with the open file continues
				return
			}
			must(t, harm(filepath.Join(dir, "journal.wal")))
			if _, err := add(s.Journal(0), []state.Entry{{Value: []byte("three")}}); !errors.Is(err, state.ErrDamaged) {
				t.Errorf("an append said %v, want ErrDamaged", err)
			}
		})
	}
	f("removed", (*state.Log).Append, os.Remove)
	f("removed, and nobody waits for the disk", (*state.Log).AppendUnsynced, os.Remove)
	f("replaced", (*state.Log).Append, func(path string) error {
		return errors.Join(os.WriteFile(path+"2", nil, 0o600), os.Rename(path+"2", path))
	})
	f("cut", nil, func(path string) error { return os.Truncate(path, 4<<10) })
	f("flipped", nil, func(path string) error {
		b, err := os.ReadFile(path)
		b[4<<10+34] ^= 1 // of the second event
		return errors.Join(err, os.WriteFile(path, b, 0o600))
	})
}
