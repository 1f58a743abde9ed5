package ahead

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A write waits for the disk. A process that is killed does not show that, since the system writes
// what is left.
func TestSynced(t *testing.T) {
	f, err := openSynced(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_DSYNC == 0 {
		t.Errorf("it is open with %#x, %v", flags, errno)
	}
}
