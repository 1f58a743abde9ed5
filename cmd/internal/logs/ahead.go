package logs

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"

	"weir/events"
	"weir/events/adapter"
)

// ahead reads inputs before it is their turn, several at a time. Its findings are taken in the order
// of the inputs and of their records, so the result does not depend on the number of workers.
//
// Workers put chunks into found. turn takes them out in the goroutine of Read, where Event, Bad and
// Broken are called. So unpacking and parsing, which are slow, are spread over processors, and the
// steps that need an order stay in order.
type ahead struct {
	inputs  []*Input
	parsers []adapter.Parser // by input; nil where an adapter of its own reads it
	found   []chan chunk     // by input; nil for inputs that are read in their turn
	turns   chan struct{}
	stop    chan struct{}
	running sync.WaitGroup
}

// chunk is what was found in some records.
//
// It is handed on whole, because a channel for each event would cost more than parsing it.
type chunk []finding

// finding is one of four things: an event, a function that emits events in its turn, a record that
// cannot be read, or the reason why an input cannot be read to its end.
//
// deliver is the result of a parser for a record. Called in its turn, it emits the events in the order
// of the shared adapter. Exactly one of the four is set.
type finding struct {
	held    held
	deliver func(emit func(*events.Event))
	bad     *BadRecord
	err     error
}

const (
	// recordsAhead and bytesAhead are the most of an input that a chunk holds. chunksAhead is how many
	// chunks of an input wait for their turn. The product of inputs, chunks and bytes bounds the
	// memory.
	recordsAhead = 1024
	bytesAhead   = 1 << 20
	chunksAhead  = 16

	// inputsAhead is how many inputs may be read at most before the one whose turn it is
	// has ended.
	inputsAhead = 32
)

// readAhead begins to read the inputs that may be read before their turn. There are none without
// workers for them, or with one input alone.
func (r *Reader) readAhead() *ahead {
	workers := r.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	// One file cannot be split: what its records mean depends on those before.
	if workers < 2 || len(r.Inputs) < 2 {
		return nil
	}
	a := &ahead{inputs: r.Inputs, parsers: make([]adapter.Parser, len(r.Inputs)), found: make([]chan chunk, len(r.Inputs)), turns: make(chan struct{}, inputsAhead), stop: make(chan struct{})}
	next := make(chan int)
	for i, in := range r.Inputs {
		if in.wraps != "" || in.size == 0 { // a pipe is read once, and in its turn
			continue
		}
		// Adapters that look at other inputs can be helped only by parsing apart, where they
		// know how.
		if !in.Format.Apart {
			if a.parsers[i], _ = r.adapter(in).(adapter.Parser); a.parsers[i] == nil {
				continue
			}
		}
		a.found[i] = make(chan chunk, chunksAhead)
	}
	// Inputs are given out in their order, each after taking a place in turns, which turn
	// gives back when the input has had its turn. So no worker runs far ahead of what is
	// needed next.
	a.running.Go(func() {
		defer close(next)
		for i := range a.inputs {
			select {
			case a.turns <- struct{}{}:
			case <-a.stop:
				return
			}
			if a.found[i] == nil {
				continue
			}
			select {
			case next <- i:
			case <-a.stop:
				return
			}
		}
	})
	for range workers {
		a.running.Go(func() {
			for i := range next {
				a.read(r, a.inputs[i], a.parsers[i], a.found[i])
			}
		})
	}
	return a
}

// read reads one input by a parser, or by an adapter of its own.
func (a *ahead) read(r *Reader, in *Input, parser adapter.Parser, to chan<- chunk) {
	// Closed last, after the remaining findings were given: turn reads until then.
	defer close(to)
	defer in.Close()
	var out chunk
	size := 0
	give := func() bool {
		select {
		case to <- out:
			out, size = make(chunk, 0, cap(out)), 0
			return true
		case <-a.stop:
			return false
		}
	}
	defer give()
	if err := in.wake(); err != nil {
		out = append(out, finding{err: err})
		return
	}
	bad := func(f adapter.Fault) {
		// The record is reported in its turn. By then, the memory that it was read into is used for
		// others.
		f.Raw = bytes.Clone(f.Raw)
		b := newBad(in.Name, f)
		out = append(out, finding{bad: &b})
	}
	var room []byte // for events
	event := func(ev *events.Event) {
		if r.Seen != nil {
			r.Seen(in, ev)
		}
		var h held
		h, room = hold(ev, room)
		out = append(out, finding{held: h})
	}
	var own adapter.Adapter
	if parser == nil {
		own = in.Format.New(r.options())
	}
	in.body.Use(in.Format.Framing, bad)
	for {
		record, err := in.body.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				out = append(out, finding{err: broken(in, err)})
			}
			if own != nil {
				if err := own.Flush(event); err != nil {
					out = append(out, finding{err: err})
				}
			}
			return
		}
		if own != nil {
			err = own.Decode(record.Bytes, event)
		} else {
			var deliver func(func(*events.Event))
			if deliver, err = parser.Parse(record.Bytes); deliver != nil {
				out = append(out, finding{deliver: deliver})
			}
		}
		if err != nil {
			bad(adapter.Fault{Position: record.Position, Reason: err, Raw: record.Bytes})
		}
		if size += len(record.Bytes); (len(out) >= recordsAhead || size >= bytesAhead) && !give() {
			return
		}
	}
}

// end stops all that read and waits for them.
//
// A nil ahead, which reads nothing, has nothing to end. Files that were open are closed by
// their workers.
func (a *ahead) end() {
	if a != nil {
		close(a.stop)
		a.running.Wait()
	}
}

// turn takes what was found in an input that was read ahead. It is false for one that was not.
//
// It waits for the workers. err is why the input could not be read to its end, after all
// that could be read was taken; a fault of the callbacks is in r.err as well, and ends it at
// once.
func (a *ahead) turn(r *Reader, i int) (was bool, err error) {
	if a == nil {
		return false, nil
	}
	defer func() { <-a.turns }()
	if a.found[i] == nil {
		return false, nil
	}
	in := a.inputs[i]
	if a.parsers[i] != nil {
		r.adapter(in) // which is flushed in the name of the last input
	}
	take := r.take(in)
	for some := range a.found[i] {
		for k := range some {
			switch f := &some[k]; {
			case f.err != nil:
				err = errors.Join(err, f.err)
			case f.bad != nil:
				r.Bad(*f.bad)
			case f.deliver != nil:
				f.deliver(take)
			default:
				r.count++
				r.err = r.order.put(f.held)
			}
			if r.err != nil {
				return true, r.err
			}
		}
		r.tick()
	}
	return true, err
}
