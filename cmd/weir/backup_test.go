//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestBackupAndKill backs weir up while producers send, kills it, and goes on elsewhere from the
// backup, through one more kill: what was acknowledged before the backup is there, and the verdicts
// are those of an undisturbed fold.
func TestBackupAndKill(t *testing.T) {
	t.Parallel()
	folder, address := t.TempDir(), weirtest.Address(t)
	file := filepath.Join(folder, "weir.backup")
	producers := newProducers("http://" + address)
	weir := weirtest.Run(t, "--state", filepath.Join(folder, "lost"), "--listen", address)
	weir.Ready()
	producers.start()
	var acknowledged []string
	for len(acknowledged) < 500 {
		<-time.After(10 * time.Millisecond)
		producers.mu.Lock()
		acknowledged = slices.Clone(producers.acknowledged)
		producers.mu.Unlock()
	}
	command(t, "backup", file, "--server", "http://"+address)
	weir.Kill()
	producers.stop()

	restored := filepath.Join(folder, "restored")
	command(t, "restore", file, "--state", restored)
	producers.acknowledged = acknowledged
	for _, end := range []func(w *weirtest.Weir){
		func(w *weirtest.Weir) {
			producers.start()
			<-time.After(200 * time.Millisecond)
			w.Kill()
			producers.stop()
		},
		func(w *weirtest.Weir) {
			if code := w.End(syscall.SIGTERM); code != 0 {
				t.Fatalf("weir exits with %d:\n%s", code, w.Log())
			}
		},
	} {
		weir := weirtest.Run(t, "--state", restored, "--listen", address)
		weir.Ready()
		end(weir)
	}
	compareLogs(t, restored, producers.acknowledged)

	// A backup that breaks off is rejected, and nothing is left of it.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := weirtest.Command(t, weirtest.Options{}, "restore", file, "--state", filepath.Join(folder, "never")); code == 0 || !strings.Contains(stderr, "not a whole backup") {
		t.Errorf("of a backup that breaks off weir restore says %q and exits with %d", stderr, code)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "never*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// command runs a command that has to go well.
func command(t *testing.T, args ...string) {
	t.Helper()
	if code, _, stderr := weirtest.Command(t, weirtest.Options{}, args...); code != 0 {
		t.Fatalf("weir %q exits with %d:\n%s", args, code, stderr)
	}
}
