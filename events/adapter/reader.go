package adapter

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"weir/events"
)

// Position is where a record begins in an input, after decompression.
type Position struct {
	Line   int   // the first line is 1
	Offset int64 // bytes before it
}

// String returns line and byte.
func (p Position) String() string { return fmt.Sprintf("line %d, byte %d", p.Line, p.Offset) }

// Record is one JSON value of an input. Its bytes hold until the next call of Next.
type Record struct {
	Position
	Bytes []byte
}

// Fault is a part of an input that could not be read. Raw holds no more bytes than a
// record may have, and only until the function returns that was given the Fault.
type Fault struct {
	Position
	Reason error // a *events.DecodeError where a place in Raw can be named
	Raw    []byte
}

// Error returns position and reason.
func (f Fault) Error() string { return f.Position.String() + ": " + f.Reason.Error() }

// Unwrap returns the reason.
func (f Fault) Unwrap() error { return f.Reason }

// HeadSize is how much of an input Head returns at most, in bytes.
const HeadSize = 64 << 10

// Reader cuts a finished input into records: lines, the elements of an array, or
// documents that span many lines; plain or compressed with gzip or zstd. It holds one record
// at a time, in memory that grows to the longest. It is for one goroutine.
type Reader struct {
	in    io.Reader
	buf   []byte
	start int      // of what was not returned yet, in buf
	at    Position // of buf[start]
	place func(Position) Position
	err   error // why no more comes, io.EOF at the end

	framing Framing
	// most is MaxRecord, but for tests.
	most int
	bad  func(Fault)
	// mode is decided by the first record and stays, but for the end of an array.
	mode mode
	open []byte // room for value.open
}

type mode uint8

const (
	undecided mode = iota
	lineMode       // each line is a record
	valueMode      // records are JSON values, wherever they end
	arrayMode      // records are the elements of one array
	endMode        // the array has ended
)

// rooms are buffers of readers that were closed.
//
// Each is at least HeadSize long; a folder of many small files would otherwise ask for as much
// memory as it has files.
var rooms sync.Pool

// Close gives the room of the reader to the next one. Neither the reader nor a record of it
// may be used any more. It does not close the input.
func (r *Reader) Close() {
	if cap(r.buf) > 0 {
		room := r.buf[:0]
		rooms.Put(&room)
	}
	r.buf, r.start, r.err = nil, 0, io.EOF
}

// maxWindow is how far back a zstd file may refer, all of which is held: as far as zstd goes
// without --ultra and --long.
const maxWindow = 8 << 20

// The first bytes of what is compressed.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// Compressed reports whether an input that begins with head is compressed in a way that
// NewReader undoes.
func Compressed(head []byte) bool {
	return bytes.HasPrefix(head, []byte(gzipMagic)) || bytes.HasPrefix(head, []byte(zstdMagic))
}

// unpacking is what unpacks single messages; none may grow beyond four records.
var unpacking = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4*MaxRecord))
})

// Unpack appends what a message was that is compressed with zstd by itself, as the Collector's
// file exporter does it.
func Unpack(dst, message []byte) ([]byte, error) {
	z, err := unpacking()
	if err != nil {
		return dst, err
	}
	return z.DecodeAll(message, dst)
}

// NewReader returns a reader of in. The first bytes decide whether it is
// compressed.
func NewReader(in io.Reader) (*Reader, error) {
	b := bufio.NewReader(in)
	magic, _ := b.Peek(4) // an input may be shorter
	switch {
	case bytes.HasPrefix(magic, []byte(gzipMagic)):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read gzip header: %w", err)
		}
		in = z
	case bytes.HasPrefix(magic, []byte(zstdMagic)):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)) // in this goroutine
		if err != nil {
			return nil, fmt.Errorf("read zstd: %w", err)
		}
		in = z
	default:
		in = b
	}
	return &Reader{in: in, at: Position{Line: 1}, most: MaxRecord}, nil
}

// Head returns the beginning of the input, for finding out its format. It must not
// be called after Next.
//
// It may alias the reader's memory.
func (r *Reader) Head() []byte {
	for len(r.buf) < HeadSize && r.fill() {
	}
	return r.buf[:min(len(r.buf), HeadSize)]
}

// Rest returns what was not returned by Next, with what Head has read of it, after decompression.
// The reader must not be used any more.
func (r *Reader) Rest() io.Reader {
	held := io.Reader(bytes.NewReader(r.buf[r.start:]))
	if r.err != nil {
		return io.MultiReader(held, failed{r.err})
	}
	return io.MultiReader(held, r.in)
}

