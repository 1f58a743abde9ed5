package wal

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A write waits for the disk, also where the disk cannot read from memory of the program. A killed
// process does not show that, because the system writes its pages.
func TestSynced(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "weir-wal-")
	if err != nil {
		t.Skip("MISSING: a file system in memory:", err)
	}
	defer os.Remove(memory)
	for _, path := range []string{t.TempDir(), memory} {
		path = filepath.Join(path, "journal.wal")
		l := &Log{path: path}
		if err := l.Append(Group{Values: [][]byte{[]byte("x")}}); err != nil {
			t.Fatal(path, err)
		}
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, l.file.Fd(), syscall.F_GETFL, 0)
		if errno != 0 || flags&syscall.O_DSYNC == 0 {
			t.Errorf("%s is open with %#x, %v", path, flags, errno)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
