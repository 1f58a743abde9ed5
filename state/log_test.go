package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/events"
	"weir/state"
)

func TestLog(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		j, v := s.Journal(7), s.Verdicts(7)
		if j != s.Journal(7) || j == s.Journal(8) {
			t.Fatal("a log must be the same object for its partition, and no other")
		}
		if first := appendTo(t, j, "a", "b", "c"); first != 0 {
			t.Fatalf("first offset is %d", first)
		}
		if first := appendTo(t, j, "d", ""); first != 3 {
			t.Fatalf("first offset of the second append is %d", first)
		}
		appendTo(t, v, "verdict")
		appendTo(t, s.Journal(6), "x")
		appendTo(t, s.Journal(8), "y")

		equal(t, "all", read(t, j, 0, 100), []string{"a", "b", "c", "d", ""})
		equal(t, "limited", read(t, j, 1, 2), []string{"b", "c"})
		equal(t, "end", read(t, j, 5, 100), nil)
		equal(t, "nothing wanted", read(t, j, 0, 0), nil)
		equal(t, "verdicts", read(t, v, 0, 100), []string{"verdict"})
		if j.End() != 5 || v.End() != 1 || s.Journal(9).End() != 0 {
			t.Fatalf("ends are %d, %d, %d", j.End(), v.End(), s.Journal(9).End())
		}

		dst := make([]state.Entry, 1, 8)
		dst, err := j.Read(2, 1, dst)
		must(t, err)
		want := state.Entry{Offset: 2, Appended: 1002, Trigger: 2, Value: []byte("c")}
		if len(dst) != 2 || dst[1].Offset != want.Offset || dst[1].Appended != want.Appended || dst[1].Trigger != want.Trigger || !bytes.Equal(dst[1].Value, want.Value) {
			t.Fatalf("got %+v", dst)
		}
		if first, err := j.Append(nil); err != nil || first != 5 {
			t.Fatalf("append of nothing: %d, %v", first, err)
		}
		for _, from := range []int64{-1, 6, math.MaxInt64} {
			if _, err := j.Read(from, 1, nil); !errors.Is(err, state.ErrDamaged) {
				t.Fatalf("read from %d: %v", from, err)
			}
		}
	})
}

// TestReadGivesNoRoom holds that who appends to a value that was read writes over nothing: what stands
// behind it may be what is to be written, or the next value.
func TestReadGivesNoRoom(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		j := s.Journal(7)
		appendTo(t, j, "a", "b", "c")
		_, err := j.AppendUnsynced([]state.Entry{{Value: []byte("d")}, {Value: []byte("e")}})
		must(t, err)
		entries, err := j.Read(0, 100, nil)
		must(t, err)
		for _, e := range entries {
			if cap(e.Value) != len(e.Value) {
				t.Errorf("entry %d has room for %d bytes behind it", e.Offset, cap(e.Value)-len(e.Value))
			}
		}
		equal(t, "all", read(t, j, 0, 100), []string{"a", "b", "c", "d", "e"})
	})
}

func TestLogIsDenseAfterReopen(t *testing.T) {
	dir := t.TempDir()
	want := []string(nil)
	for i := range 4 {
		s := open(t, dir, small())
		j := s.Journal(1)
		if j.End() != int64(2*i) {
			t.Fatalf("end is %d after %d runs", j.End(), i)
		}
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		appendTo(t, j, a, b)
		want = append(want, a, b)
		equal(t, "journal", read(t, j, 0, 100), want)
		closeStore(t, s)
	}
}

// clock is a wall clock that tests set.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// wantGap fails unless the entries from from to goOn have expired.
func wantGap(t testing.TB, l *state.Log, from, goOn int64) {
	t.Helper()
	var g *state.GapError
	got, err := l.Read(from, 10, nil)
	if !errors.As(err, &g) || g.From != from || g.To != goOn || len(got) != 0 || !strings.Contains(g.Error(), fmt.Sprint("go on at ", goOn)) {
		t.Fatalf("read from %d: %v, %v; want a gap to %d", from, got, err, goOn)
	}
	if first, _, err := state.ReadOn(l.Read, from, 10, nil); err != nil || first != goOn {
		t.Fatalf("read on from %d: begins at %d, %v; want %d", from, first, err, goOn)
	}
}

// Entries go when a whole segment is old enough, and their offsets are not given again.
func TestLogExpires(t *testing.T) {
	inBothWith(t, func(t *testing.T, dir string) {
		var c clock
		c.ms.Store(1_000_000)
		o := state.WithClock(small(), c.now, 1000)
		o.JournalTTL = time.Hour
		hour := o.JournalTTL.Milliseconds()
		s := open(t, dir, o)
		j, v := s.Journal(1), s.Verdicts(1)
		full := strings.Repeat("x", 1000)

		appendTo(t, j, "0", "1", full) // segment 1 is full
		appendTo(t, j, "3", full)      // segment 2 as well
		c.ms.Add(hour / 2)
		appendTo(t, v, "v0")
		appendTo(t, j, "5") // segment 3
		equal(t, "all", read(t, j, 0, 10), []string{"0", "1", full, "3", full, "5"})
		equal(t, "across segments", read(t, j, 2, 2), []string{full, "3"})
		equal(t, "segments", state.SegmentsStored(s), []uint32{1, 2, 3})

		c.ms.Add(hour/2 - 1) // segment 2 was begun an hour less 1 ms ago
		appendTo(t, v, "v1") // it is time for segment 4
		equal(t, "nothing is old enough", read(t, j, 0, 10), []string{"0", "1", full, "3", full, "5"})
		c.ms.Add(1)
		appendTo(t, v, "v2")
		must(t, s.SetCursor("c", nil)) // the writer has been past its trimming
		wantGap(t, j, 0, 3)
		wantGap(t, j, 1, 3)
		equal(t, "rest", read(t, j, 3, 10), []string{"3", full, "5"})
		equal(t, "segments", state.SegmentsStored(s), []uint32{2, 3, 4})

		c.ms.Add(hour)
		appendTo(t, v, "v3")
		must(t, s.SetCursor("c", nil))
		wantGap(t, j, 0, 6)
		wantGap(t, j, 5, 6)
		equal(t, "nothing new", read(t, j, 6, 10), nil)
		wantGap(t, v, 0, 1)
		equal(t, "verdicts", read(t, v, 1, 10), []string{"v1", "v2", "v3"})
		if dir != "" {
			closeStore(t, s)
			s = open(t, dir, o)
			j, v = s.Journal(1), s.Verdicts(1)
			wantGap(t, j, 2, 6)
			equal(t, "verdicts", read(t, v, 1, 10), []string{"v1", "v2", "v3"})
		}
		if first := appendTo(t, j, "6"); first != 6 {
			t.Fatalf("offset %d is given again", first)
		}
		wantGap(t, j, 0, 6)
		equal(t, "new", read(t, j, 6, 10), []string{"6"})
	})
}

// A clock that is wrong for a while does not make entries go early.
func TestLogKeepsWhenClockIsWrong(t *testing.T) {
	inBothWith(t, func(t *testing.T, dir string) {
		var c clock
		o := state.WithClock(small(), c.now, 1)
		o.JournalTTL = time.Hour
		hour := o.JournalTTL.Milliseconds()
		s := open(t, dir, o)
		put := func(at int64, value string) {
			t.Helper()
			c.ms.Store(at)
			appendTo(t, s.Journal(0), value)
			must(t, s.SetCursor("c", nil)) // the writer has been past its trimming
		}
		put(1000*hour, "0")
		put(1, "1") // behind
		put(2, "2")
		put(1000*hour+1, "3")
		put(1001*hour-1, "4")
		equal(t, "all", read(t, s.Journal(0), 0, 10), []string{"0", "1", "2", "3", "4"})
		put(2000*hour, "5") // ahead
		wantGap(t, s.Journal(0), 0, 4)
		put(1002*hour, "6")
		put(1500*hour, "7")
		if dir != "" {
			closeStore(t, s)
			s = open(t, dir, o)
		}
		put(2001*hour-1, "8")
		equal(t, "since", read(t, s.Journal(0), 4, 10), []string{"4", "5", "6", "7", "8"})
		put(2001*hour, "9")
		wantGap(t, s.Journal(0), 0, 7)
	})
}

// A clock that is set while the store is open removes nothing that is young, and what is old
// goes all the same, whether it was ahead or is behind by then.
func TestLogKeepsWhenClockIsSet(t *testing.T) {
	inBothWith(t, func(t *testing.T, dir string) {
		var wall, running clock
		wall.ms.Store(1_000_000)
		uptime := func() time.Duration { return time.Duration(running.ms.Load()) * time.Millisecond }
		o := state.WithSetClock(small(), wall.now, uptime, 1)
		o.JournalTTL = time.Hour
		hour := o.JournalTTL.Milliseconds()
		s := open(t, dir, o)
		put := func(value string, set, runs int64) {
			t.Helper()
			wall.ms.Add(set + runs)
			running.ms.Add(runs)
			appendTo(t, s.Journal(0), value)
			must(t, s.SetCursor("c", nil)) // the writer has been past its trimming
		}
		put("0", 0, 0)
		put("1", 1000*hour, 0)
		put("2", 0, hour-1)
		equal(t, "while it is ahead", read(t, s.Journal(0), 0, 10), []string{"0", "1", "2"})
		put("3", -2000*hour, 0)
		put("4", 0, 1)
		wantGap(t, s.Journal(0), 0, 1)
		put("5", 0, hour-1)
		wantGap(t, s.Journal(0), 0, 3)
		equal(t, "while it is behind", read(t, s.Journal(0), 3, 10), []string{"3", "4", "5"})
	})
}

// Expired segments go also below the floor, because nothing else makes room.
func TestLogExpiresBelowFloor(t *testing.T) {
	var c clock
	var free atomic.Int64
	free.Store(math.MaxInt64)
	o := state.WithFree(small(), func(string) (int64, error) { return free.Load(), nil })
	o = state.WithClock(o, c.now, 1)
	o.MinFree, o.JournalTTL = 100<<20, time.Hour
	s := open(t, t.TempDir(), o)
	appendTo(t, s.Journal(1), "0")
	appendTo(t, s.Journal(1), "1")
	c.ms.Add(time.Hour.Milliseconds())
	f := func(n int64, want ...uint32) {
		t.Helper()
		free.Store(n)
		for range 2 { // the second waits until the writer has trimmed after the first
			if err := s.SetCursor("c", nil); !errors.Is(err, state.ErrDiskLow) {
				t.Fatal(err)
			}
		}
		equal(t, "segments", state.SegmentsStored(s), want)
	}
	f(50<<20-1, 1, 2)
	f(60<<20, 2)
}

// What a crash leaves of an expired segment goes at the next open.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	o := state.WithClock(small(), time.Now, 1)
	s := open(t, dir, o)
	for i := range 5 {
		appendTo(t, s.Journal(1), fmt.Sprint(i))
	}
	for _, kv := range state.AllStored(s, state.StartPrefix)[:3] {
		must(t, state.Stored{Key: kv.Key}.Store(s))
	}
	equal(t, "segments", state.SegmentsStored(s), []uint32{1, 2, 3, 4, 5})
	closeStore(t, s)
	s = open(t, dir, o)
	equal(t, "segments", state.SegmentsStored(s), []uint32{4, 5})
	wantGap(t, s.Journal(1), 0, 3)
	equal(t, "rest", read(t, s.Journal(1), 3, 10), []string{"3", "4"})
}

// A hole in a segment that is there is damage.
func TestLogHole(t *testing.T) {
	s := open(t, t.TempDir(), small())
	j := s.Journal(1)
	appendTo(t, j, "0", "1", "2", "3")
	entries := state.AllStored(s, state.EntryPrefix)
	f := func(hole, from int64) {
		t.Helper()
		must(t, state.Stored{Key: entries[hole].Key}.Store(s))
		got, err := j.Read(from, 10, nil)
		if !errors.Is(err, state.ErrDamaged) || int64(len(got)) != hole-from {
			t.Fatalf("%v, %v", got, err)
		}
		must(t, entries[hole].Store(s))
	}
	f(0, 0)
	f(2, 0)
	f(2, 2)
	f(3, 1)
	equal(t, "whole", read(t, j, 0, 10), []string{"0", "1", "2", "3"})
}

// Writes that come while a transaction is under way share the next one.
func TestGroupCommit(t *testing.T) {
	const callers = 100
	entered, release := make(chan struct{}, 1), make(chan struct{})
	blocking := false
	o := state.WithFree(small(), func(string) (int64, error) {
		if blocking {
			entered <- struct{}{}
			<-release
		}
		return math.MaxInt64, nil
	})
	s := open(t, t.TempDir(), o)
	j := s.Verdicts(0)
	blocking = true // nothing asks until the next write
	before := state.Transactions(s)

	var wg sync.WaitGroup
	firsts := make([]int64, callers)
	write := func(i int) {
		wg.Go(func() {
			var err error
			if firsts[i], err = j.Append([]state.Entry{{Value: []byte(fmt.Sprint(i))}, {Value: []byte(fmt.Sprint(i))}}); err != nil {
				t.Error(err)
			}
		})
	}
	write(0)
	<-entered
	for i := 1; i < callers; i++ {
		write(i)
	}
	wg.Go(func() {
		if err := s.Commit(&state.Checkpoint{Partition: 3, Next: 9}); err != nil {
			t.Error(err)
		}
	})
	for state.Queued(s) < callers {
		runtime.Gosched()
	}
	close(release)
	<-entered
	wg.Wait()

	if n := state.Transactions(s) - before; n != 2 {
		t.Fatalf("%d transactions for %d callers, want 2", n, callers+1)
	}
	values := read(t, j, 0, 1000)
	if len(values) != 2*callers {
		t.Fatalf("%d entries", len(values))
	}
	for i, first := range firsts {
		if want := fmt.Sprint(i); values[first] != want || values[first+1] != want {
			t.Fatalf("caller %d got %d, where there is %s, %s", i, first, values[first], values[first+1])
		}
	}
}

