package state_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir/state"
)

// never leaves what was appended unsynced to what is written next.
func never(o state.Options) state.Options { return state.WithSyncWithin(o, time.Hour) }

func appendUnsynced(t *testing.T, l *state.Log, values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := l.AppendUnsynced([]state.Entry{{Value: []byte(v)}}); err != nil {
			t.Fatal(err)
		}
	}
}

// powerless opens what a loss of power leaves of a state in the worst case: nothing that was written
// without waiting for the disk.
func powerless(t *testing.T, dir string) *state.Store {
	t.Helper()
	image := t.TempDir()
	must(t, copySparse(dir, image))
	if err := os.Remove(filepath.Join(image, "journal.wal")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return open(t, image, small())
}

// What does not wait for the disk costs no transaction and outlives the process. A loss of power may
// take the end of it, which is no damage; what waits for the disk takes all that was before with it.
func TestUnsynced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, never(small()))
	before := state.Transactions(s)
	appendUnsynced(t, s.Journal(0), "one", "two")
	equal(t, "at once", read(t, s.Journal(0), 0, 10), []string{"one", "two"})
	if n := state.Transactions(s) - before; n != 0 {
		t.Errorf("it took %d transactions", n)
	}
	equal(t, "killed", read(t, kill(t, dir, small()).Journal(0), 0, 10), []string{"one", "two"})
	equal(t, "without power", read(t, powerless(t, dir).Journal(0), 0, 10), nil)
	appendTo(t, s.Journal(0), "three")
	all := []string{"one", "two", "three"}
	equal(t, "without power, behind one that was synced", read(t, powerless(t, dir).Journal(0), 0, 10), all)
	appendUnsynced(t, s.Journal(0), "four")
	equal(t, "without power, later", read(t, powerless(t, dir).Journal(0), 0, 10), all)
	appendTo(t, s.Verdicts(0), "of four")
	all = append(all, "four")
	equal(t, "without power, with what was made of it", read(t, powerless(t, dir).Journal(0), 0, 10), all)
	appendUnsynced(t, s.Journal(0), "five")
	must(t, s.Close())
	equal(t, "ended in order", read(t, powerless(t, dir).Journal(0), 0, 10), append(all, "five"))
}

// What is behind something that was synced ahead is lost without it, and none of what was synced is.
func TestUnsyncedBehindSynced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, never(small()))
	appendTo(t, s.Journal(0), "synced")
	was, err := os.ReadFile(filepath.Join(dir, "journal.wal"))
	must(t, err)
	appendUnsynced(t, s.Journal(0), "unsynced")
	image := t.TempDir()
	must(t, copySparse(dir, image))
	must(t, os.WriteFile(filepath.Join(image, "journal.wal"), was, 0o600))
	equal(t, "without power", read(t, open(t, image, small()).Journal(0), 0, 10), []string{"synced"})
	equal(t, "killed", read(t, kill(t, dir, small()).Journal(0), 0, 10), []string{"synced", "unsynced"})
}

// What does not wait for the disk is there soon, also when there was no room for it at first.
func TestSyncedSoon(t *testing.T) {
	dir := t.TempDir()
	var asked atomic.Int64
	asked.Store(math.MinInt64)
	full := make(chan struct{}, 1)
	o := state.WithFree(small(), func(string) (int64, error) {
		if asked.Add(1) == 2 { // that it is to be synced, behind the append
			full <- struct{}{}
			return 0, nil
		}
		return math.MaxInt64, nil
	})
	synced := make(chan struct{}, 100)
	o = state.WithSync(o, func(*os.File) error {
		synced <- struct{}{}
		return nil
	})
	s := open(t, dir, state.WithSyncWithin(o, time.Millisecond))
	asked.Store(0)
	for len(synced) > 0 {
		<-synced
	}
	appendUnsynced(t, s.Journal(0), "one")
	<-full
	<-synced
	must(t, s.Close())
	equal(t, "without power", read(t, powerless(t, dir).Journal(0), 0, 10), []string{"one"})
}

// On a full disk what does not wait for it is refused as what does; what was acknowledged before stays,
// and goes into the database when there is room.
func TestUnsyncedOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	var free atomic.Int64
	free.Store(math.MaxInt64)
	s := open(t, dir, never(state.WithFree(small(), func(string) (int64, error) { return free.Load(), nil })))
	refused := func(add func([]state.Entry) (int64, error), value string) {
		t.Helper()
		if _, err := add([]state.Entry{{Value: []byte(value)}}); !errors.Is(err, state.ErrDiskLow) {
			t.Errorf("%s: got %v, want ErrDiskLow", value, err)
		}
	}
	free.Store(0)
	refused(s.Journal(0).AppendUnsynced, "no")
	free.Store(math.MaxInt64)
	appendUnsynced(t, s.Journal(0), "one")
	free.Store(0)
	appendUnsynced(t, s.Journal(0), "two") // for which room was asked with the one before
	refused(s.Journal(0).Append, "nor this")
	refused(s.Journal(0).AppendUnsynced, "nor this, once that is known")
	equal(t, "on a full disk, killed", read(t, kill(t, dir, small()).Journal(0), 0, 10), []string{"one", "two"})
	free.Store(math.MaxInt64)
	appendTo(t, s.Journal(0), "three")
	equal(t, "without power, later", read(t, powerless(t, dir).Journal(0), 0, 10), []string{"one", "two", "three"})
}

// A disk that rejects acknowledged data ends all writing, and the program gets the error.
func TestUnsyncedFails(t *testing.T) {
	broken, told := errors.New("the disk is broken"), make(chan error, 1)
	var fails atomic.Bool
	o := state.WithSync(small(), func(*os.File) error {
		if fails.Load() {
			return broken
		}
		return nil
	})
	o.Failed = func(err error) { told <- err }
	s := open(t, t.TempDir(), state.WithSyncWithin(o, time.Millisecond))
	fails.Store(true)
	appendUnsynced(t, s.Journal(0), "one")
	if err := <-told; !errors.Is(err, broken) {
		t.Errorf("the program was told %v", err)
	}
	if _, err := s.Journal(0).AppendUnsynced([]state.Entry{{Value: []byte("two")}}); !errors.Is(err, state.ErrFailed) {
		t.Errorf("got %v, want ErrFailed", err)
	}
}
