package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"weir/cmd/internal/cli"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/registry"
	"weir/events/envelope"
)

// stdin is what stands for standard input among file names.
const stdin = "-"

// input is one open file, or standard input.
type input struct {
	name   string
	body   *adapter.Reader
	file   *os.File // nil for standard input
	read   *counter // bytes as they are in the file, compressed or not
	size   int64    // 0 when not known
	format adapter.Format
	wraps  string // what each line is wrapped in; empty for nothing
}

// says names the format, and what it is wrapped in.
func (in *input) says() string {
	if in.wraps == "" {
		return in.format.Name
	}
	return in.format.Name + " in " + in.wraps
}

// counter counts what is read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// open opens a file, which may be compressed with gzip.
func open(env *cli.Env, name string) (*input, error) {
	in := &input{name: name, read: &counter{r: env.In}}
	if name != stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in.file, in.read.r = f, f
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			in.size = info.Size()
		} else if err == nil && info.IsDir() {
			in.close()
			return nil, cli.Usage("%s is a folder", name).Advise("name the files in it: %s/*", name)
		}
	}
	var err error
	if in.body, err = adapter.NewReader(in.read); err != nil {
		in.close()
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return in, nil
}

func (in *input) close() {
	if in.file != nil {
		_ = in.file.Close() // it was only read
	}
}

// errEmpty says that there is nothing in a file.
var errEmpty = errors.New("is empty")

// recognize finds the format of the input, by its name or by its beginning.
func (in *input) recognize(name string) (err error) {
	head := in.body.Head()
	if err := in.body.Err(); err != nil {
		return cli.Failure("read %s: %w", in.name, err)
	}
	if len(bytes.TrimSpace(head)) == 0 && name == "" {
		return cli.Failure("%s %w", in.name, errEmpty).Advise("was it written yet?")
	}
	if name != "" {
		in.format, err = registry.Lookup(name)
	} else {
		in.format, err = registry.Detect(head)
	}
	if err == nil || errors.Is(err, registry.ErrUnknown) {
		in.unwrap(head, name == "", &err)
	}
	if err != nil && name == "" {
		return cli.Failure("%s: %w", in.name, err).Advise("weir events describe says what each format is")
	}
	return err
}

// unwrap looks whether the lines are records in envelopes. The adapter of CloudEvents
// does so itself for events of weir's own.
func (in *input) unwrap(head []byte, unnamed bool, err *error) {
	first, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	c, oerr := envelope.Open(envelope.Message{Value: first})
	if oerr != nil || c.Wrapping == "" {
		return
	}
	format := in.format
	if unnamed {
		var derr error
		if format, derr = registry.Detect(c.Bytes); derr != nil || *err == nil && format.Name == canonical.Format().Name {
			return
		}
	}
	in.wraps, in.format, *err = c.Wrapping, format, nil
	in.format.Framing = adapter.Lines
}

// badRecord is a record that could not be read.
type badRecord struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
	Byte   int64  `json:"byte"` // at which it begins, after decompression
	Code   string `json:"code"`
	Reason string `json:"reason"`

	raw []byte // the record; good until the function returns that was given the badRecord
}

func newBadRecord(source string, f adapter.Fault) badRecord {
	b := badRecord{source, f.Line, f.Offset, "format", f.Reason.Error(), f.Raw}
	if d, ok := errors.AsType[*events.DecodeError](f.Reason); ok {
		b.Code = string(d.Code)
	}
	return b
}

func (b *badRecord) place() string {
	if b.Line == 0 { // of a topic
		return b.Source
	}
	return fmt.Sprintf("%s:%d", b.Source, b.Line)
}

// refusals are the records that could not be read, of which the first are told one by
// one.
type refusals struct {
	n     int64
	first []badRecord
}

const toldRefusals = 3

func (r *refusals) add(b badRecord) {
	r.n++
	if len(r.first) < toldRefusals {
		r.first = append(r.first, b)
	}
}

func (r *refusals) tell(env *cli.Env) {
	for _, b := range r.first {
		env.Notice("%s: not read: %s", b.place(), b.Reason)
	}
	if n := r.n - int64(len(r.first)); n > 0 {
		env.Notice("and %s more", cli.Count(n, "record"))
	}
}

// reader reads events out of inputs, one after the other. Inputs of one format share
// an adapter, for a recording may be spread over many files.
type reader struct {
	inputs []*input
	event  func(*events.Event) error
	bad    func(badRecord)
	tick   func() // now and then; may be nil

	// whole is told of each record as it stands; may be nil.
	whole func(*input, adapter.Record)

	// seen is told of each event of an input that can be read; may be nil.
	seen func(*input, *events.Event)

	// broken is told of an input that cannot be read to its end. Reading goes on with the next
	// one, unless there is only one.
	broken func(error)

	ignoreArgs map[string][]string // see adapter.Options

	adapters []adapter.Adapter
	names    []string // of their formats
	last     []*input // that was read with them
	order    *order
	err      error
}

// tickEvery is after how many records somebody is told how far it is.
const tickEvery = 1024

// read reads all inputs to their ends.
func (r *reader) read() error {
	if r.tick == nil {
		r.tick = func() {}
	}
	r.order = &order{emit: r.event, bad: r.bad, tick: r.tick}
	for _, in := range r.inputs {
		if err := r.readOne(in); err != nil {
			if r.err != nil || r.broken == nil || len(r.inputs) == 1 {
				return err
			}
			r.broken(err)
		}
	}
	for i, a := range r.adapters {
		if err := a.Flush(r.take(r.last[i])); err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	return r.order.flush()
}

func (r *reader) readOne(in *input) error {
	shared, take := r.adapter(in), r.take(in)
	a := adapter.BranchOf(shared)
	bad := func(f adapter.Fault) { r.bad(newBadRecord(in.name, f)) }
	in.body.Use(in.format.Framing, bad)
	for n := 0; r.err == nil; n++ {
		record, err := in.body.Next()
		if errors.Is(err, io.EOF) && a != shared {
			return a.Flush(take)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && a != shared {
			err = errors.Join(err, a.Flush(take))
		}
		if err != nil {
			return fmt.Errorf("read %s to its end: %w", in.name, err)
		}
		if r.whole != nil {
			r.whole(in, record)
		}
		if in.wraps != "" {
			err = unwrapped(a, record.Bytes, take)
		} else {
			err = a.Decode(record.Bytes, take)
		}
		if err != nil {
			bad(adapter.Fault{Position: record.Position, Reason: err, Raw: record.Bytes})
		}
		if n%tickEvery == 0 {
			r.tick()
		}
	}
	return r.err
}

// unwrapped decodes a record that comes in an envelope.
func unwrapped(a adapter.Adapter, record []byte, take func(*events.Event)) error {
	c, err := envelope.Open(envelope.Message{Value: record})
	if err != nil {
		return err
	}
	return a.Decode(c.Bytes, take)
}

func (r *reader) adapter(in *input) adapter.Adapter {
	for i, name := range r.names {
		if name == in.format.Name {
			r.last[i] = in
			return r.adapters[i]
		}
	}
	a := in.format.New(adapter.Options{IgnoreArgs: r.ignoreArgs})
	r.adapters, r.names, r.last = append(r.adapters, a), append(r.names, in.format.Name), append(r.last, in)
	return a
}

// take returns what an adapter hands the events of an input to. Events of weir's own format
// are taken in the order in which they stand, which is that of the log. All others come
// from recordings that lie side by side, and are put in the order of time.
func (r *reader) take(in *input) func(*events.Event) {
	return func(ev *events.Event) {
		switch {
		case r.err != nil:
			return
		case r.seen != nil:
			r.seen(in, ev)
		}
		if in.format.Name == canonical.Format().Name {
			r.err = r.event(ev)
			return
		}
		r.err = r.order.add(ev)
	}
}

// orderWindow is how many events are held back to be put in order.
const orderWindow = 1 << 17

// order puts events in the order of their times, those of one time as they came. Of
// more than two windows of events it lets the earlier half go.
type order struct {
	emit   func(*events.Event) error
	bad    func(badRecord)
	tick   func()
	held   []held
	window int // 0 means orderWindow
	event  events.Event
}

type held struct {
	at   events.Stamp
	json []byte
}

func (o *order) add(ev *events.Event) error {
	o.held = append(o.held, held{ev.Time, ev.AppendJSON(nil)})
	if n := cmp.Or(o.window, orderWindow); len(o.held) >= 2*n {
		return o.release(n)
	}
	return nil
}

func (o *order) flush() error { return o.release(len(o.held)) }

// release hands over the first n.
func (o *order) release(n int) error {
	slices.SortStableFunc(o.held, func(a, b held) int { return cmp.Compare(a.at, b.at) })
	for i := range o.held[:n] {
		if i%tickEvery == 0 {
			o.tick()
		}
		if err := events.Decode(o.held[i].json, &o.event); err != nil {
			o.bad(newBadRecord("event", adapter.Fault{Reason: err}))
			continue
		}
		if err := o.emit(&o.event); err != nil {
			return err
		}
	}
	o.held = slices.Delete(o.held, 0, n)
	return nil
}
