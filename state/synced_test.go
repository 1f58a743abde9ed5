package state_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"weir/state"
)

// TestWritesAreSynced holds that a store on disk waits until its writes are there, also in a log
// that Badger has just begun. A killed process does not show that, because the system writes its
// pages; only a power cut would.
func TestWritesAreSynced(t *testing.T) {
	synced := make(map[string][]byte) // what a loss of power would leave of each log
	dir := t.TempDir()
	s := open(t, dir, state.WithSync(small(), func(log *os.File) error {
		b := make([]byte, 16<<20)
		n, _ := log.ReadAt(b, 0)
		synced[filepath.Base(log.Name())] = b[:n]
		return nil
	}))
	for i := range 40 { // of 1 MiB each, so that logs of 8 MiB are begun
		value := bytes.Repeat([]byte{byte(i + 1)}, 1000<<10)
		if _, err := s.Journal(0).Append([]state.Entry{{Value: value}}); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, b := range synced {
			found = found || bytes.Contains(b, value)
		}
		if !found {
			t.Fatalf("append %d returned before it was synced", i)
		}
	}
	if len(synced) < 3 {
		t.Errorf("only %d logs were written to, so the test shows nothing of new ones", len(synced))
	}
}

// What could not be synced is not acknowledged, and nothing is after it.
func TestSyncFails(t *testing.T) {
	broken := errors.New("the disk is broken")
	fails := false
	var failed error
	o := small()
	o.Failed = func(err error) { failed = err }
	s := open(t, t.TempDir(), state.WithSync(o, func(*os.File) error {
		if fails {
			return broken
		}
		return nil
	}))
	appendTo(t, s.Verdicts(0), "one")
	fails = true
	if _, err := s.Verdicts(0).Append([]state.Entry{{Value: []byte("two")}}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the sync", err)
	}
	fails = false
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("three")}}); !errors.Is(err, state.ErrFailed) {
		t.Errorf("got %v, want ErrFailed", err)
	}
	if !errors.Is(failed, broken) {
		t.Errorf("the program was told %v", failed)
	}
	if end := s.Verdicts(0).End() + s.Journal(0).End(); end != 1 {
		t.Errorf("the logs end at %d, want 1", end)
	}
}
