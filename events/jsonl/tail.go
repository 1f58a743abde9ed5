package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Options are how a Tail reads. The zero value is good.
//
// Those that are 0 or nil get their defaults in Follow.
type Options struct {
	From      Position // where to go on
	Rewind    bool     // begin at the start of the file that From names; what is before From is Old
	Documents bool     // a record may span many lines
	// A record that is longer is given up to cutBytes of it, see Record.Cut.
	MaxRecord int           // longest record in bytes; default 8 MiB
	Poll      time.Duration // how often a file is looked at that has nothing new; default 250 ms
	// Within is a folder that must contain the file and the targets of links; "" lets links
	// lead anywhere. Otherwise a user with write access to a followed folder could have any
	// file read that weir may read.
	Within string
	// Room is what the buffers of many files take together, in bytes; nil where there are few.
	// It gives at least what one record of MaxRecord takes, some 17 MiB.
	Room Room
	// After is time.After, except in tests.
	After func(time.Duration) <-chan time.Time
}

// Room is a number of bytes, as semaphore.Weighted hands them out.
//
// A holder never waits for another holder, so they always come back.
type Room interface {
	Acquire(ctx context.Context, n int64) error
	Release(n int64)
}

// Record is one record of a file.
//
// Next must be kept, together with the record's effect, to continue after a restart.
type Record struct {
	Bytes []byte   // without the line's end; good until the next call of the Tail
	At    int64    // offset of its first byte
	Next  Position // where to go on after it
	Cut   bool     // it was longer than MaxRecord, and Bytes is the beginning of it
	Old   bool     // it is before the place to go on at, see Options.Rewind
}

// cutBytes is how much is kept of a record that is too long.
//
// It is enough for a person to see what the record was.
const cutBytes = 64 << 10

// Tail reads a file that grows, a pipe, or the standard input ("-"). When a file is
// renamed and a new one takes its name, Tail reads the old one to its end and then
// the new one from its beginning; when a file is cut short or written anew, Tail
// begins again. It is for one goroutine.
//
// It reads no byte twice but after Park and where a file was rewritten.
type Tail struct {
	path string
	o    Options

	file  *os.File
	pipe  *pipe    // when the file is one
	place Position // of the file; Offset is that of buf[0]
	mem   []byte   // what buf is part of
	buf   []byte   // read and not taken
	cut   cutter
	// gone is set at one look and believed at the next, so that what the writer still writes
	// is read.
	gone bool  // the path names another file now, or none
	held int64 // of Options.Room
	// Of a record that is half there the beginning is not kept while nothing comes: up to
	// looked there is no end of a line, and it is read again when there is one.
	looked int64 // offset; 0 when all of it is in buf
	// What lies before oldUpTo was read by an earlier process.
	oldUpTo int64 // offset
	// waited makes the next read look whether the file is still the same.
	waited  bool // at the end of the file, since the last read
	ended   bool // nothing more will come into buf
	drained bool // the pipe is at its end
	skip    bool // in the rest of a record that was too long
}

// Follow returns a Tail of path. The file need not be there yet.
//
// Nothing is opened before the first Fill. Tests give After, so that none of them waits.
func Follow(path string, o Options) *Tail {
	if o.MaxRecord == 0 {
		o.MaxRecord = 8 << 20
	}
	if o.Poll == 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.After == nil {
		o.After = time.After
	}
	return &Tail{path: path, o: o, cut: cutter{documents: o.Documents}}
}

// Close closes the file. A read of a pipe that is under way is left to itself.
//
// A goroutine that reads a pipe ends with its read, which may be never; it holds one chunk.
func (t *Tail) Close() error {
	if t.pipe != nil {
		close(t.pipe.quit)
		t.pipe = nil
	}
	t.release()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}

