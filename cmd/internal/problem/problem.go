// Package problem is the error type that becomes an HTTP problem response (RFC 9457).
package problem

// Error is an error with an answer.
type Error struct {
	Status     int
	Code       string // of what was wrong with an event
	Field      string // of the event or the request that it was wrong in
	Detail     string // what, and how to go on
	RetryAfter int    // seconds; 0 when the same request is refused again
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }
