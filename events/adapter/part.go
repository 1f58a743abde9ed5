package adapter

import (
	"fmt"

	"weir/events"
)

// PartError says that some of what is in a record could not be read, and that the rest
// was. It wraps the first fault.
//
// Whoever gets one has been told the events of the rest: the record counts as read, and the
// fault is kept beside it.
type PartError struct {
	First   *events.DecodeError
	LeftOut int    // how many were left out
	Of      int    // of how many
	What    string // what they are, such as spans
}

// Error returns the first fault and the figures.
func (e *PartError) Error() string {
	return fmt.Sprintf("%v (%d of %d %s left out)", e.First, e.LeftOut, e.Of, e.What)
}

// Unwrap returns the first fault.
func (e *PartError) Unwrap() error { return e.First }