// Checkpoints that wait at the same time get a transaction each when they are large.
func TestLargeCheckpointsTogether(t *testing.T) {
	s := open(t, "", small())
	release := state.HoldWriter(s)
	maxBytes, _ := s.MaxCheckpoint()
	var wg sync.WaitGroup
	for p := range uint16(5) {
		c := &state.Checkpoint{Partition: p, Next: int64(p)}
		for i := range 6 {
			c.Records = append(c.Records, flow(fmt.Sprint(i), strings.Repeat("x", int(maxBytes)/10), 0, 0))
		}
		wg.Go(func() {
			if err := s.Commit(c); err != nil {
				t.Error(err)
			}
		})
	}
	for state.Queued(s) < 5 {
		runtime.Gosched()
	}
	before := state.Transactions(s)
	release()
	wg.Wait()
	if n := state.Transactions(s) - before; n != 6 { // and the one that was held
		t.Fatalf("%d transactions", n)
	}
	partitions, err := s.Partitions()
	must(t, err)
	equal(t, "partitions", partitions, []uint16{0, 1, 2, 3, 4})
}

func TestConcurrentAppendAndRead(t *testing.T) {
	const writers, each = 8, 200
	s := open(t, t.TempDir(), small())
	j := s.Journal(0)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := j.Append([]state.Entry{{Trigger: int64(w), Appended: events.Stamp(i)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]events.Stamp, writers) // what each writer has to have written next
	var entries []state.Entry
	for from := int64(0); from < writers*each; {
		<-j.Ready(from)
		var err error
		entries, err = j.Read(from, 50, entries[:0])
		must(t, err)
		if len(entries) == 0 {
			t.Fatalf("woken at %d for nothing", from)
		}
		for _, e := range entries {
			if e.Offset != from || e.Appended != next[e.Trigger] {
				t.Fatalf("at %d: got offset %d, entry %d of writer %d, want entry %d", from, e.Offset, e.Appended, e.Trigger, next[e.Trigger])
			}
			from, next[e.Trigger] = from+1, e.Appended+1
		}
	}
	wg.Wait()
}

// TestAppendBesideOtherWrites is for the race detector: appenders and other writers both change
// the list of segments.
func TestAppendBesideOtherWrites(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		var others sync.WaitGroup
		others.Go(func() {
			for range 100 {
				if err := s.SetCursor("file", []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
		for range 100 {
			appendTo(t, s.Journal(0), "x")
		}
		others.Wait()
	})
}

// An append that is larger than a transaction is split, in order and without a hole.
func TestLargeAppend(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		j := s.Journal(0)
		maxBytes, maxCount := s.MaxCheckpoint()
		before := state.Transactions(s)

		big := make([]state.Entry, 8*maxBytes/(500<<10))
		for i := range big {
			big[i].Value = bytes.Repeat([]byte{byte(i)}, 500<<10)
		}
		first, err := j.Append(big)
		must(t, err)
		if first != 0 || j.End() != int64(len(big)) {
			t.Fatalf("first %d, end %d of %d", first, j.End(), len(big))
		}
		many := make([]state.Entry, 2*maxCount)
		first, err = j.Append(many)
		must(t, err)
		if first != int64(len(big)) || j.End() != first+int64(len(many)) {
			t.Fatalf("first %d, end %d of %d", first, j.End(), len(many))
		}
		// In memory logs do without the database.
		if n := state.Transactions(s) - before; n < 5 && !state.InMemory(s) || n > 0 && state.InMemory(s) {
			t.Fatalf("%d transactions are too few", n)
		}
		total, calls := 0, 0
		for from := int64(0); from < int64(len(big)); calls++ {
			entries, err := j.Read(from, len(big)-int(from), nil)
			must(t, err)
			for _, e := range entries {
				if e.Offset != from || e.Value[0] != byte(from) || len(e.Value) != 500<<10 {
					t.Fatalf("entry %d: offset %d, first byte %d", from, e.Offset, e.Value[0])
				}
				from++
				total++
			}
		}
		if total != len(big) || calls < 2 {
			t.Fatalf("%d entries in %d reads", total, calls)
		}
	})
}

func TestAppendFrom(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		j := s.Journal(0)
		cursor := func(want string) {
			t.Helper()
			if v, ok, err := s.Cursor("c"); string(v) != want || !ok || err != nil {
				t.Fatalf("the cursor is %q, %v, %v, want %q", v, ok, err, want)
			}
		}
		before := state.Transactions(s)
		must(t, j.AppendFrom([]state.Entry{{Value: []byte("a")}, {Value: []byte("b")}}, "c", []byte("2")))
		cursor("2")
		must(t, j.AppendFrom(nil, "c", []byte("3")))
		cursor("3")
		if n := state.Transactions(s) - before; n != 2 || j.End() != 2 {
			t.Errorf("%d transactions, %d entries", n, j.End())
		}
		// What one transaction does not hold is split, and the cursor is in the last.
		maxBytes, _ := s.MaxCheckpoint()
		big := make([]state.Entry, 2*maxBytes/(500<<10))
		for i := range big {
			big[i].Value = make([]byte, 500<<10)
		}
		must(t, j.AppendFrom(big, "c", []byte("4")))
		cursor("4")
		if j.End() != 2+int64(len(big)) {
			t.Errorf("the log ends at %d", j.End())
		}
		for _, wrong := range []error{
			j.AppendFrom([]state.Entry{{Value: make([]byte, s.MaxValue()+1)}}, "c", nil),
			j.AppendFrom([]state.Entry{{Value: []byte("c")}}, strings.Repeat("n", state.MaxKey+1), nil),
		} {
			if !errors.Is(wrong, state.ErrTooLarge) {
				t.Errorf("too large: %v", wrong)
			}
		}
		if j.End() != 2+int64(len(big)) {
			t.Errorf("what was refused is in the log, which ends at %d", j.End())
		}
		entries, err := j.Read(0, 2, nil)
		if err != nil || len(entries) != 2 || string(entries[1].Value) != "b" {
			t.Errorf("%v, %v", entries, err)
		}
		cursor("4")
	})
}

