package check

import (
	"context"
	"errors"

	"weir/events"
)

// Asked is one of several asks that are made together.
type Asked struct {
	Context context.Context // of who asks
	Event   *events.Event
	Raw     []byte // the event as JSON, as it goes into the log

	Verdict *events.Verdict // the answer, when it is known
	Err     error           // or why there will be none
	// Wait waits for the answer, which is in neither of those then. It is nil when it is in one.
	Wait func() (*events.Verdict, error)
}

// Answer returns the answer, for which it waits if it has to. The error may be a *Panic.
func (q *Asked) Answer() (v *events.Verdict, err error) {
	if q.Wait == nil {
		return q.Verdict, q.Err
	}
	if fault := Caught(func() error { v, err = q.Wait(); return nil }); fault != nil {
		return nil, fault
	}
	return v, err
}

// done reports whether nothing refers to the event and its line any more.
func (q *Asked) done() bool {
	_, fault := errors.AsType[*Panic](q.Err)
	return q.Wait == nil && !fault
}
