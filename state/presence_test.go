package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"weir/state"
)

// Missing acknowledged data is reported, whatever is missing: the end of a log, all of it, or the
// whole database.
func TestMissingEnd(t *testing.T) {
	f := func(what string, harm func(t *testing.T, badger, log string)) {
		t.Run(what, func(t *testing.T) {
			dir, image := t.TempDir(), t.TempDir()
			s := open(t, dir, small())
			for range 50 {
				appendTo(t, s.Journal(0), "one", "two")
			}
			must(t, copySparse(dir, image)) // as a kill would leave it
			logs, err := filepath.Glob(filepath.Join(image, "badger", "*.mem"))
			must(t, err)
			harm(t, filepath.Join(image, "badger"), logs[len(logs)-1])
			for range 2 { // and not only the first time
				if _, err := state.Open(image, small()); !errors.Is(err, state.ErrDamaged) {
					t.Fatalf("got %v, want ErrDamaged", err)
				}
			}
		})
	}
	f("log removed", func(t *testing.T, _, log string) { must(t, os.Remove(log)) })
	f("database removed", func(t *testing.T, badger, _ string) { must(t, os.RemoveAll(badger)) })
	f("end of the log zeroed", func(t *testing.T, _, log string) {
		file, err := os.OpenFile(log, os.O_RDWR, 0)
		must(t, err)
		size, err := dataSize(file)
		must(t, err)
		b := make([]byte, size)
		_, err = file.ReadAt(b, 0)
		must(t, err)
		end := len(b)
		for end > 0 && b[end-1] == 0 {
			end--
		}
		_, err = file.WriteAt(make([]byte, 40), int64(end-40))
		must(t, errors.Join(err, file.Close()))
	})
}

// Nothing is acknowledged once a file of the open database is gone.
func TestFilesRemoved(t *testing.T) {
	f := func(what, pattern string, writes, kept bool) {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			// A table, and then a log.
			must(t, fillAndClose(t, dir))
			var failed error
			o := small()
			o.Failed = func(err error) { failed = err }
			s, err := state.Open(dir, o)
			must(t, err)
			appendTo(t, s.Journal(0), "three")
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			must(t, err)
			if len(files) == 0 {
				t.Fatal("there is no", pattern)
			}
			for _, path := range files {
				must(t, os.RemoveAll(path))
			}
			if !writes {
				state.Look(s)
			}
			if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("four")}}); !errors.Is(err, state.ErrFailed) {
				t.Errorf("an append said %v, want ErrFailed", err)
			}
			if !errors.Is(failed, state.ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", failed)
			}
			must(t, s.Close())
			s, err = state.Open(dir, small())
			if !kept {
				if !errors.Is(err, state.ErrDamaged) {
					t.Errorf("the next open said %v, want ErrDamaged", err)
				}
				return
			}
			must(t, err) // what was in memory was written at the end
			if got := read(t, s.Journal(0), 0, 10); len(got) < 3 || got[2] != "three" {
				t.Errorf("the journal has %q", got)
			}
			must(t, s.Close())
		})
	}
	f("log", "badger/*.mem", true, true)
	f("table", "badger/*.sst", false, false)
	f("manifest", "badger/MANIFEST", false, false)
	f("database", "badger", true, false)
}

func fillAndClose(t *testing.T, dir string) error {
	s, err := state.Open(dir, small())
	if err != nil {
		return err
	}
	appendTo(t, s.Journal(0), "one", "two")
	return s.Close()
}

// What Badger writes goes to the file that it has open, so nothing is acknowledged once another
// one stands in its place, be it the same to the byte.
func TestLogReplaced(t *testing.T) {
	dir := t.TempDir()
	s, err := state.Open(dir, small())
	must(t, err)
	appendTo(t, s.Journal(0), "one")
	logs, err := filepath.Glob(filepath.Join(dir, "badger", "*.mem"))
	must(t, err)
	log := logs[len(logs)-1]
	b, err := os.ReadFile(log)
	must(t, err)
	must(t, os.WriteFile(log+"-copy", b, 0o600))
	must(t, os.Rename(log+"-copy", log))
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("two")}}); !errors.Is(err, state.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	must(t, s.Close())
}

// The look of a commit, which asks for less, finds the file that any other look finds.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if _, err := state.SameFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no file it says %v", err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Symlink(path, path+"-link"))
	for _, p := range []string{dir, path, path + "-link", os.DevNull, os.TempDir()} {
		if same, err := state.SameFile(p); err != nil || !same {
			t.Errorf("%s: %v, %v", p, same, err)
		}
	}
}
