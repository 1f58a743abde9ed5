package adapter

import (
	"fmt"

	"weir/events"
)

// PartError says that a part of a record could not be read, and that the rest was. It wraps the
// first fault.
//
// The events of the rest were emitted: the record counts as read, and the fault is kept beside
// it.
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
