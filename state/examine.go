package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"weir/events"
)

// Examine reads all of a state that no process has open: the checksums of its files, and each record and
// log. It reads a copy in a new folder below temp, which it removes. So dir stays as it is, also for
// another user. The error is ErrLocked if a process has the state open, ErrDamaged for what
// cannot be read, and fs.ErrNotExist if there is no state.
func Examine(dir, temp string) error {
	release, err := shareLock(filepath.Join(dir, directoryName))
	if err != nil {
		return err
	}
	// A weir that starts meanwhile waits for the lock.
	copied, err := os.MkdirTemp(temp, "weir-state-*")
	if err != nil {
		release()
		return err
	}
	defer os.RemoveAll(copied)
	err = copyState(dir, copied)
	release()
	if err != nil {
		return err
	}
	s, err := Open(copied, Options{LockWait: -1, MinFree: 1})
	if err != nil {
		return err
	}
	return errors.Join(s.readAll(), s.Close())
}

// Size is how many bytes of a disk the files of a state take.
func Size(dir string) (bytes int64, err error) {
	err = eachFile(dir, func(_ string, info fs.FileInfo) error {
		bytes += info.Size()
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += s.Blocks*512 - info.Size() // some files have holes
		}
		return nil
	})
	return bytes, err
}

// shareLock takes the lock of the database beside others that only read, and returns what gives it back.
func shareLock(path string) (release func(), err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		_ = file.Close() // it was opened for the lock
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is locked", ErrLocked, path)
		}
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

// eachFile calls fn with each file that belongs to the state, by its path below dir.
func eachFile(dir string, fn func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == reserveName || d.Name() == pidFile {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return fn(rel, info)
	})
}

func copyState(from, to string) error {
	return eachFile(from, func(path string, info fs.FileInfo) error {
		target := filepath.Join(to, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(from, path))
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(copyHoles(out, in), out.Close())
	})
}

// copyHoles copies a file and writes no zeros: those of Badger's files are mostly holes.
func copyHoles(out *os.File, in io.Reader) error {
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for size := int64(0); ; {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return out.Truncate(size)
		case err != nil:
			return err
		}
	}
}

// readAll reads each record of each partition, and its logs.
func (s *Store) readAll() error {
	partitions, err := s.Partitions()
	if err != nil {
		return err
	}
	for _, n := range partitions {
		if _, _, err := s.Meta(n); err != nil {
			return err
		}
		for _, subject := range [...]Subject{FlowSubject, AgentSubject} {
			if err := s.Records(n, subject, func(string, []byte) error { return nil }); err != nil {
				return err
			}
			if err := s.Due(n, subject, 0, "", func(events.Stamp, string) bool { return true }); err != nil {
				return err
			}
		}
		for _, l := range [...]*Log{s.Journal(n), s.Verdicts(n)} {
			if err := l.readAll(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAll reads the log from its first entry on.
func (l *Log) readAll() error {
	var entries []Entry
	for from := int64(0); from < l.End(); {
		first, read, err := ReadOn(l.Read, from, 1000, entries[:0])
		if err != nil || len(read) == 0 {
			return err
		}
		entries, from = read, first+int64(len(read))
	}
	return nil
}
