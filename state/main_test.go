package state_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"

	"weir/events"
	"weir/state"
)

// helpers are what the test binary does when a test has started it again, by the
// name in the environment variable helperVariable.
var helpers = map[string]func() error{
	"hold":  holdLock,
	"crash": writeUntilKilled,
	"check": checkDamaged,
}

// withMounts gives a process mounts of its own, where that can be had.
var withMounts func(*exec.Cmd)

const helperVariable = "WEIR_STATE_TEST_HELPER"

func TestMain(m *testing.M) {
	name := os.Getenv(helperVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := helpers[name](); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// small are options for tests: a small memtable, so that files rotate early, and no
// floor that depends on the machine.
func small() state.Options {
	return state.WithFree(state.Options{MemTableSize: 8 << 20, LockWait: -1}, func(string) (int64, error) { return math.MaxInt64, nil })
}

func open(t testing.TB, dir string, o state.Options) *state.Store {
	t.Helper()
	s, err := state.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *state.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// inBoth runs a test in memory and on disk.
func inBoth(t *testing.T, f func(t *testing.T, s *state.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, open(t, "", small())) })
	t.Run("disk", func(t *testing.T) { f(t, open(t, t.TempDir(), small())) })
}

// inBothWith is inBoth for tests that open the store themselves.
func inBothWith(t *testing.T, f func(t *testing.T, dir string)) {
	t.Run("memory", func(t *testing.T) { f(t, "") })
	t.Run("disk", func(t *testing.T) { f(t, t.TempDir()) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, l *state.Log, values ...string) int64 {
	t.Helper()
	entries := make([]state.Entry, len(values))
	for i, v := range values {
		entries[i] = state.Entry{Appended: events.Stamp(1000 + i), Trigger: int64(i), Value: []byte(v)}
	}
	first, err := l.Append(entries)
	must(t, err)
	return first
}

// read returns the values of a log, and fails when the offsets are not dense.
func read(t testing.TB, l *state.Log, from int64, limit int) (values []string) {
	t.Helper()
	entries, err := l.Read(from, limit, nil)
	must(t, err)
	for i, e := range entries {
		if e.Offset != from+int64(i) {
			t.Fatalf("entry %d has offset %d", from+int64(i), e.Offset)
		}
		values = append(values, string(e.Value))
	}
	return values
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
