package check

import (
	"context"
	"errors"

	"weir/events"
)

// Request is one check request of a batch.
type Request struct {
	Context context.Context // of the caller
	Event   *events.Event
	Raw     []byte // the event as JSON, as it goes into the log
	// Decoded says that Event was read by events.Decode, and that Raw is its canonical form or what
	// it was read from.
	Decoded bool

	Verdict *events.Verdict // the answer, when it is known
	Err     error           // or why there will be none
	// Wait waits for the answer when neither of those is set; else it is nil.
	Wait func() (*events.Verdict, error)
}

// Checker answers the check requests of a batch; a single request is a batch of one. It appends
// their events and sets what the fold said of each. It does not wait for an answer that takes long:
// the request's Wait does. It keeps no event and no line beyond the answer.
// An error may be ErrTimeout, see there; others are passed to Fail as they are.
type Checker func(batch []*Request)

// one checks one call by itself, and waits for the answer. A panic is the caller's.
func (c Checker) one(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	q := Request{Context: ctx, Event: ev, Raw: raw}
	c([]*Request{&q})
	if q.Wait != nil {
		return q.Wait()
	}
	if fault, ok := errors.AsType[*Panic](q.Err); ok {
		panic(fault)
	}
	return q.Verdict, q.Err
}

// all checks a batch. If that panics, the requests without an answer fail with a *Panic.
func (c Checker) all(batch []*Request) {
	fault := Caught(func() error { c(batch); return nil })
	for _, q := range batch {
		if fault != nil && q.Verdict == nil && q.Err == nil && q.Wait == nil {
			q.Err = fault
		}
	}
}

// Sift returns the requests of a batch for which keep is true, in their order. It leaves the batch as
// it is: mostly all are kept, and then it is the result.
func Sift(batch []*Request, keep func(q *Request) bool) []*Request {
	for i, q := range batch {
		if keep(q) {
			continue
		}
		kept := append(make([]*Request, 0, len(batch)-1), batch[:i]...)
		for _, q := range batch[i+1:] {
			if keep(q) {
				kept = append(kept, q)
			}
		}
		return kept
	}
	return batch
}

// Answer returns the answer, for which it waits if it has to. The error may be a *Panic.
func (q *Request) Answer() (v *events.Verdict, err error) {
	if q.Wait == nil {
		return q.Verdict, q.Err
	}
	if fault := Caught(func() error { v, err = q.Wait(); return nil }); fault != nil {
		return nil, fault
	}
	return v, err
}

// Logged returns the event as events.Decode reads it from Raw; nil when the two may differ: raw
// values lose line breaks on the way, and a line that became too long is no event.
func (q *Request) Logged() *events.Event {
	if !q.Decoded || len(q.Raw) > events.MaxEventBytes || len(q.Event.Tool.Args) > 0 {
		return nil
	}
	return q.Event
}

// done reports whether nothing refers to the event and its line any more.
func (q *Request) done() bool {
	_, fault := errors.AsType[*Panic](q.Err)
	return q.Wait == nil && !fault
}
