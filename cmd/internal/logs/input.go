package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/mapped"
	"weir/events/adapter/registry"
	"weir/events/envelope"
)

// Stdin is what stands for standard input among file names.
const Stdin = "-"

// Input is one log: a file, or what a reader gives.
//
// It is opened, its format is recognized, and then it may rest until a Reader reads it to
// its end, once. It is for one goroutine at a time; only how far it was read may be looked at
// by another.
type Input struct {
	Name   string
	Format adapter.Format
	// Proposed is the mapping that Recognize proposed; nil for one that a person named, and for
	// formats that are known.
	Proposed *mapped.Proposal

	body  *adapter.Reader // nil while the file rests
	file  *os.File        // nil for a reader, and while the file rests
	read  *counter        // bytes as they are in the file, compressed or not
	size  int64           // 0 when not known
	wraps string          // what each line is wrapped in; empty for nothing

	carriers []carrier  // what each record is carried in, the outermost first
	carried  []*carried // the same, opened
	turned   bool       // the newest records stand first
	mixed    bool       // the lines are out of the order of time

	// As Reader.place needs them: the latest time so far, the latest one before the log leapt
	// ahead, and the number of events since.
	last, before events.Stamp
	first        events.Stamp // the earliest time in the beginning of the file; 0 for none
	leapt        int
}

// Says names the format, and what it is wrapped in.
func (in *Input) Says() string {
	says := in.Format.Name
	if in.turned {
		says += ", the newest first,"
	}
	if in.mixed {
		says += ", its lines put in the order of time,"
	}
	for _, c := range slices.Backward(in.carriers) {
		says += " " + c.says()
	}
	if in.wraps == "" {
		return says
	}
	return says + " in " + in.wraps
}

// Beside returns how many lines, rows and texts held no record, of an input of which the records
// are carried by something else, as far as it was read.
func (in *Input) Beside() (n int64) {
	for _, c := range in.carried {
		n += c.beside
	}
	return n
}

// Body cuts the input into records.
//
// It is nil while the file rests. What it gives is unpacked already.
func (in *Input) Body() *adapter.Reader { return in.body }

// counter counts what is read through it.
//
// It counts before anything is unpacked, because the size of a file is known only so.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Open opens a file, which may be compressed with gzip.
//
// A folder is an error that wraps ErrFolder. Nothing is recognized yet.
func Open(name string) (*Input, error) {
	in := &Input{Name: name}
	if err := in.open(); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// open opens the file, also a second time after it rested: it is read from its beginning then,
// and the count of what was read begins again.
func (in *Input) open() (err error) {
	if in.file, err = os.Open(in.Name); err != nil {
		return err
	}
	info, err := in.file.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s %w", in.Name, ErrFolder)
	case in.read != nil: // it rested; progress may be queried at any time
		in.read.r = in.file
		in.read.n.Store(0)
	default:
		if info.Mode().IsRegular() {
			in.size = info.Size()
		}
		in.read = &counter{r: in.file}
	}
	return in.begin()
}

// From returns an input of what r gives, which may be compressed with gzip.
//
// r is not closed, and the input does not rest, for it cannot be read twice.
func From(name string, r io.Reader) (*Input, error) {
	in := &Input{Name: name, read: &counter{r: r}}
	return in, in.begin()
}

// begin unpacks what is read, if it is packed, and reads as much as shows the format.
func (in *Input) begin() (err error) {
	text, err := unframed(in.read)
	if err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	if in.body, err = adapter.NewReader(text); err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	return in.carry()
}

// carry takes what carries the records off what is read, if something does.
func (in *Input) carry() (err error) {
	if len(in.carriers) == 0 && !in.mixed && !in.turned {
		return nil
	}
	in.carried = in.carried[:0]
	text := in.body.Rest()
	for _, c := range in.carriers {
		inner := newCarried(c, text)
		in.carried = append(in.carried, inner)
		text = inner
	}
	var place func(adapter.Position) adapter.Position
	if in.turned || in.mixed {
		reorder := inTime
		if in.turned {
			reorder = turned
		}
		c := reorder(text)
		text, place = c, c.moved.place
	}
	if in.body, err = adapter.NewReader(text); err == nil {
		in.body.Place(place)
	}
	return err
}

// Rest closes a file until its turn to be read comes, so that many of them take neither
// memory nor descriptors. It does nothing to what cannot be opened twice.
//
// Recognize has to be called before, while the beginning is at hand.
func (in *Input) Rest() {
	if in.size > 0 {
		in.Close()
	}
}

// wake opens a file that rests.
func (in *Input) wake() error {
	if in.body != nil {
		return nil
	}
	return in.open()
}

// Close closes the file. What was counted of it stays.
func (in *Input) Close() {
	if in.file != nil {
		_ = in.file.Close() // it was only read
		if in.body != nil {
			in.body.Close()
		}
		in.file, in.body = nil, nil
	}
}

// ErrFolder says that a folder is named where a file has to be.
var ErrFolder = errors.New("is a folder")

// ErrEmpty says that there is nothing in a file.
var ErrEmpty = errors.New("is empty")

