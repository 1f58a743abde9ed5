package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/envelope"
)

// BadRecord is a record that could not be read.
//
// Line and Byte are those of the record in its source; of a topic Source has all of it and
// both are 0. Code is that of a DecodeError, or "format".
type BadRecord struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
	Byte   int64  `json:"byte"` // at which it begins, after decompression
	Code   string `json:"code"`
	Reason string `json:"reason"`

	Raw []byte `json:"-"` // the record; good until the function returns that was given the BadRecord
}

// newBad makes a record of a fault. Raw is not copied.
func newBad(source string, f adapter.Fault) BadRecord {
	b := BadRecord{source, f.Line, f.Offset, "format", f.Reason.Error(), f.Raw}
	if d, ok := errors.AsType[*events.DecodeError](f.Reason); ok {
		b.Code = string(d.Code)
		if d.Code == events.CodeMissingField {
			for _, near := range events.Misnamed(f.Raw) {
				if near.Meant == d.Field {
					b.Reason += fmt.Sprintf("; is %q meant?", near.Name)
				}
			}
		}
	}
	return b
}

// Place is where the record stands: the source, and the line of a file.
func (b *BadRecord) Place() string {
	if b.Line == 0 { // of a topic
		return b.Source
	}
	return fmt.Sprintf("%s:%d", b.Source, b.Line)
}

// Reader reads events out of inputs, one after the other. Inputs of one format share
// an adapter, for a recording may be spread over many files. Each input is closed when it
// is read. Files of formats that allow it are read several at a time; the events and their
// order are the same as if they were not.
type Reader struct {
	Inputs []*Input
	// Event takes the events in order. An event is good until it returns, and its error ends
	// the reading.
	Event func(*events.Event) error
	// Bad takes what cannot be read. It is required, like Event.
	Bad func(BadRecord)

	// Tick is called now and then with the number of events read and the share of all inputs, from 0
	// to 1. The share is less than 0 if it is unknown. Tick may be nil.
	Tick func(events int64, share float64)

	// Whole gets each record of weir's own format unchanged; may be nil.
	Whole func(*Input, adapter.Record)

	// Seen gets each event of an input that can be read; may be nil. Several goroutines call it, but
	// only one at a time for one input.
	Seen func(*Input, *events.Event)

	// Broken is called with the error of an input that cannot be read to its end. Reading continues
	// with the next one, unless there is only one.
	Broken func(error)

	IgnoreArgs adapter.IgnoreArgs                    // see adapter.Options
	Silent     func(adapter.Silence)                 // see adapter.Options
	Own        func(record []byte, ev *events.Event) // see adapter.Options
	Unread     func(adapter.Unread)                  // see adapter.Options

	// Workers is how many files are read at a time; 0 is one for each processor.
	Workers int

	// Window is how many events are held back at least to put them in order; 0 is 131,072.
	Window int

	// Jumps is how often logs of weir's own format went back in time by more than jump, and
	// Jump describes the first.
	Jumps int64
	Jump  string

	// What is below is used by the goroutine of Read alone.
	count int64 // of events

	// One for each format, in the order in which they were first needed: this order is that of
	// End.
	adapters []adapter.Adapter
	names    []string // of their formats
	last     []*Input // that was read with them
	order    *order
	err      error
}

// tickEvery is the number of records after which progress is reported.
//
// Reading the clock for each record would measurably slow down the reading.
const tickEvery = 1024

// Read reads all inputs to their ends.
//
// Errors of the callbacks end it. An input that breaks is skipped after the part that was read, if
// there are other inputs and Broken is set.
func (r *Reader) Read() error {
	r.begin()
	// The file of a session is read before those of the agents that it started, whatever they
	// are called.
	slices.SortStableFunc(r.Inputs, func(a, b *Input) int { return cmp.Compare(a.first, b.first) })
	ahead := r.readAhead()
	defer ahead.end()
	for i, in := range r.Inputs {
		was, err := ahead.turn(r, i)
		if !was {
			err = r.One(in)
		}
		if err != nil {
			if r.err != nil || r.Broken == nil || len(r.Inputs) == 1 {
				return err
			}
			r.Broken(err)
		}
	}
	return r.End()
}

// begin makes what puts events in order, when the first input comes.
func (r *Reader) begin() {
	if r.order == nil {
		r.order = &order{window: r.Window, emit: r.Event, bad: r.Bad, tick: r.tick}
	}
}

