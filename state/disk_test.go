package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"weir/state"
)

// Below the floor nothing is written and everything is read; above it all goes on.
func TestDiskLow(t *testing.T) {
	var free atomic.Int64
	broken := errors.New("broken disk")
	o := state.WithFree(state.Options{MemTableSize: 8 << 20, MinFree: 100 << 20, LockWait: -1}, func(string) (int64, error) {
		if n := free.Load(); n >= 0 {
			return n, nil
		}
		return 0, broken
	})
	dir := t.TempDir()
	free.Store(200 << 20)
	s := open(t, dir, o)
	j := s.Journal(0)
	writes := func() []error {
		_, appended := j.Append([]state.Entry{{Value: []byte("event")}})
		return []error{
			appended,
			s.Commit(&state.Checkpoint{Next: j.End(), Records: []state.Record{flow("k", fmt.Sprint(j.End()), 1, 0)}}),
			s.SetCursor("c", nil),
			s.DeadLetter(state.DeadLetter{}),
		}
	}
	f := func(n int64, want error) {
		t.Helper()
		free.Store(n)
		before, end := state.Transactions(s), j.End()
		for i, err := range writes() {
			if !errors.Is(err, want) {
				t.Fatalf("write %d with %d bytes free: %v", i, n, err)
			}
		}
		if want != nil && (state.Transactions(s) != before || j.End() != end) {
			t.Fatal("something was written")
		}
		if got, err := j.Read(0, 100, nil); err != nil || int64(len(got)) != j.End() {
			t.Fatalf("%d entries of %d, %v", len(got), j.End(), err)
		}
		if v, _, ok, err := s.Load(0, state.FlowSubject, "k"); string(v) != fmt.Sprint(j.End()) || !ok || err != nil {
			t.Fatalf("%s, %v, %v", v, ok, err)
		}
	}
	f(200<<20, nil)
	f(100<<20, state.ErrDiskLow) // what is to be written would go below
	f(0, state.ErrDiskLow)
	f(101<<20, nil)
	f(99<<20, state.ErrDiskLow)
	f(-1, broken)
	if got, floor := s.Free(); got != 0 || floor != 100<<20 {
		t.Fatalf("free %d, floor %d", got, floor)
	}
	f(math.MaxInt64, nil)
	if got, _ := s.Free(); got != math.MaxInt64 {
		t.Fatalf("free %d", got)
	}
	want := j.End()
	closeStore(t, s)

	free.Store(50<<20 - 1)
	if _, err := state.Open(dir, o); !errors.Is(err, state.ErrDiskLow) {
		t.Fatal(err)
	}
	free.Store(50 << 20) // half the floor is enough to open
	s = open(t, dir, o)
	if got := s.Journal(0).End(); got != want {
		t.Fatalf("end is %d, want %d", got, want)
	}
}

// State of an older format that is opened on a full disk is given its format with the first
// thing that is written, or the weir that wrote it would take what is new for damage.
func TestOlderFormatOnAFullDisk(t *testing.T) {
	t.Run("checkpoint", func(t *testing.T) {
		olderFormatOnAFullDisk(t, func(s *state.Store) error {
			return s.Commit(&state.Checkpoint{Next: 1, Records: []state.Record{{Subject: state.FlowSubject, Key: "f", Value: []byte("record")}}})
		})
	})
	t.Run("event", func(t *testing.T) {
		olderFormatOnAFullDisk(t, func(s *state.Store) error {
			_, err := s.Journal(0).Append([]state.Entry{{Value: []byte("event")}})
			return err
		})
	})
}

func olderFormatOnAFullDisk(t *testing.T, write func(s *state.Store) error) {
	var free atomic.Int64
	free.Store(math.MaxInt64)
	o := state.WithFree(state.Options{MemTableSize: 8 << 20, LockWait: -1, MinFree: 100 << 20}, func(string) (int64, error) { return free.Load(), nil })
	dir := t.TempDir()
	s := open(t, dir, o)
	format := state.AllStored(s, state.FormatKey)[0]
	must(t, s.SetCursor("c", []byte("before")))
	closeStore(t, s)
	older := append(bytes.Clone(format.Value[:len(format.Value)-1]), 1)
	badgerSet(t, dir, format.Key, older)

	free.Store(50 << 20) // half the floor is enough to open, and not to write
	s = open(t, dir, o)
	is := func(want []byte) {
		t.Helper()
		if got := state.AllStored(s, state.FormatKey); len(got) != 1 || !bytes.Equal(got[0].Value, want) {
			t.Fatalf("the format is %+v, want %q", got, want)
		}
	}
	if err := write(s); !errors.Is(err, state.ErrDiskLow) {
		t.Fatal(err)
	}
	is(older)
	free.Store(math.MaxInt64)
	must(t, write(s))
	is(format.Value)
	closeStore(t, s)
	s = open(t, dir, o)
	is(format.Value)
}

// A call that is split reaches the floor on its way: what it has written stays, and the
// caller gets the error.
func TestDiskLowDuringAppend(t *testing.T) {
	var asked atomic.Int64
	o := state.WithFree(state.Options{MemTableSize: 8 << 20, LockWait: -1}, func(string) (int64, error) {
		if asked.Add(1) > 4 { // at open, for the format, and for two parts
			return 0, nil
		}
		return math.MaxInt64, nil
	})
	s := open(t, t.TempDir(), o)
	j := s.Journal(0)
	entries := make([]state.Entry, 20)
	for i := range entries {
		entries[i].Value = bytes.Repeat([]byte{byte(i)}, 500<<10)
	}
	_, err := j.Append(entries)
	if !errors.Is(err, state.ErrDiskLow) {
		t.Fatal(err)
	}
	if end := j.End(); end != 4 {
		t.Fatalf("end is %d", end)
	}
	for from := range int64(4) {
		got, err := j.Read(from, 1, nil)
		must(t, err)
		if got[0].Value[0] != byte(from) {
			t.Fatalf("entry %d is of %d", from, got[0].Value[0])
		}
	}
}

// TestCloseOnFullDisk holds that to close writes no table where there is no room for one:
// that goes through a memory map, and the kernel ends the process.
func TestCloseOnFullDisk(t *testing.T) {
	var free atomic.Int64
	o := state.WithFree(state.Options{MemTableSize: 8 << 20, MinFree: 100 << 20, LockWait: -1}, func(string) (int64, error) { return free.Load(), nil })
	dir, copied := t.TempDir(), t.TempDir()
	free.Store(200 << 20)
	s := open(t, dir, o)
	for i := range 100 {
		if _, err := s.Journal(0).Append([]state.Entry{{Value: fmt.Append(nil, i)}}); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(0)
	closeStore(t, s)
	tables, err := filepath.Glob(filepath.Join(dir, "badger", "*.sst"))
	if err != nil || len(tables) != 0 {
		t.Errorf("tables %q were written, %v", tables, err)
	}
	// Elsewhere, because this process still has the files open.
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	free.Store(200 << 20)
	s = open(t, copied, o)
	if got, err := s.Journal(0).Read(0, 1000, nil); err != nil || len(got) != 100 || string(got[99].Value) != "99" {
		t.Errorf("%d entries, %v", len(got), err)
	}
	closeStore(t, s)
}