// failed is the end of an input that is known already.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// Err returns why no more of the input can be read, nil where it is only at its end.
func (r *Reader) Err() error {
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

// Use says how the records of the input end, and what to do with those that cannot
// be read; they are passed over when bad is nil. An input of lines that begins with
// an array, or with an object that its first line does not end, is read for what it
// is.
func (r *Reader) Use(framing Framing, bad func(Fault)) { r.framing, r.bad = framing, bad }

// Next returns the next record. The error is io.EOF at the end of the input, else
// that of the underlying reader, and is final.
func (r *Reader) Next() (Record, error) {
	for {
		if !r.skipSpace() {
			if r.err == io.EOF && r.mode == arrayMode {
				r.report(0, events.CodeSyntax, "the input ends inside an array")
				r.mode = endMode
			}
			return Record{}, r.err
		}
		var end int
		var ok bool
		switch r.mode {
		case undecided:
			// Nothing was taken yet, so the record is read again in the mode that was decided.
			r.decide()
			continue
		case lineMode:
			end, ok = r.line()
		case endMode:
			if end, ok = r.line(); ok {
				r.drop(end, events.CodeTrailingData, "want nothing after the end of the array")
			}
			continue
		case arrayMode:
			if r.separator() {
				continue
			}
			end, ok = r.value()
		default:
			end, ok = r.value()
		}
		if !ok {
			continue
		}
		record := Record{r.placed(), bytes.TrimRight(r.buf[r.start:r.start+end], " \t\r\n")}
		if r.mode == lineMode { // in which there is no other end of a line
			if r.buf[r.start+end-1] == '\n' {
				r.at.Line++
			}
			r.at.Offset += int64(end)
			r.start += end
			// The hole that is left where a file was cut under its writer, or a machine lost its
			// power.
			if record.Bytes = bytes.TrimLeft(record.Bytes, "\x00"); len(record.Bytes) == 0 {
				continue
			}
		} else {
			r.take(end)
		}
		return record, nil
	}
}

// fill reads more of the input into buf. It is false when there is no more.
func (r *Reader) fill() bool {
	if r.err != nil {
		return false
	}
	// What was returned is dropped only when there is no room, so that bytes are seldom moved.
	if r.start > 0 && (len(r.buf) == cap(r.buf) || r.start == len(r.buf)) {
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	}
	if cap(r.buf) == 0 {
		if room, ok := rooms.Get().(*[]byte); ok {
			r.buf = *room
		}
	}
	// Doubled, so that a record of 8 MiB is not copied for each 64 KiB of it.
	if len(r.buf) == cap(r.buf) {
		r.buf = append(make([]byte, 0, max(HeadSize, 2*cap(r.buf))), r.buf...)
	}
	n, err := r.in.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if r.err = err; errors.Is(err, io.EOF) {
		r.err = io.EOF
	}
	// A read of nothing without an error is tried again by the caller.
	return n > 0 || err == nil
}

// take goes on behind the next n bytes.
func (r *Reader) take(n int) {
	r.at.Line += bytes.Count(r.buf[r.start:r.start+n], []byte("\n"))
	r.at.Offset += int64(n)
	r.start += n
}

// skipSpace goes on to the next byte that is no white space. It is false at the end.
func (r *Reader) skipSpace() bool {
	for {
		rest := r.buf[r.start:]
		if r.at.Offset == 0 && bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")) {
			r.take(3) // byte order mark
			continue
		}
		n := 0
		for n < len(rest) && (rest[n] == ' ' || rest[n] == '\n' || rest[n] == '\r' || rest[n] == '\t') {
			n++
		}
		r.take(n)
		if n < len(rest) {
			return true
		}
		if !r.fill() && r.start == len(r.buf) {
			return false
		}
	}
}

// decide looks at the first record.
func (r *Reader) decide() {
	first := r.buf[r.start]
	switch {
	case first == '[':
		r.mode = arrayMode
		r.take(1)
	case r.framing == Documents:
		r.mode = valueMode
	default:
		r.mode = lineMode
		// A line that begins an object and does not end it is of a document, whatever the
		// format says.
		end := r.lineEnd()
		var v value
		if _, state := v.read(r.buf[r.start : r.start+end]); state == unfinished && first == '{' && end < r.most {
			r.mode = valueMode
		}
	}
}

// separator reads what stands between the elements of an array, and its end.
func (r *Reader) separator() bool {
	switch r.buf[r.start] {
	case ',':
		r.take(1)
		return true
	case ']':
		r.take(1)
		r.mode = endMode
		return true
	}
	return false
}