// Recognize finds the format of the input, by the name of a format or, without one, by the
// beginning of the input.
//
// A name goes before what the content looks like, and makes an empty file a good one. The name
// map:auto takes what the content looks like, or else a mapping that is proposed for it.
// Errors are ErrEmpty, those of the registry (ErrUnknown when nothing fits), or of reading.
func (in *Input) Recognize(name string) (err error) {
	if name == mapped.Prefix+mapped.Auto {
		return in.propose(in.Recognize(""))
	}
	head := in.body.Head()
	// An input that breaks off after a whole line is read as far as it goes, and the error is reported
	// then.
	if err := in.body.Err(); err != nil && bytes.IndexByte(head, '\n') < 0 {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	if len(bytes.TrimSpace(head)) == 0 && name == "" {
		return fmt.Errorf("%s %w", in.Name, ErrEmpty)
	}
	if name != "" {
		if in.Format, err = registry.Lookup(name); err == nil {
			if err = adapter.CheckText(head); err != nil {
				err = fmt.Errorf("%s: %w", in.Name, err)
			}
		}
	} else {
		in.Format, err = registry.Detect(head)
	}
	if err == nil || errors.Is(err, registry.ErrUnknown) {
		in.unwrap(head, name == "", &err)
	}
	if in.wraps == "" && (errors.Is(err, registry.ErrUnknown) || err == nil && name != "") {
		err = in.unload(head, name == "", err)
	}
	if err != nil && name == "" {
		return fmt.Errorf("%s: %w", in.Name, err)
	}
	if err == nil && len(in.carriers) == 0 {
		in.first = firstTime(in.Format, head)
		if in.Format.Name != canonical.Format().Name {
			err = in.settle(head)
		}
	}
	return err
}

// propose takes the mapping that is proposed for an input of an unknown format, as err says, or of
// one that finds no event in its beginning.
func (in *Input) propose(err error) error {
	head := in.body.Head()
	if !errors.Is(err, registry.ErrUnknown) && (err != nil || in.wraps != "" || len(in.carriers) > 0 || told(in.Format, head)) {
		return err
	}
	p, none := registry.Propose(head)
	switch {
	case none != nil && err == nil:
		return nil // as detected: events may come later
	case none != nil:
		return fmt.Errorf("%s: %w: %w", in.Name, registry.ErrUnknown, none)
	}
	if in.Format, err = mapped.Format(p.Mapping); err != nil {
		return fmt.Errorf("%s: the proposed mapping: %w", in.Name, err)
	}
	in.Proposed, in.first = p, firstTime(in.Format, head)
	return nil
}

// firstTime returns the earliest time of an event in the beginning of a file; 0 for none.
func firstTime(f adapter.Format, head []byte) (first events.Stamp) {
	eventsIn(f, head, func(e *events.Event) {
		if first == 0 || e.Time < first {
			first = e.Time
		}
	})
	return first
}

// unload checks whether something else carries the records of a format, such as lines of a container's
// log. For a format that the caller named, it does so only if the format finds no events directly.
//
// err is that of recognizing the carrier, and returned when nothing is found.
func (in *Input) unload(head []byte, unnamed bool, err error) error {
	fits := registry.Detect
	if !unnamed {
		named := in.Format
		fits = func(head []byte) (adapter.Format, error) {
			if told(named, head) {
				return named, nil
			}
			return named, registry.ErrUnknown
		}
		if err != nil || told(named, head) {
			return err
		}
	}
	carriers, inside, format := findCarrier(head, fits, maxCarriers)
	if carriers == nil {
		return err
	}
	in.carriers, in.Format, in.turned = carriers, format, newestFirst(format, inside)
	return in.carry()
}

// told reports whether a format finds an event in the beginning of a file.
func told(f adapter.Format, head []byte) (found bool) {
	eventsIn(f, head, func(*events.Event) { found = true })
	return found
}

// eventsIn hands over the events that a format finds in the beginning of a file, up to where it
// was cut.
func eventsIn(f adapter.Format, head []byte, take func(*events.Event)) {
	r, err := adapter.NewReader(bytes.NewReader(head))
	if err != nil {
		return
	}
	_ = adapter.Read(r, f, f.New(adapter.Options{}), take, nil)
}

// newestFirst reports whether each record is about an earlier time than the record before it, as in
// the answers of collectors to searches. The last time in a record counts: for spans it is an end, and
// they come in the order of their ends.
func newestFirst(f adapter.Format, head []byte) bool {
	r, err := adapter.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	r.Use(f.Framing, nil)
	var before events.Stamp
	later, earlier := 0, 0
	for {
		record, err := r.Next()
		if err != nil {
			return earlier >= 2 && earlier > 4*later
		}
		var last events.Stamp
		emit := func(ev *events.Event) { last = max(last, ev.Time) }
		a := f.New(adapter.Options{}) // no record explains another one here
		if a.Decode(record.Bytes, emit) != nil || a.Flush(emit) != nil || last == 0 {
			continue
		}
		switch {
		case before == 0:
		case last > before:
			later++
		case last < before:
			earlier++
		}
		before = last
	}
}

// unwrap checks whether the lines are records in envelopes. The adapter of CloudEvents does so itself
// for events of weir's own.
//
// err is that of recognizing the lines themselves, and is cleared if the content of the envelope is
// known. A format that the caller named is that of the content.
func (in *Input) unwrap(head []byte, unnamed bool, err *error) {
	first, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	c, oerr := envelope.Open(envelope.Message{Value: first})
	if oerr != nil || c.Wrapping == "" {
		return
	}
	format := in.Format
	if unnamed {
		var derr error
		if format, derr = registry.Detect(c.Bytes); derr != nil || *err == nil && format.Name == canonical.Format().Name {
			return
		}
	}
	in.wraps, in.Format, *err = c.Wrapping, format, nil
	in.Format.Framing = adapter.Lines
}
