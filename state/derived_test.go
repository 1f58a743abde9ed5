package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/state"
)

// kill returns a copy of a store as a kill of the process would leave it.
func kill(t *testing.T, dir string, o state.Options) *state.Store {
	t.Helper()
	image := t.TempDir()
	must(t, copySparse(dir, image))
	return open(t, image, o)
}

// What is appended to a derived log is there at once, costs no write, and is durable with what is
// written next. What a kill takes back is the end of it alone, and its offsets are given again.
func TestDerived(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	journal, derived := s.Journal(0), s.Derived(1)
	appendTo(t, journal, "event")
	before := state.Transactions(s)
	for i, v := range []string{"one", "two", "three"} {
		if at := appendTo(t, derived, v); at != int64(i) {
			t.Errorf("%s is at %d", v, at)
		}
	}
	equal(t, "at once", read(t, derived, 0, 10), []string{"one", "two", "three"})
	equal(t, "from the middle", read(t, derived, 1, 1), []string{"two"})
	if n := state.Transactions(s) - before; n != 0 {
		t.Errorf("they took %d transactions", n)
	}
	killed := kill(t, dir, small())
	equal(t, "after a kill", read(t, killed.Derived(1), 0, 10), nil)
	if at := appendTo(t, killed.Derived(1), "other"); at != 0 {
		t.Errorf("the first one after it is at %d", at)
	}

	appendTo(t, journal, "next")
	appendTo(t, s.Verdicts(0), "verdict")
	if n := state.Transactions(s) - before; n != 1 {
		t.Errorf("with the next they took %d transactions", n)
	}
	appendTo(t, derived, "four")
	killed = kill(t, dir, small())
	equal(t, "after a later kill", read(t, killed.Derived(1), 0, 10), []string{"one", "two", "three"})
	equal(t, "what came with it", read(t, killed.Journal(0), 0, 10), []string{"event", "next"})

	must(t, s.Close())
	s = open(t, dir, small())
	equal(t, "after an end", read(t, s.Derived(1), 0, 10), []string{"one", "two", "three", "four"})
	if at := appendTo(t, s.Derived(1), "five"); at != 4 {
		t.Errorf("five is at %d", at)
	}
}

// roomy returns options with a disk that has room as the next looks shall find, and after those
// all that there can be.
func roomy() (o state.Options, next func(free ...int64)) {
	var mu sync.Mutex
	var left []int64
	o = state.WithFree(small(), func(string) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(left) == 0 {
			return math.MaxInt64, nil
		}
		free := left[0]
		left = left[1:]
		return free, nil
	})
	return o, func(free ...int64) {
		mu.Lock()
		defer mu.Unlock()
		left = free
	}
}

// While the disk is full nothing that was queued behind a derived entry becomes durable without
// it, though there were room for that alone; later all of it is.
func TestDerivedOnAFullDisk(t *testing.T) {
	for _, room := range [][]int64{{0, math.MaxInt64}, {math.MaxInt64, 0}} { // for each of two transactions
		o, next := roomy()
		dir := t.TempDir()
		s := open(t, dir, o)
		derived := s.Derived(1)
		// Together they are too much for one transaction.
		one := strings.Repeat("1", 100<<10)
		appendTo(t, derived, one)
		large := &state.Checkpoint{Partition: 0}
		most, _ := s.MaxCheckpoint()
		for left := most - 50<<10; left > 0; {
			r := state.Record{Subject: state.FlowSubject, Key: fmt.Sprint(left), Value: bytes.Repeat([]byte{1}, 10<<10)}
			large.Records = append(large.Records, r)
			bytes, _ := r.Size()
			left -= bytes
		}
		next(room...)
		if err := s.Commit(large); !errors.Is(err, state.ErrDiskLow) {
			t.Errorf("the checkpoint said %v", err)
		}
		if got := read(t, derived, 0, 10); len(got) != 1 || got[0] != one {
			t.Errorf("meanwhile there are %d entries", len(got))
		}
		if _, ok, err := kill(t, dir, small()).Meta(0); ok || err != nil {
			t.Errorf("a checkpoint is there without what it was made of: %v, %v", ok, err)
		}
		next()
		appendTo(t, derived, "two")
		must(t, s.Commit(large))
		killed := kill(t, dir, small())
		if got := read(t, killed.Derived(1), 0, 10); len(got) != 2 || got[0] != one || got[1] != "two" {
			t.Errorf("later there are %d entries", len(got))
		}
		if _, ok, err := killed.Meta(0); !ok || err != nil {
			t.Errorf("the checkpoint is not there: %v, %v", ok, err)
		}
	}
}

