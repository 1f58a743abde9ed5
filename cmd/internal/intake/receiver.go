package intake

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/intake/spool"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
	"weir/sink/prom"
	"weir/state"
)

// Receiver takes records of foreign formats that programs send: spans, logs, runs. An adapter may hold
// back records until their trace is over, but they were acknowledged already. So the records are kept
// in a spool until none of them is needed any more. After a crash they are passed to a new adapter;
// events that come twice have the same ids. One lock covers all of it: formats share a spool, in which
// places grow, and requests wait for each other. Any goroutine may call Take.
type Receiver struct {
	in *Intake

	// mu guards what follows.
	mu          sync.Mutex
	spool       *spool.Spool
	sources     map[string]*source // by name of the format
	entries     []state.Entry      // not in the log yet
	deadLetters []state.DeadLetter
	// from says whose right and word the events have that an adapter is making just now.
	from  gate.Source // of the record that is read
	taken int         // records since the spool was cleared
	// idle is when the last record of any format came.
	idle time.Time
}

// source is one format that is received.
type source struct {
	format  adapter.Format
	adapter adapter.Adapter
	from    gate.Source
	held    bool // something may be held back
}

// LangSmith is the format of runs.
// It is named here because its senders have another right than those of spans, see
// gate.Runs.
const LangSmith = "langsmith"

// clearEvery is after how many records the spool is asked what it still needs.
// The question looks at all that an adapter remembers (see adapter.Keeper).
const clearEvery = 64

// openReceiver reads the records that were acknowledged and not appended before weir ended. A damaged
// spool does not prevent the start. The loss is counted and logged, and cannot be recovered.
func openReceiver(in *Intake) (*Receiver, error) {
	r := &Receiver{in: in, sources: make(map[string]*source), idle: in.o.Clock.Now()}
	dir := ""
	if in.o.StateDir != "" {
		dir = filepath.Join(in.o.StateDir, "received")
	}
	var damaged, err error
	r.spool, damaged, err = spool.Open(dir, spool.Options{}, func(place int64, record []byte) {
		// The name of the format stands before the record, see Take.
		name, record, _ := bytes.Cut(record, []byte("\n"))
		if s, err := r.source(string(name)); err == nil {
			// Its faults were reported when it came.
			_ = r.decode(s, place, record)
		}
	})
	if err != nil {
		return nil, err
	}
	if damaged != nil {
		in.o.Counts.Count(func(n *prom.Counters) { n.Reject(events.CodeLost) })
		in.o.Logger.Error("spans that were received before weir ended are lost", "error", damaged)
	}
	return r, nil
}

// run appends what was read at the start, and what is held back when nothing has come for a while. A
// fault of the log is logged and retried, because the events stay where they are.
func (r *Receiver) run(ctx context.Context) error {
	for {
		if err := r.rest(ctx); err != nil && ctx.Err() == nil {
			r.in.o.Logger.Warn("what was received cannot be taken in; it is tried again", "error", err)
		}
		if err := retry.Pause(ctx, r.in.o.Clock, flushAfter/2); err != nil {
			return err
		}
	}
}

// rest appends what is waiting. It lets adapters emit what they hold back once no record of any format
// has come for flushAfter. After that the spool may be empty.
func (r *Receiver) rest(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.append(ctx); err != nil {
		return err
	}
	if r.in.o.Clock.Now().Sub(r.idle) < flushAfter {
		return nil
	}
	for _, s := range r.sources {
		if !s.held {
			continue
		}
		r.from = s.from
		if err := s.adapter.Flush(r.event); err != nil {
			r.in.o.Logger.Error("what was held back cannot be told", "format", s.format.Name, "error", err)
		}
		s.held = false
	}
	if err := r.append(ctx); err != nil {
		return err
	}
	return r.clear()
}

// source returns the one of a format; the error is that there is none of that name. The
// caller holds the lock.
func (r *Receiver) source(name string) (*source, error) {
	if s, ok := r.sources[name]; ok {
		return s, nil
	}
	format, err := registry.Lookup(name)
	if err != nil {
		return nil, err
	}
	s := &source{format: format, from: gate.Spans}
	s.adapter = r.in.adapter(format)
	if name == LangSmith {
		s.from = gate.Runs
	}
	r.sources[name] = s
	return s, nil
}