// AtEnd reports whether all that the file has was read.
//
// It may be so at one moment and not at the next. A pipe never says so.
func (t *Tail) AtEnd() bool {
	if t.file == nil || t.gone {
		return false
	}
	st, err := t.file.Stat()
	if err != nil || st.Size() > t.end() {
		return false
	}
	t.waited = true
	return true
}

// end is the offset behind what was read.
func (t *Tail) end() int64 { return max(t.looked, t.place.Offset+int64(len(t.buf))) }

// Park lets go of the file and of all memory until the next Fill, which goes on where this
// one has stopped, and reports whether that was possible: whether it was at the end of the
// file. What is there of a record that is not whole is read again.
//
// It is for folders of many files of which few grow: a file that is parked costs its name and
// its position.
func (t *Tail) Park() (bool, error) {
	// In the middle of something there is more to remember than a position.
	if t.ended || t.skip || !t.AtEnd() {
		return false, nil
	}
	t.o.From, t.o.Rewind = t.place, false
	t.release()
	err := t.file.Close()
	// Only path and options are left.
	*t = Tail{path: t.path, o: t.o, cut: cutter{documents: t.o.Documents}}
	return true, err
}

// Peek returns what was read and not taken yet, for a look at the beginning. It is
// good until the next call of the Tail.
func (t *Tail) Peek() []byte { return t.buf }

// PassZeros goes on behind the zeros that were read and not taken yet. It may be called where a
// record begins.
//
// Next does the same. It is for those who look at the beginning before they take records.
func (t *Tail) PassZeros() {
	t.take(len(t.buf) - len(bytes.TrimLeft(t.buf, "\x00")))
}

// Documents says whether a record may span many lines, for those who know it only
// after a look at the beginning.
//
// What was looked at of the buffer is looked at again.
func (t *Tail) Documents(on bool) {
	t.o.Documents = on
	t.cut = cutter{documents: on}
}

// Next returns the next record of what was read so far, and false when Fill has to
// read more. Blank lines are passed over.
//
// Records of too long a line are given once, with the first cutBytes of it.
func (t *Tail) Next() (Record, bool) {
	for {
		end, ok := t.cut.find(t.buf)
		// The last line of a file that was left, or of a pipe whose writers are gone.
		if !ok && t.ended && len(t.buf) > 0 {
			end, ok = len(t.buf), true // it will never be finished
		}
		if !ok {
			// It may become whole yet.
			if len(t.buf) <= t.o.MaxRecord {
				return Record{}, false
			}
			// A record of which more has come than may be: its beginning is given, the rest is
			// passed over as it comes.
			r := Record{Bytes: t.buf[:min(cutBytes, len(t.buf))], At: t.place.Offset, Cut: true}
			skipped := t.skip
			t.take(len(t.buf))
			t.skip = true
			if skipped {
				return Record{}, false
			}
			r.Next, r.Old = t.place, t.place.Offset <= t.oldUpTo
			return r, true
		}
		raw, at := t.buf[:end], t.place.Offset
		tooLong := end > t.o.MaxRecord
		t.take(end)
		// The end of a record that was too long, of which the beginning was given.
		if t.skip {
			t.skip = false
			continue
		}
		// The byte order mark that some editors put before a text.
		if at == 0 {
			raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		}
		// A file that was cut short under a writer that keeps its offset has a hole.
		raw = bytes.TrimSpace(bytes.TrimLeft(raw, "\x00"))
		if len(raw) == 0 {
			continue
		}
		if tooLong {
			raw = raw[:min(cutBytes, len(raw))]
		}
		return Record{Bytes: raw, At: at, Next: t.place, Cut: tooLong, Old: t.place.Offset <= t.oldUpTo}, true
	}
}

// take moves on by n bytes of the buffer.
//
// The buffer itself is not moved; room does that when there is none left.
func (t *Tail) take(n int) {
	t.buf = t.buf[n:]
	t.place.Offset += int64(n)
	t.cut.reset()
}

