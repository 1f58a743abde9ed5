package clock

import (
	"sync"
	"time"
)

// Fake is a clock for tests. It moves only when a test moves it. Make it with NewFake.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	up      time.Duration
	waiting []waiting
	asked   chan struct{}
}

type waiting struct {
	until time.Duration // by Uptime: hands that are set move no timer
	ring  chan time.Time
}

// NewFake returns a clock that stands still.
func NewFake() *Fake {
	return &Fake{now: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), asked: make(chan struct{}, 1)}
}

// Now is the time that was set last.
func (c *Fake) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After waits until the clock has moved so far.
func (c *Fake) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ring := make(chan time.Time, 1)
	if d <= 0 {
		ring <- c.now
		return ring
	}
	c.waiting = append(c.waiting, waiting{c.up + d, ring})
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return ring
}

// Asked gets one value for each call of After that waits; a test need not receive it.
func (c *Fake) Asked() <-chan struct{} { return c.asked }

// Advance moves the clock and wakes the callers whose time has come.
func (c *Fake) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.up = c.now.Add(d), c.up+d
	kept := c.waiting[:0]
	for _, w := range c.waiting {
		if w.until > c.up {
			kept = append(kept, w)
			continue
		}
		w.ring <- c.now
	}
	c.waiting = kept
}

// Set moves the hands of the clock, forward or back, while no time passes.
func (c *Fake) Set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Uptime is how long it has run, wherever its hands were set to.
func (c *Fake) Uptime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}
