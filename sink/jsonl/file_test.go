package jsonl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
		if n, err := f.Append(out); err != nil || n != len(out) {
			t.Fatal(n, err)
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

// TestRemovedWhileInUse checks that no verdict is written to a removed file. The removal is
// reported, and the next file has what is tried again.
func TestRemovedWhileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts.jsonl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Append([][]byte{[]byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append([][]byte{[]byte("two")}); err == nil || !strings.Contains(err.Error(), "was removed while it was in use") {
		t.Errorf("told %v", err)
	}
	if _, err := f.Append([][]byte{[]byte("two")}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "two\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestPipe has a pipe that nothing is read from, and then a reader: an append ends, and each line
// that does not count comes again. The reader gets each line once and whole.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]byte
	for i := range 400 {
		lines = append(lines, fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 997)))
	}
	done, err := f.Append(lines)
	if err == nil || done == 0 || done == len(lines) || !strings.Contains(err.Error(), path+" is a pipe that nothing was read from") {
		t.Fatalf("a pipe without a reader took %d of %d lines: %v", done, len(lines), err)
	}
	if n, err := f.Append(lines[done:]); n != 0 || err == nil {
		t.Fatalf("a full pipe took %d lines: %v", n, err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	read := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(reader)
		read <- all
	}()
	for done < len(lines) {
		n, err := f.Append(lines[done:])
		if done += n; err != nil && n == 0 {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := string(<-read), string(bytes.Join(lines, []byte("\n")))+"\n"; got != want {
		t.Errorf("the reader got %d bytes, want %d", len(got), len(want))
	}
}