// Of one append a part may be written when the disk gets full. The rest stays in memory, however
// much that is, and is written behind it.
func TestDerivedInPart(t *testing.T) {
	o, next := roomy()
	s := open(t, t.TempDir(), o)
	derived := s.Derived(1)
	var values []string
	for i := range 12 {
		values = append(values, fmt.Sprint(i, strings.Repeat(" ", 300<<10)))
	}
	appendTo(t, derived, values...)
	check := func(when string) {
		t.Helper()
		if got := read(t, derived, 0, len(values)); !slices.Equal(got, values) {
			t.Errorf("%s there are %d entries", when, len(got))
		}
	}
	next(math.MaxInt64, 0)
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("event")}}); !errors.Is(err, state.ErrDiskLow) {
		t.Errorf("an append behind it said %v", err)
	}
	check("in part")
	next()
	appendTo(t, s.Journal(0), "event")
	check("later")
}

// An appender that continues gets its entries written once much has gathered, and learns when that fails.
func TestMuchDerived(t *testing.T) {
	free := int64(math.MaxInt64)
	s := open(t, t.TempDir(), state.WithFree(small(), func(string) (int64, error) { return free, nil }))
	derived := s.Derived(1)
	value := strings.Repeat("x", 10<<10)
	before := state.Transactions(s)
	for range 100 {
		appendTo(t, derived, value)
	}
	if n := state.Transactions(s) - before; n < 2 || n > 20 {
		t.Errorf("100 entries of 10 KiB took %d transactions", n)
	}
	free = 0
	n := 0
	for ; n < 100; n++ {
		if _, err := derived.Append([]state.Entry{{Value: []byte(value)}}); errors.Is(err, state.ErrDiskLow) {
			break
		}
	}
	if n == 100 {
		t.Error("no caller got the error of the full disk")
	}
	if end := derived.End(); end != int64(100+n) {
		t.Errorf("the log ends at %d, want %d", end, 100+n)
	}
	free = math.MaxInt64
}

// Readers of a derived log find every entry once and in order, wherever it is: in memory, in the
// database, or on its way there; and the segments that it is in expire as those of others do.
func TestReadDerived(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_000_000, 0)
	o := small()
	o.JournalTTL = time.Hour
	o = state.WithClock(o, func() time.Time { mu.Lock(); defer mu.Unlock(); return now }, 256<<10)
	s := open(t, t.TempDir(), o)
	derived := s.Derived(1)
	const entries = 3000
	var working sync.WaitGroup
	for range 2 {
		working.Go(func() {
			for next := int64(0); next < entries; {
				first, got, err := state.ReadOn(derived.Read, next, 100, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for next = first; len(got) > 0; got = got[1:] {
					if e := got[0]; e.Offset != next || !strings.HasPrefix(string(e.Value), fmt.Sprint(e.Offset, " ")) {
						t.Errorf("entry %d is at %d and begins with %.10q", next, e.Offset, e.Value)
						return
					}
					next++
				}
				if next == derived.End() && next < entries {
					<-derived.Ready(next)
				}
			}
		})
	}
	for i := range entries {
		appendTo(t, derived, fmt.Sprint(i, strings.Repeat(" ", 1000)))
		if i%7 == 0 {
			appendTo(t, s.Journal(0), "event")
		}
		if i%100 == 0 {
			mu.Lock()
			now = now.Add(time.Minute)
			mu.Unlock()
		}
	}
	working.Wait()
	if n := len(read(t, derived, 0, entries)); n != entries {
		t.Errorf("%d entries are read at once", n)
	}
	mu.Lock()
	now = now.Add(3 * time.Hour)
	mu.Unlock()
	appendTo(t, derived, "new")
	for range 2 { // the first begins a segment, with the second the old ones may go
		appendTo(t, s.Verdicts(0), "verdict")
		mu.Lock()
		now = now.Add(3 * time.Hour)
		mu.Unlock()
	}
	appendTo(t, derived, "newer")
	appendTo(t, s.Verdicts(0), "verdict")
	first, got, err := state.ReadOn(derived.Read, 0, 10, nil)
	must(t, err)
	if first < entries || len(got) == 0 || !slices.ContainsFunc(got, func(e state.Entry) bool { return string(e.Value) == "newer" }) {
		t.Errorf("the log begins at %d with %d entries", first, len(got))
	}
}