// Take takes one record. When it returns, the events that are complete are in the log,
// and the rest is on the disk. A part of the record that cannot be read is an
// *adapter.PartError, a record that cannot be read at all another error that wraps a
// *events.DecodeError; both became dead letters. After any other error the sender may
// send it again.
func (r *Receiver) Take(ctx context.Context, format string, record []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.source(format)
	if err != nil {
		return err
	}
	if err := r.append(ctx); err != nil { // what an earlier request has left
		return err
	}
	place := r.spool.Next()
	if _, keeps := s.adapter.(adapter.Keeper); keeps {
		// Before it is decoded: what the adapter holds back of it is acknowledged by the
		// answer. Adapters that hold nothing back need no spool.
		if place, err = r.spool.Append(append([]byte(format+"\n"), record...)); err != nil {
			return &problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 5}
		}
	}
	fault := r.decode(s, place, record)
	if fault != nil {
		code := adapter.CodeOf(fault)
		if r.in.o.DeadLetters.Keep(&r.in.o.DeadLetters.Receiver, code, len(record)) {
			d := r.in.o.DeadLetters.New("http/"+format, place, code, fault.Error(), bytes.Clone(record[:min(len(record), state.MaxRaw)]))
			d.Size = int64(len(record))
			r.deadLetters = append(r.deadLetters, d)
		}
	}
	if err := r.append(ctx); err != nil {
		return err
	}
	if r.taken++; r.taken >= clearEvery {
		if err := r.clear(); err != nil {
			r.in.o.Logger.Error("the spool cannot be cleared", "error", err)
		}
	}
	return fault
}

// decode makes events of a record, which stay in entries until they are appended. The error
// is for the sender; all that could be read is taken all the same.
func (r *Receiver) decode(s *source, place int64, record []byte) error {
	if k, ok := s.adapter.(adapter.Keeper); ok {
		k.At(place)
		s.held = true
	}
	r.idle, r.from = r.in.o.Clock.Now(), s.from
	return adapter.DecodeWhole(s.adapter, record, r.event)
}

// event takes over what an adapter has made. An event that may not come from there, or is
// not fit for the log, is a dead letter: the sender's record is good, and its other events
// are taken.
func (r *Receiver) event(ev *events.Event) {
	r.in.o.Trust.Weigh(r.from, ev)
	ev.Principal = "" // weir writes it, and this intake identifies no sender
	line, err := ev.Canonical()
	if refused := r.from.Admit(ev); refused != nil {
		err = refused
	}
	if err != nil {
		code := adapter.CodeOf(err)
		if r.in.o.DeadLetters.Keep(&r.in.o.DeadLetters.Receiver, code, len(line)) {
			r.deadLetters = append(r.deadLetters, r.in.o.DeadLetters.New("http", 0, code, "of the event that was made of it: "+err.Error(), line))
		}
		return
	}
	r.entries = append(r.entries, state.Entry{Value: line})
}

// append puts what was gathered into the log. After an error it is still there, because the adapter
// does not emit it again.
func (r *Receiver) append(ctx context.Context) error {
	if len(r.deadLetters) > 0 {
		if err := r.in.o.Store.DeadLetter(r.deadLetters...); err != nil {
			return err
		}
		r.deadLetters = r.deadLetters[:0]
	}
	if len(r.entries) == 0 {
		return nil
	}
	if err := r.in.o.Log.Append(ctx, r.entries); err != nil {
		return err
	}
	clear(r.entries)
	r.entries = r.entries[:0]
	return nil
}

// clear removes from the spool what nothing needs any more.
// A place is needed as long as one adapter needs it, for the spool is common to all.
func (r *Receiver) clear() error {
	r.taken = 0
	oldest := r.spool.Next()
	for _, s := range r.sources {
		if k, ok := s.adapter.(adapter.Keeper); ok {
			if place, needed := k.Oldest(); needed {
				oldest = min(oldest, place)
			}
		}
	}
	return r.spool.Forget(oldest)
}
