package jsonl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// rewritten deals with a file that was cut short or written anew. Who did so has
// often made a copy before, with lines in it that came after the last look.
//
// copytruncate of logrotate is the usual case: copy, then cut.
func (t *Tail) rewritten() error {
	rotated, place, err := t.findRotated(t.place)
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	// No copy: what came after the last look is lost, without a trace.
	if rotated == nil {
		return t.leave()
	}
	err = t.file.Close()
	// The copy is read on from the same offset, and left at its end.
	t.file, t.place, t.gone, t.buf, t.looked = rotated, place, true, t.buf[:0], 0
	t.cut.reset()
	return err
}

// leave gives up the file at its end. The rest of the buffer is its last record, though it
// may be half of one. The file of that name is then read from its beginning.
//
// With a rest it is called twice: first for the rest, then for the end.
func (t *Tail) leave() error {
	if len(t.buf) > 0 && !t.ended {
		t.ended = true
		return nil
	}
	err := t.file.Close()
	// All but path, options and memory begins anew, so that nothing of the old file is taken
	// for the new one's.
	t.o.From, t.o.Rewind = Position{}, false
	*t = Tail{path: t.path, o: t.o, mem: t.mem, held: t.held, cut: cutter{documents: t.o.Documents}}
	return err
}

// open opens the file that the position is about, wherever rotation has put it, or
// else the file that has the path now.
//
// fs.ErrNotExist means that there is nothing to follow yet.
func (t *Tail) open() error {
	if t.path == "-" {
		t.pipe = newPipe(t.path, false)
		return nil
	}
	// Within a folder only regular files are followed.
	if t.o.Within != "" {
		return t.openWithin()
	}
	st, err := os.Stat(t.path)
	if err != nil {
		return err
	}
	switch {
	case st.IsDir():
		return errors.New("it is a directory; name the files in it")
	// Only a named pipe gets new writers; a device or a socket does not.
	case !st.Mode().IsRegular():
		t.pipe = newPipe(t.path, st.Mode()&fs.ModeNamedPipe != 0)
		return nil
	}
	if t.file, err = os.Open(t.path); err != nil {
		return err
	}
	return t.begin()
}

// openWithin is open for a file that may lie nowhere else.
func (t *Tail) openWithin() (err error) {
	if t.file, err = OpenWithin(t.o.Within, t.path); err != nil {
		return err
	}
	return t.begin()
}

// begin goes on in the file that was opened.
//
// A fault closes the file, so that the next Fill tries again.
func (t *Tail) begin() error {
	st, err := t.file.Stat()
	if err == nil {
		t.place, err = identify(t.file)
	}
	if err == nil {
		err = t.goOn(st.Size())
	}
	if err != nil {
		return errors.Join(err, t.Close())
	}
	return nil
}

// OpenWithin opens a regular file that lies in a folder or below. No link on the way to
// it may lead out of the folder.
//
// A log folder that others may write into could else lead to any file of the machine.
func OpenWithin(folder, path string) (*os.File, error) {
	name, err := filepath.Rel(folder, path)
	if err != nil {
		return nil, err
	}
	// A root follows no link that leads out of it.
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// A pipe in the place of a file would block the open.
	// With this flag the open returns at once, and the pipe is rejected.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// goOn finds where to go on in the open file, or the rotated file that has to be read
// to its end first.
//
// The file that has the name may be the one of the position, grown or cut, or another one.
func (t *Tail) goOn(size int64) error {
	from := t.o.From
	// The zero Position, or that of a file that was empty.
	if from.Hashed == 0 {
		return nil
	}
	same, err := from.begins(t.file)
	if err != nil {
		return err
	}
	// A file that is shorter than the offset was cut, and begins anew.
	if same && size >= from.Offset {
		t.goOnAt(from.Offset)
		return nil
	}
	rotated, place, err := t.findRotated(from)
	// Without the old file the new one is read from its beginning.
	if err != nil || rotated == nil {
		return err
	}
	if err := t.file.Close(); err != nil {
		return errors.Join(err, rotated.Close())
	}
	t.file, t.place, t.gone = rotated, place, true
	t.goOnAt(from.Offset)
	return nil
}

// goOnAt sets where reading begins. With Rewind that is the beginning, and all before offset
// counts as old.
func (t *Tail) goOnAt(offset int64) {
	t.place.Offset = offset
	if t.o.Rewind {
		t.place.Offset, t.oldUpTo = 0, offset
	}
}

// findRotated looks beside the path for the file of a position: under another name, or
// as a copy. It returns nil when there is none.
//
// Rotation keeps the folder and the beginning of the name: log.1, log-20260101.jsonl,
// log.jsonl.1.
func (t *Tail) findRotated(from Position) (*os.File, Position, error) {
	if from.Hashed == 0 {
		return nil, Position{}, nil
	}
	path, open := t.path, os.Open
	if t.o.Within != "" {
		open = func(path string) (*os.File, error) { return OpenWithin(t.o.Within, path) }
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, Position{}, err
	}
	base := filepath.Base(path)
	// The name without its ending is what both kinds of names have in common.
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == base || !strings.HasPrefix(e.Name(), stem) || !e.Type().IsRegular()
	})
	for _, e := range entries {
		f, err := open(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			continue // not ours to read
		}
		place, err := identify(f)
		if err == nil {
			var same bool
			if same, err = from.begins(f); same && err == nil {
				// A copy that has less than was read is of an earlier time.
				if st, serr := f.Stat(); serr == nil && st.Size() >= from.Offset {
					place.Offset = from.Offset
					return f, place, nil
				}
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, Position{}, err
		}
	}
	return nil, Position{}, nil
}
