package state

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestReserve(t *testing.T) {
	const mib, floor = 1 << 20, 256 << 20
	dir := t.TempDir()
	r, err := openReserve(filepath.Join(dir, reserveName))
	if err != nil {
		t.Fatal(err)
	}
	f := func(held, owed int64) {
		t.Helper()
		if r.held != held || r.owes() != owed {
			t.Fatalf("%d MiB held and %d owed, want %d and %d", r.held/mib, r.owes()/mib, held/mib, owed/mib)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(r.path, &st); err == nil && (st.Size != held || st.Blocks*512 < held) {
			t.Fatalf("the file has %d bytes and takes %d, want %d", st.Size, st.Blocks*512, held)
		} else if err != nil && held > 0 {
			t.Fatal(err)
		}
	}
	if r.hold(63*mib, 1<<40, floor); r.release() {
		t.Error("a small store has a reserve")
	}
	f(0, 0)
	r.hold(100*mib, 575*mib, floor) // less than the floor twice would stay
	f(0, 0)
	r.hold(100*mib, 576*mib, floor)
	f(64*mib, 0)
	r.hold(130*mib, 1<<40, floor)
	f(128*mib, 0)
	r.hold(1*mib, 1<<40, floor) // the store has become smaller, and may grow again
	f(128*mib, 0)
	// What a process before has held is given back by the next one, too.
	if r, err = openReserve(r.path); err != nil {
		t.Fatal(err)
	}
	f(128*mib, 0)
	if !r.release() || r.release() {
		t.Error("it is given back once")
	}
	f(0, 128*mib)
	r.hold(130*mib, 600*mib, floor)
	f(0, 128*mib)
	r.hold(130*mib, 1<<40, floor)
	f(128*mib, 0)
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if r.release() {
		t.Error("a file that somebody has removed was given back")
	}
}

// TestReserveOfAFullDisk takes the disk of a store away while it has a reserve: it is given back
// at the first write that is refused, and nothing is written into it.
func TestReserveOfAFullDisk(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	s, err := Open(t.TempDir(), Options{free: func(string) (int64, error) { return free.Load(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.reserve.hold(reserveStep, free.Load(), s.disk.floor)
	f := func(mib int64, written bool, held, owed int64) {
		t.Helper()
		free.Store(mib << 20)
		if err := s.SetCursor("c", nil); (err == nil) != written {
			t.Errorf("with %d MiB free: %v", mib, err)
		}
		if s.reserve.held != held || s.reserve.owes() != owed {
			t.Errorf("with %d MiB free %d are held and %d owed", mib, s.reserve.held, s.reserve.owes())
		}
	}
	f(513, true, reserveStep, 0)
	f(300, false, reserveStep, 0) // a merge has room
	f(100, false, 0, reserveStep)
	f(513, false, 0, reserveStep) // that is what was given back
	f(577, true, 0, reserveStep)
	if _, floor := s.Free(); floor != s.disk.floor+reserveStep {
		t.Errorf("the floor is %d", floor)
	}
}

// TestFloorFollowsTables holds that as much stays free as the next merge may take, since it begins
// by itself and ends the process where it finds no room.
func TestFloorFollowsTables(t *testing.T) {
	dir := t.TempDir()
	o := Options{MemTableSize: minMemTable, MinFree: 1 << 20}
	written := int64(0)
	for range 3 { // each time it is closed its memtable becomes a table
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		s.measure()
		_, floor := s.Free()
		want := o.MinFree
		if written > 0 {
			want = written + memTablesFlushed*minMemTable
		}
		if floor < want || written == 0 && floor > want {
			t.Errorf("the floor is %d, want %d and no less", floor, want)
		}
		value := make([]byte, 1<<20)
		if _, err := rand.Read(value); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal(0).Append([]Entry{{Value: value[:s.MaxValue()]}}); err != nil {
			t.Fatal(err)
		}
		written += int64(s.MaxValue())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
