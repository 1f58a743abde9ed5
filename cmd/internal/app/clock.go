package app

import "time"

// Clock is the only source of wall-clock time in this package, so that tests need
// not sleep. The fold never sees it: there time comes from the log.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