// End hands over what is held back, after the last input.
//
// It may be called when no input was read. Adapters that wait for more, as for the end of a
// trace, give what they have.
func (r *Reader) End() error {
	for i, a := range r.adapters {
		if err := a.Flush(r.take(r.last[i])); err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	if r.order == nil {
		return nil
	}
	return r.order.flush()
}

// tick reports the progress.
func (r *Reader) tick() {
	if r.Tick != nil {
		r.Tick(r.count, shareOf(r.Inputs))
	}
}

// shareOf is the share of the inputs that was read, less than 0 if it is unknown.
func shareOf(inputs []*Input) float64 {
	var all, done int64
	for _, in := range inputs {
		if in.size == 0 {
			return -1 // a pipe
		}
		all += in.size
		done += in.read.n.Load()
	}
	if done >= all {
		return -1 // only the events that were held back remain to be folded
	}
	return float64(done) / float64(all)
}

// One reads one input to its end: for who gets inputs one after the other. What has to be
// put in order with other inputs is handed over by End.
func (r *Reader) One(in *Input) error {
	r.begin()
	if err := in.wake(); err != nil {
		return err
	}
	defer in.Close()
	take := r.take(in)
	var shared, a adapter.Adapter
	if in.Format.Apart {
		a = in.Format.New(r.options())
	} else {
		shared = r.adapter(in)
		a = adapter.BranchOf(shared)
	}
	bad := func(f adapter.Fault) { r.Bad(newBad(in.Name, f)) }
	in.body.Use(in.Format.Framing, bad)
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
			return broken(in, err)
		}
		if r.Whole != nil {
			r.Whole(in, record)
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

// broken says that an input could not be read to its end.
func broken(in *Input, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read %s to its end: %w; it ends too early: was it copied whole?", in.Name, err)
	}
	return fmt.Errorf("read %s to its end: %w", in.Name, err)
}

// unwrapped decodes a record that comes in an envelope.
func unwrapped(a adapter.Adapter, record []byte, take func(*events.Event)) error {
	c, err := envelope.Open(envelope.Message{Value: record})
	if err != nil {
		return err
	}
	return a.Decode(c.Bytes, take)
}

// adapter returns the adapter that all inputs of a format share, and takes down that this one
// was read with it last: what is flushed at the end comes in its name.
func (r *Reader) adapter(in *Input) adapter.Adapter {
	for i, name := range r.names {
		if name == in.Format.Name {
			r.last[i] = in
			return r.adapters[i]
		}
	}
	a := in.Format.New(r.options())
	r.adapters, r.names, r.last = append(r.adapters, a), append(r.names, in.Format.Name), append(r.last, in)
	return a
}

// options are what each adapter of this reader gets.
func (r *Reader) options() adapter.Options {
	return adapter.Options{IgnoreArgs: r.IgnoreArgs, Silent: r.Silent, Own: r.Own, Unread: r.Unread}
}

// take returns the function that takes the events of an input. All events are put in the order
// of their times. Within a log of weir's own format, events keep the order in which they stand,
// which is the order that a live weir folded, unless the log goes back in time by more than
// jump: then it was joined from several logs.
func (r *Reader) take(in *Input) func(*events.Event) {
	return func(ev *events.Event) {
		if r.err != nil {
			return
		}
		if r.count++; r.Seen != nil {
			r.Seen(in, ev)
		}
		at := ev.Time
		// Collectors return records in any order, often the newest first.
		if in.Format.Name == canonical.Format().Name && len(in.carriers) == 0 {
			at = r.place(in, at)
		}
		r.err = r.order.add(ev, at)
	}
}

// jump is how far a log of weir's own format may go back in time and keep its order. Producers
// send late by less.
const jump = 10 * time.Minute

// place returns the time that puts an event of weir's own format in order: no earlier than the
// events before it in the log, unless the log jumps back.
func (r *Reader) place(in *Input, at events.Stamp) events.Stamp {
	switch {
	case in.last > at.Add(jump) && in.leapt > 0 && at >= in.before.Add(-jump):
		// A few events leapt ahead, and the log goes on where it was: their times are wrong, and
		// they keep their place, where the Clock finds them.
		r.order.place(in.leapt, in.before)
		in.last, in.leapt = in.before, 0
	case in.last > at.Add(jump):
		if r.Jumps++; r.Jumps == 1 {
			r.Jump = fmt.Sprintf("%s: an event of %s stands behind one of %s", in.Name, at.Time().UTC().Format(time.RFC3339), in.last.Time().UTC().Format(time.RFC3339))
		}
		in.last, in.leapt = at, 0
	case at > in.last.Add(leapBy) && in.leapt == 0:
		in.before, in.leapt = in.last, 1
	case in.leapt >= fewest-1:
		in.leapt = 0 // this number of events is believed
	case in.leapt > 0:
		in.leapt++
	}
	in.last = max(in.last, at)
	return in.last
}

// orderWindow is how many events are held back to be put in order.
const orderWindow = 1 << 17

// order puts events in the order of their times, those of one time as they came. Of
// more than two windows of events it lets the earlier half go.
//
// It cannot wait for the end, since logs may be larger than memory. Events that lie further
// apart than the window come out of order, as they would to a running weir.
type order struct {
	emit   func(*events.Event) error
	bad    func(BadRecord)
	tick   func()
	held   []held
	window int    // 0 means orderWindow
	room   []byte // for what is held
}

// held is an event that waits, as JSON: an Event itself is several times as large, and its
// texts belong to the adapter.
type held struct {
	at   events.Stamp
	json []byte
}

// hold writes an event into the room, or into new room. It returns the rest of that room.
//
// Room comes in pieces of 64 KiB, so that many small events are one piece for the garbage collector.
// An event that does not fit grows out of it by itself.
func hold(ev *events.Event, room []byte) (h held, left []byte) {
	if cap(room)-len(room) < 2<<10 {
		room = make([]byte, 0, 64<<10)
	}
	start := len(room)
	room = ev.AppendJSON(room)
	return held{ev.Time, room[start:len(room):len(room)]}, room
}

// add puts an event in order, as one of the time at.
func (o *order) add(ev *events.Event, at events.Stamp) error {
	var h held
	h, o.room = hold(ev, o.room)
	h.at = at
	return o.put(h)
}

// place puts the last n events that came at a time.
func (o *order) place(n int, at events.Stamp) {
	for i := max(0, len(o.held)-n); i < len(o.held); i++ {
		o.held[i].at = at
	}
}

// put takes an event, and lets the earlier half go when there are two windows of them: so each
// is compared with at least a window of others before it goes.
func (o *order) put(h held) error {
	o.held = append(o.held, h)
	if n := cmp.Or(o.window, orderWindow); len(o.held) >= 2*n {
		return o.release(n)
	}
	return nil
}

func (o *order) flush() error { return o.release(len(o.held)) }

// release hands over the first n.
//
// They are decoded by a goroutine of their own, a batch before they are folded: a fold is one
// thing after the other, and has nothing beside it to do once all is read.
func (o *order) release(n int) error {
	slices.SortStableFunc(o.held, func(a, b held) int { return cmp.Compare(a.at, b.at) })
	ready, free, stop := make(chan *batch, batchesAhead), make(chan *batch, batchesAhead), make(chan struct{})
	for range batchesAhead {
		free <- new(batch)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer close(stop)
	running.Go(func() {
		defer close(ready)
		for some := range slices.Chunk(o.held[:n], batchSize) {
			select {
			case b := <-free:
				b.decode(some)
				ready <- b // never full, there are not more of them
			case <-stop:
				return
			}
		}
	})
	done := 0
	for b := range ready {
		if done%tickEvery == 0 {
			o.tick()
		}
		done += b.n
		for i := range b.events[:b.n] {
			if err := b.errs[i]; err != nil {
				o.bad(newBad("event", adapter.Fault{Reason: err}))
			} else if err := o.emit(&b.events[i]); err != nil {
				return err
			}
		}
		free <- b
	}
	o.held = slices.Delete(o.held, 0, n)
	return nil
}

// batch is some events that are decoded before it is their turn.
type batch struct {
	events [batchSize]events.Event
	errs   [batchSize]error
	n      int
}

const (
	batchSize    = 256 // of which tickEvery is a multiple
	batchesAhead = 3
)

func (b *batch) decode(some []held) {
	b.n = len(some)
	for i := range some {
		b.errs[i] = events.Decode(some[i].json, &b.events[i])
	}
}