// readBytes is how much one Fill reads at most.
//
// Large enough that a system call costs little, small enough for hundreds of files.
const readBytes = 256 << 10

// Fill reads what has come since, and waits for a while when there is nothing. It
// returns io.EOF at the end of a pipe, and the error of a file that cannot be read,
// after which it may be called again. All records have to be taken with Next before.
//
// It is called whenever Next is false. It blocks for about Options.Poll at most, but for a
// file that is read.
func (t *Tail) Fill(ctx context.Context) error {
	if t.drained {
		return io.EOF
	}
	if t.file == nil && t.pipe == nil {
		// A file that is not there yet, or that was left for one that is not there yet.
		if err := t.open(); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return t.wait(ctx)
			}
			return fmt.Errorf("follow %s: %w", t.path, err)
		}
	}
	if t.pipe != nil {
		t.room(readBytes)
		return t.fillFromPipe(ctx)
	}
	st, err := t.file.Stat()
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	// Nothing new: memory is given back once nothing waits in it.
	left := st.Size() - t.end()
	if left <= 0 {
		t.waited = true
		t.letGo()
		return t.atEnd(ctx)
	}
	if t.looked > 0 {
		return t.look(st.Size())
	}
	if len(t.buf) == 0 && t.passHole(st.Size()) {
		return nil
	}
	if err := t.acquire(ctx, left); err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	t.room(int(min(left, readBytes)))
	// Between the look at the end and this read the file may have been cut and written anew.
	before := len(t.buf)
	n, err := t.read()
	if err == nil && n > 0 && t.waited {
		// What was read is good if the file still begins as it did.
		var same bool
		if same, err = t.place.begins(t.file); err == nil && !same {
			t.buf = t.buf[:before]
			return t.rewritten()
		}
	}
	// A short file is identified by more of it as it grows.
	if err == nil && n > 0 {
		t.ended, t.waited = false, false
		if t.place.Hashed < headBytes {
			t.place.Head, t.place.Hashed, err = hashHead(t.file, headBytes)
		}
	}
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	if n > 0 {
		return nil
	}
	t.waited = true
	return t.atEnd(ctx)
}

