package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/state"
)

func init() {
	helpers["fill"] = fillDisk
	// They end with the process.
	withMounts = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if uid := os.Getuid(); uid != 0 {
			cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
	}
}

// On a file system of 320 MiB, in a process with mounts of its own.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	cmd, out := helper(t, "fill", dir)
	text, err := io.ReadAll(out)
	must(t, err)
	err = cmd.Wait()
	if strings.HasPrefix(string(text), "cannot mount") {
		t.Skip("THE DISK-FULL TEST NEEDS THE RIGHT TO MOUNT A TMPFS: ", string(text))
	}
	t.Logf("%s", text)
	if err != nil || !strings.HasSuffix(string(text), "done\n") {
		t.Fatalf("%v", err)
	}
}

// fillDisk is the helper that fills a small file system, twice.
func fillDisk() error {
	dir := os.Getenv("DIR")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=320m"); err != nil {
		fmt.Println("cannot mount:", err)
		return nil
	}
	const floor = 160 << 20
	o := state.Options{MemTableSize: 8 << 20, MinFree: floor}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 60<<20), 0o600); err != nil {
		return err
	}
	s, err := state.Open(dir, o)
	if err != nil {
		return err
	}
	acknowledged, least := int64(0), int64(math.MaxInt64)
	value := func(i int64) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 32<<10) }
	fill := func() error {
		for i := 0; ; {
			first, err := s.Journal(0).Append([]state.Entry{{Value: value(acknowledged)}})
			free, _ := s.Free()
			least = min(least, free)
			if errors.Is(err, state.ErrDiskLow) {
				// Flushes and compactions still go on, and a compaction that ends
				// makes room; until none does for many tries.
				if i++; i < 2000 {
					continue
				}
				fmt.Printf("%v after %d entries of 64 KiB\n", err, acknowledged)
				return nil
			}
			if err != nil || first != acknowledged {
				return fmt.Errorf("append: offset %d of %d: %w", first, acknowledged, err)
			}
			acknowledged++
		}
	}
	check := func() error {
		if end := s.Journal(0).End(); end != acknowledged {
			return fmt.Errorf("end is %d, acknowledged were %d", end, acknowledged)
		}
		for from := int64(0); from < acknowledged; {
			got, err := s.Journal(0).Read(from, 1000, nil)
			if err != nil {
				return err
			}
			for _, e := range got {
				if !bytes.Equal(e.Value, value(from)) {
					return fmt.Errorf("entry %d is wrong", from)
				}
				from++
			}
		}
		return nil
	}
	reopen := func() error {
		if err := s.Close(); err != nil {
			return err
		}
		s, err = state.Open(dir, o)
		return err
	}
	steps := []func() error{
		fill, check,
		func() error { return os.Remove(ballast) },
		fill, check, // goes on by itself
		reopen, check, // below the floor
		s.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Printf("least free space was %d MiB\ndone\n", least>>20)
	return nil
}
