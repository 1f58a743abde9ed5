package check

import (
	"context"

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

// Answer is the answer, for which it waits if it has to.
func (q *Asked) Answer() (*events.Verdict, error) {
	if q.Wait != nil {
		return q.Wait()
	}
	return q.Verdict, q.Err
}