// wait is a pause that ends with ctx. Its nil error means that it is worth another look.
func (t *Tail) wait(ctx context.Context) error {
	select {
	case <-t.o.After(t.o.Poll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// room makes room for that many bytes behind the content of the buffer.
//
// It doubles the size, so that a long record is not copied at each read.
func (t *Tail) room(n int) {
	if cap(t.buf)-len(t.buf) >= n {
		return
	}
	if cap(t.mem) < 2*len(t.buf)+n {
		t.mem = make([]byte, 2*len(t.buf)+2*n)
	}
	t.buf = t.mem[:copy(t.mem, t.buf)]
}

// read reads at the place in the file and not where the file stands, so nothing else can move
// it.
func (t *Tail) read() (int, error) {
	n, err := t.file.ReadAt(t.buf[len(t.buf):min(len(t.buf)+readBytes, cap(t.buf))], t.place.Offset+int64(len(t.buf)))
	t.buf = t.buf[:len(t.buf)+n]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// keptBytes is how much of a record that is half there is kept while nothing comes, and what a
// file takes beside Options.Room.
const keptBytes = 16 << 10

// acquire takes room for the longest record that may come, once, before there is anything in
// the buffer that others could wait for.
func (t *Tail) acquire(ctx context.Context, left int64) error {
	if t.o.Room == nil || t.held > 0 || left+int64(len(t.buf)) <= keptBytes {
		return nil
	}
	n := 2*min(left+int64(len(t.buf)), int64(t.o.MaxRecord)) + 4*readBytes
	if err := t.o.Room.Acquire(ctx, n); err != nil {
		return err
	}
	t.held = n
	return nil
}

// release gives the room back. The buffer is small by then, or gone.
func (t *Tail) release() {
	if t.held > 0 {
		t.o.Room.Release(t.held)
		t.held = 0
	}
}

// letGo gives memory back at the end of the file. Where many files are read, the beginning of a
// long record is not kept either: there may be one in each of them.
func (t *Tail) letGo() {
	switch {
	case len(t.buf) == 0:
		t.mem, t.buf = nil, nil
	case t.o.Room == nil:
		return
	case t.gone || t.ended: // it is needed at once
		return
	case len(t.buf) > keptBytes:
		t.looked = t.end()
		t.mem, t.buf = nil, nil
		t.cut.reset()
	case cap(t.mem) > 2*keptBytes:
		t.mem = bytes.Clone(t.buf)
		t.buf = t.mem
	}
	t.release()
}

// Yield gives back what the Tail has of Options.Room, so that others may read meanwhile, and
// reports whether it has. What is half there is read again. Next has to be false before.
func (t *Tail) Yield() bool {
	t.letGo()
	return t.held == 0
}

// look looks through what has come of a record whose beginning is not kept. With an end of a
// line, or when it is too long, it is read from its beginning.
func (t *Tail) look(size int64) error {
	same, err := t.place.begins(t.file)
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	if !same {
		t.looked = 0
		return t.rewritten()
	}
	var chunk [keptBytes]byte
	for t.looked < size {
		n, err := t.file.ReadAt(chunk[:min(size-t.looked, keptBytes)], t.looked)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("follow %s: %w", t.path, err)
		}
		t.looked += int64(n)
		if n == 0 || t.looked-t.place.Offset > int64(t.o.MaxRecord) || bytes.IndexByte(chunk[:n], '\n') >= 0 {
			t.looked = 0
			break
		}
	}
	return nil
}

// passHole goes on behind a hole of a sparse file, in which there is no record: it takes
// nothing on the disk, and long to read. It reports whether there was one.
func (t *Tail) passHole(size int64) bool {
	const seekData = 3 // of Linux; others read the zeros
	if runtime.GOOS != "linux" {
		return false
	}
	at := t.place.Offset
	data, err := t.file.Seek(at, seekData)
	if errors.Is(err, syscall.ENXIO) {
		data, err = size, nil // there is nothing but a hole
	}
	if data = min(data, size); err != nil || data <= at {
		return false
	}
	t.place.Offset = data
	return true
}

// atEnd finds out why there is nothing more to read.
//
// A file of which nothing more comes may have been rotated, cut, or be only silent.
func (t *Tail) atEnd(ctx context.Context) error {
	if t.gone { // it was looked at once more since, so its writer has let it go
		if t.looked > 0 {
			t.looked = 0 // its last record is read again
			return nil
		}
		return t.leave()
	}
	st, err := os.Stat(t.path)
	// Renamed and not yet made anew; its writer may still write.
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.wait(ctx)
	case err != nil:
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	// What the old file has got meanwhile is read first.
	if !ofInode(st).sameInode(t.place) {
		t.gone = true
		return t.wait(ctx)
	}
	same, err := t.place.begins(t.file)
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.path, err)
	}
	// The same file, which only is silent.
	if same && st.Size() >= t.place.Offset+int64(len(t.buf)) {
		return t.wait(ctx)
	}
	return t.rewritten()
}

// fillFromPipe takes what has come. Polling lets the caller do other work in between.
func (t *Tail) fillFromPipe(ctx context.Context) error {
	if t.ended && !t.pipe.again {
		t.drained = true
		return errors.Join(t.Close(), io.EOF)
	}
	// At most one chunk, as all records have to be taken before more is read.
	select {
	case c := <-t.pipe.chunks:
		switch {
		case errors.Is(c.err, io.EOF):
			t.ended = true
		case c.err != nil:
			return errors.Join(fmt.Errorf("follow %s: %w", t.path, c.err), t.Close())
		default:
			t.ended = false
		}
		t.buf = append(t.buf, c.data...)
		return nil
	case <-t.o.After(t.o.Poll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