func TestLogLimits(t *testing.T) {
	s := open(t, "", small())
	j := s.Journal(0)
	largest := make([]byte, s.MaxValue())
	if _, err := j.Append([]state.Entry{{Appended: math.MinInt64, Trigger: math.MinInt64, Value: largest}}); err != nil {
		t.Fatal(err)
	}
	_, err := j.Append([]state.Entry{{}, {Value: append(largest, 0)}})
	if !errors.Is(err, state.ErrTooLarge) || !strings.Contains(err.Error(), "entry 1") {
		t.Fatal(err)
	}
	if j.End() != 1 {
		t.Fatalf("end is %d", j.End())
	}
}

func TestReady(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		closed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		j := s.Journal(0)
		appendTo(t, j, "a")
		at0, at1, at2 := j.Ready(0), j.Ready(1), j.Ready(2)
		if !closed(at0) || closed(at1) || closed(at2) {
			t.Fatal("only what is there is ready")
		}
		appendTo(t, j, "b")
		if !closed(at1) {
			t.Fatal("the reader was not woken")
		}
		waiting := j.Ready(2)
		must(t, s.Close())
		if !closed(waiting) || !closed(j.Ready(2)) || !closed(s.Journal(5).Ready(0)) {
			t.Fatal("Close does not wake readers")
		}
		if _, err := j.Read(0, 1, nil); !errors.Is(err, state.ErrClosed) {
			t.Fatal(err)
		}
		if _, err := j.Append([]state.Entry{{}}); !errors.Is(err, state.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestRecordTTL(t *testing.T) {
	o := small()
	o.RecordTTL, o.JournalTTL = time.Hour, time.Hour
	s := open(t, t.TempDir(), o)
	from := time.Now()
	appendTo(t, s.Journal(0), "a")
	must(t, s.SetCursor("c", nil))
	must(t, s.Commit(&state.Checkpoint{Records: []state.Record{flow("k", "v", 5, 0), {Subject: state.AgentSubject, Key: "k", Value: []byte("v")}}}))
	seen := ""
	for _, kv := range state.AllStored(s, "") {
		switch kv.Key[0] {
		case 'f', 'a', 'd':
			seen += string(kv.Key[:1])
			at := time.Unix(int64(kv.Expires), 0)
			if at.Before(from.Add(o.RecordTTL-time.Second)) || at.After(time.Now().Add(o.RecordTTL)) {
				t.Errorf("%q expires at %v, not %v after %v", kv.Key, at, o.RecordTTL, from)
			}
		default:
			if kv.Expires != 0 {
				t.Errorf("%q expires", kv.Key)
			}
		}
	}
	if seen != "adf" {
		t.Errorf("what expires is %q", seen)
	}
}
