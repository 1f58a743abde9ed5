package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/state/wal"

	"github.com/dgraph-io/badger/v4"
)

// directory is the locked directory of the database: "badger" below the one that the
// user names. A directory of our own can be closed to others whatever the mode of
// the user's, say the root of a mounted volume.
//
// The lock is the one that Badger itself would take, so its tools respect it too. It
// is taken here because then it covers what happens before Badger opens.
type directory struct {
	path string
	file *os.File // open for the lock
}

const (
	directoryName = "badger"
	pidFile       = "LOCK"
	// lockRetry is short because the wait is for a process that has ended already, in the usual
	// case.
	lockRetry = 20 * time.Millisecond
)

// openDirectory creates the directory below dir when it is missing, and locks it.
//
// Other users lose access to it, because events and verdicts contain what agents did.
func openDirectory(dir string, wait time.Duration, logger *slog.Logger) (*directory, error) {
	d := &directory{path: filepath.Join(dir, directoryName)}
	for _, path := range []string{filepath.Clean(dir), d.path} {
		switch info, err := os.Stat(path); {
		case err == nil && info.IsDir():
			continue
		case err == nil:
			return nil, fmt.Errorf("%s is no folder; name one for the state", path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s is a link to what is not there; name a folder for the state", path)
		}
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		if err := wal.SyncDirectory(filepath.Dir(path)); err != nil { // or a power cut may undo it
			return nil, err
		}
	}
	if err := os.Chmod(d.path, 0o700); err != nil {
		return nil, err
	}
	file, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	d.file = file
	// The lock belongs to the open file: it ends with the process, however that ends.
	if err := d.lock(wait, logger); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// The file is for people and for the message of the next one who comes; the lock is what
	// counts.
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if err := os.WriteFile(filepath.Join(d.path, pidFile), pid, 0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// lock tries for a while, because the lock of a killed process is there until the
// kernel has taken the process apart.
func (d *directory) lock(wait time.Duration, logger *slog.Logger) error {
	waits := false
	for end := time.Now().Add(wait); ; time.Sleep(lockRetry) {
		err := syscall.Flock(int(d.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		// A signal came in between; that is no answer.
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", d.path, err)
		case time.Now().After(end):
			return fmt.Errorf("%w: %s is locked%s; stop that one, or give this one a directory of its own", ErrLocked, d.path, d.holder())
		case !waits:
			waits = true
			logger.Warn("the state is locked"+d.holder()+": weir waits for that process to end", "path", d.path, "at_most", wait.String())
		}
	}
}

// holder names the process that wrote the pid file.
// It may be wrong, since the file is written after the lock was taken; then a person looks in
// vain.
func (d *directory) holder() string {
	pid, err := os.ReadFile(filepath.Join(d.path, pidFile))
	if err != nil {
		return ""
	}
	return " by process " + strings.TrimSpace(string(pid))
}

// close gives the lock back.
// A nil directory, that of a store in memory, has nothing to give back.
func (d *directory) close() error {
	if d == nil {
		return nil
	}
	err := os.Remove(filepath.Join(d.path, pidFile))
	if errors.Is(err, fs.ErrNotExist) { // the database was removed
		err = nil
	}
	return errors.Join(err, d.file.Close())
}

// tidy removes the empty files that a process leaves which was killed between the
// creation of a file and its first byte. Badger refuses to open them
// (dgraph-io/badger#2207). The key registry holds nothing without encryption.
func (d *directory) tidy() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		ext := filepath.Ext(e.Name())
		if info.Size() == 0 && (ext == ".mem" || ext == ".vlog" || e.Name() == badger.KeyRegistryFileName) {
			if err := os.Remove(filepath.Join(d.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