// lineEnd returns the length of the line with its end, as far as it is read; at most
// a little more than a record may have.
func (r *Reader) lineEnd() int {
	for looked := 0; ; {
		rest := r.buf[r.start:]
		if n := bytes.IndexByte(rest[looked:], '\n'); n >= 0 {
			return looked + n + 1
		}
		looked = len(rest)
		if looked > r.most || !r.fill() {
			return looked
		}
	}
}

// line returns the length of the next line; ok is false when it was too long.
func (r *Reader) line() (end int, ok bool) {
	end = r.lineEnd()
	// One more for the end of the line.
	if end > r.most+1 {
		r.tooLong()
		r.skipLine(end)
		return 0, false
	}
	return end, true
}

// skipLine goes on behind the line of which n bytes were looked at.
func (r *Reader) skipLine(n int) {
	for ended := false; !ended; n = 0 {
		if n == 0 {
			if r.start == len(r.buf) && !r.fill() {
				return
			}
			n = len(r.buf) - r.start
			if k := bytes.IndexByte(r.buf[r.start:], '\n'); k >= 0 {
				n = k + 1
			}
		}
		ended = n > 0 && r.buf[r.start+n-1] == '\n'
		r.take(n)
	}
}

// value returns the length of the next JSON value; ok is false when there was none.
func (r *Reader) value() (end int, ok bool) {
	// The room of open brackets is kept from value to value.
	v := value{open: r.open[:0]}
	defer func() { r.open = v.open }()
	for looked := 0; ; {
		n, state := v.read(r.buf[r.start+looked:])
		looked += n
		switch state {
		case finished:
			if looked > r.most {
				r.tooLong()
				r.take(looked)
				return 0, false
			}
			return looked, true
		case broken:
			r.notJSON(v.reason)
			return 0, false
		case tooDeep:
			r.drop(looked, events.CodeTooDeep, v.reason)
			r.skipLine(0)
			return 0, false
		}
		switch {
		case looked > r.most:
			// Only its end is looked for then, and nothing of it is kept.
			r.tooLong()
			r.skipValue(&v)
			return 0, false
		case !r.fill() && r.start+looked == len(r.buf):
			r.notJSON("the input ends inside an object or an array")
			return 0, false
		}
	}
}

// skipValue goes on to the end of a value of which more was read than a record may have.
func (r *Reader) skipValue(v *value) {
	r.take(len(r.buf) - r.start)
	for r.fill() {
		n, state := v.read(r.buf[r.start:])
		r.take(n)
		switch state {
		case unfinished:
			continue
		case broken, tooDeep:
			r.skipLine(0)
		}
		return
	}
}

// notJSON gives up the first line of what was taken for a value. The lines behind it
// are read again, for they may be records of their own.
//
// So one broken line of a log costs that line and not the rest.
func (r *Reader) notJSON(reason string) {
	r.drop(min(r.lineEnd(), r.most), events.CodeSyntax, reason)
	if r.buf[r.start-1] != '\n' {
		r.skipLine(0)
	}
}

func (r *Reader) tooLong() {
	r.report(min(r.most, len(r.buf)-r.start), events.CodeTooLong, fmt.Sprintf("want records of at most %d bytes", r.most))
}

// drop reports the next n bytes and goes on behind them.
func (r *Reader) drop(n int, code events.Code, reason string) {
	r.report(n, code, reason)
	r.take(n)
}

// report copies nothing: Raw is good until bad returns.
func (r *Reader) report(n int, code events.Code, reason string) {
	if r.bad != nil {
		r.bad(Fault{r.placed(), &events.DecodeError{Code: code, Offset: 0, Reason: reason}, r.buf[r.start : r.start+n]})
	}
}

// Place sets by what a position in the input becomes that of a record or a fault, for an input whose lines were put in
// another order. Positions are asked for in the order of the input. Nil leaves them as they are.
func (r *Reader) Place(place func(Position) Position) { r.place = place }

// placed is the position of what comes next.
func (r *Reader) placed() Position {
	if r.place == nil {
		return r.at
	}
	return r.place(r.at)
}

// Read reads all records of an input with an adapter and flushes it at the end. What
// cannot be read goes to bad, which may be nil, and reading goes on. The error is
// that of the input.
func Read(r *Reader, f Format, a Adapter, emit func(*events.Event), bad func(Fault)) error {
	r.Use(f.Framing, bad)
	for {
		record, err := r.Next()
		if err == io.EOF {
			return a.Flush(emit)
		}
		if err != nil {
			return fmt.Errorf("read input at %v: %w", r.at, err)
		}
		if err := a.Decode(record.Bytes, emit); err != nil && bad != nil {
			bad(Fault{record.Position, err, record.Bytes})
		}
	}
}
