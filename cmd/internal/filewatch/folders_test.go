package filewatch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFolders reports new files and writes, in folders that were followed before. It calls the
// function that passes a file only for writes to that file.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	inner, busy := filepath.Join(dir, "inner"), filepath.Join(dir, "busy.jsonl")
	asked := make(chan string, 100)
	f := NewFolders(func(path string) bool { asked <- path; return path == busy })
	defer f.Close()
	if f.watcher == nil {
		t.Skip("this system does not tell of changes")
	}
	write := func(path string) {
		t.Helper()
		w, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	root := map[string]bool{dir: true}
	if f.Follow(root) || !f.Follow(root) {
		t.Fatal("a folder is new once")
	}
	write(busy)
	if <-f.Changed(); <-asked != busy {
		t.Fatal("nobody was asked about the file that was written")
	}
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	<-f.Changed()
	both := map[string]bool{dir: true, inner: true}
	if f.Follow(both) || !f.Follow(both) {
		t.Fatal("a folder is new once")
	}
	write(filepath.Join(inner, "a.jsonl"))
	<-f.Changed()
	if err := os.RemoveAll(inner); err != nil {
		t.Fatal(err)
	}
	<-f.Changed()
	if !f.Follow(root) {
		t.Error("a folder that is gone makes another one new")
	}
}
