package app

import (
	"sync"
	"time"
)

// fakeClock moves only when it is told to.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	up      time.Duration
	waiting []waiting
	asked   chan struct{} // gets one value for each call of After; nobody has to take it
}

type waiting struct {
	until time.Time
	ring  chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), asked: make(chan struct{}, 1)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ring := make(chan time.Time, 1)
	if d <= 0 {
		ring <- c.now
		return ring
	}
	c.waiting = append(c.waiting, waiting{c.now.Add(d), ring})
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return ring
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.up = c.now.Add(d), c.up+d
	kept := c.waiting[:0]
	for _, w := range c.waiting {
		if w.until.After(c.now) {
			kept = append(kept, w)
			continue
		}
		w.ring <- c.now
	}
	c.waiting = kept
}

// set moves the hands while no time passes.
func (c *fakeClock) set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *fakeClock) Uptime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}
