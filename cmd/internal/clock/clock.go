// Package clock provides wall-clock time, so that tests need no sleep. The fold never sees it: there time comes from
// the log.
package clock

import "time"

// Clock returns the time and waits.
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

// Uptime is how long a clock has run at a reading of it, now, since an earlier one, begun,
// whatever its hands were set to meanwhile: what a system's clock returns knows that, see
// time.Time.Sub.
func Uptime(c Clock, begun, now time.Time) time.Duration {
	if u, ok := c.(interface{ Uptime() time.Duration }); ok {
		return u.Uptime()
	}
	return now.Sub(begun)
}
