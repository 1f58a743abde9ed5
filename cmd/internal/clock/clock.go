// Package clock is where wall-clock time comes from, so that tests need not sleep. The
// fold never sees it: there time comes from the log.
package clock

import "time"

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// System is the clock of the machine.
type System struct{}

// Now is time.Now.
func (System) Now() time.Time { return time.Now() }

// After is time.After.
func (System) After(d time.Duration) <-chan time.Time { return time.After(d) }
