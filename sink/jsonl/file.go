// Package jsonl appends verdicts to a file, one JSON object per line, synced. The file may be rotated: rename it and
// call Reopen.
package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// File is an open file of verdicts. Its methods may be called by any number of
// goroutines.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File
	// It is nil once a line was new: from there on nothing is a repeat.
	// Whole lines, because a verdict is the same bytes whenever it is given again (decision 1).
	recent map[string]struct{} // lines that the file ends with, from an earlier process
	half   []byte              // what a pipe has of a line
}

// tailBytes is how much of the end of a file is read at open.
// A process that begins before the place of a crash repeats no more than this.
const tailBytes = 4 << 20

// Open opens the file at path for appending and creates it when there is none. Half
// a line at its end, which a crash has left, is cut off.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open verdict file: %w", err)
	}
	return f, nil
}

// open opens the file and reads its end. Only the owner may read it: verdicts name agents and
// flows.
func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := f.readTail(file); err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.half = file, nil
	return nil
}

// readTail cuts off half a line at the end, and notes the whole lines before it.
func (f *File) readTail(file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	f.recent = make(map[string]struct{})
	// A pipe or a device has no end that could be read.
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return nil
	}
	// The first line of what is read may be cut; it equals none that is written, and does no
	// harm.
	from := max(0, st.Size()-tailBytes)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, st.Size()-from))
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	// A line longer than all that was read is left alone, since its beginning is not known.
	if end < len(tail) && (end > 0 || from == 0) {
		if err := file.Truncate(from + int64(end)); err != nil {
			return err
		}
	}
	for line := range bytes.Lines(tail[:end]) {
		f.recent[string(bytes.TrimSuffix(line, []byte("\n")))] = struct{}{}
	}
	return nil
}

// Append writes lines, without their ends, and returns how many of them are on disk. Lines
// that the file ended with when it was opened are left out, so that a process may
// begin a little before the place at which another one was killed.
// With an error the caller gives the lines again that do not count, the first one of them first. All
// lines of a file count or none. A pipe takes what its reader makes room for within patience.
func (f *File) Append(lines [][]byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Checked each time, because the file may be removed while it is open.
	st, err := f.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("append to verdict file: %w", err)
	}
	if st.Mode().IsRegular() {
		err = f.appendAll(st, lines)
	} else if n, perr := f.appendToPipe(lines); perr != nil {
		return n, fmt.Errorf("append to verdict file: %w", perr)
	}
	if err != nil {
		return 0, err
	}
	return len(lines), nil
}

// patience is how long a pipe without room is waited for. Nothing is lost by it: the lines are
// given again.
const patience = time.Second

// appendToPipe returns how many lines went out whole. Of the next one a part may be in the pipe;
// it is gone on with when the line is given again, so that a reader gets whole lines.
func (f *File) appendToPipe(lines [][]byte) (int, error) {
	if len(lines) == 0 {
		return 0, nil
	}
	out := append(bytes.Join(lines, []byte("\n")), '\n')
	if !bytes.HasPrefix(out, f.half) {
		f.half = nil // another line, which no caller writes
	}
	_ = f.file.SetWriteDeadline(time.Now().Add(patience)) // a file without deadlines, such as a device, never waits
	n, err := f.file.Write(out[len(f.half):])
	done := out[:len(f.half)+n]
	whole := bytes.Count(done, []byte("\n"))
	f.half = bytes.Clone(done[bytes.LastIndexByte(done, '\n')+1:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s is a pipe that nothing was read from for %v", f.path, patience)
	}
	return whole, err
}

// appendAll appends to a file. The caller holds mu.
func (f *File) appendAll(before os.FileInfo, lines [][]byte) error {
	var out []byte
	for _, line := range lines {
		if _, ok := f.recent[string(line)]; ok {
			continue
		}
		f.recent = nil // what was not in the file yet is followed by what is not there either
		out = append(append(out, line...), '\n')
	}
	if len(out) == 0 {
		return nil
	}
	if st, ok := before.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 { // what is written there goes with the process
		old := f.file
		if err := f.open(); err != nil {
			return fmt.Errorf("append to verdict file: it was removed while it was in use: %w", err)
		}
		return errors.Join(fmt.Errorf("append to verdict file: %s was removed while it was in use; what was in it is gone, and another one is begun", f.path), old.Close())
	}
	// One write for all lines, so that a reader mostly sees whole ones.
	if _, err := f.file.Write(out); err != nil {
		err = errors.Join(err, f.file.Truncate(before.Size())) // a part of it may be there; it is written again
		return fmt.Errorf("append to verdict file: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("append to verdict file: %w", err)
	}
	return nil
}

// Reopen opens the path anew, after the file was renamed.
// The lines that the new file ends with are known again.
func (f *File) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	// It is closed only when the new one is open, so that there is always one to write to.
	old := f.file
	if err := f.open(); err != nil {
		return fmt.Errorf("reopen verdict file: %w; the old one stays in use", err)
	}
	return old.Close()
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
