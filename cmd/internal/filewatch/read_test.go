//go:build unix

package filewatch

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRead reads what is a file, and what is not.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, silent, alone := filepath.Join(dir, "file"), filepath.Join(dir, "silent"), filepath.Join(dir, "alone")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pipe := range []string{silent, alone} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := Read(file, 10); string(text) != "0123456789" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	for path, want := range map[string]string{file: "larger than 9 bytes", "/dev/zero": "larger than 9 bytes", dir: "directory", filepath.Join(dir, "none"): "no such file"} {
		if _, err := Read(path, 9); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	// A pipe that no program has opened for writing is empty.
	if text, err := Read(alone, 9); len(text) > 0 || err != nil {
		t.Errorf("%q %v", text, err)
	}
	// A program has opened this one, and writes only after Read has given up.
	writer, err := os.OpenFile(silent, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	_, first := Read(silent, 9)
	_, again := Read(silent, 9)
	if first == nil || again == nil || first.Error() != again.Error() || !strings.Contains(first.Error(), "no answer within") {
		t.Errorf("a silent pipe: %v, then %v", first, again)
	}
	if _, waits := pending.Load(silent); !waits {
		t.Error("the second read began another goroutine")
	}
	if _, err := writer.WriteString("more than nine bytes"); err != nil {
		t.Fatal(err)
	}
	for waits := true; waits; { // the goroutine ends, and the file is read again
		_, waits = pending.Load(silent)
	}
}
