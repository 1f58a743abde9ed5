package jsonl

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestFilesBesideClosedFolders holds that an unreadable folder, such as lost+found, is reported and
// does not keep the others from being listed.
func TestFilesBesideClosedFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.jsonl", "closed/b.jsonl", "open/c.jsonl"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, "1\n")
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o700)
	var files []string
	var err error
	as(t, 65534, dir, func() { files, _, err = Files(dir) })
	if want := []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "open", "c.jsonl")}; !slices.Equal(files, want) {
		t.Errorf("listed are %q, want %q", files, want)
	}
	if err == nil || !strings.Contains(err.Error(), closed) {
		t.Errorf("told is %v, want the folder that cannot be read", err)
	}
}

// as runs do as a user without root's rights: files that root closed are open to root. A test that
// already runs without them needs no other user.
func as(t *testing.T, user int, dir string, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	// The folder of a test is root's alone.
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It is the thread that is another user, and it ends with the goroutine.
		runtime.LockOSThread()
		if err := syscall.Setfsuid(user); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}
