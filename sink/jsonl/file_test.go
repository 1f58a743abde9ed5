package jsonl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts.jsonl")
	open := func() *File {
		t.Helper()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	add := func(f *File, lines ...string) {
		t.Helper()
		var out [][]byte
		for _, l := range lines {
			out = append(out, []byte(l))
		}
		if err := f.Append(out); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(path string, lines ...string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(append(lines, ""), "\n")
		if string(b) != want {
			t.Fatalf("%s holds %q, want %q", path, b, want)
		}
	}
	f := open()
	add(f)
	add(f, "1", "2")
	add(f, "3")
	holds(path, "1", "2", "3")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// A crash in the middle of a line, and a cursor that is behind.
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(b, "4 ha"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f = open()
	add(f, "2", "3", "4 half", "2")
	holds(path, "1", "2", "3", "4 half", "2")
	// Rotation.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(f, "5")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	add(f, "6")
	holds(path+".1", "1", "2", "3", "4 half", "2", "5")
	holds(path, "6")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none", "x")); err == nil {
		t.Error("opened a file in no directory")
	}
}

// TestRemovedWhileInUse holds that a verdict is not written where nobody finds it: that the
// file was removed is told, and what is tried again is in the next one.
func TestRemovedWhileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts.jsonl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Append([][]byte{[]byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Append([][]byte{[]byte("two")}); err == nil || !strings.Contains(err.Error(), "was removed while it was in use") {
		t.Errorf("told %v", err)
	}
	if err := f.Append([][]byte{[]byte("two")}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "two\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}
