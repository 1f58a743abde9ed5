package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"weir/state"
)

// TestExamine reads a state that is well, one that a process has open, and one of which a byte has
// changed, and leaves each as it is.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	if err := state.Examine(dir, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a state: %v", err)
	}
	s := open(t, dir, small())
	for range 200 {
		appendTo(t, s.Journal(1), "an event of some length, so that there is something to damage")
	}
	must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 200, State: []byte("state"), Records: []state.Record{flow("k", "value", 9, 0)}}))
	if err := state.Examine(dir, t.TempDir()); !errors.Is(err, state.ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	must(t, s.Close())
	temp := t.TempDir()
	must(t, state.Examine(dir, temp))
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "badger", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v, %v", tables, err)
	}
	text, err := os.ReadFile(tables[0])
	must(t, err)
	text[len(text)/3] ^= 1
	must(t, os.WriteFile(tables[0], text, 0o600))
	if err := state.Examine(dir, temp); !errors.Is(err, state.ErrDamaged) {
		t.Errorf("a changed byte: %v", err)
	}
	if again, err := os.ReadFile(tables[0]); err != nil || string(again) != string(text) {
		t.Errorf("the state was changed: %v", err)
	}
}
