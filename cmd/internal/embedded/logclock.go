package embedded

import (
	"fmt"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
)

// logClock is the time of new entries in the journal. It continues as time passes, whatever the
// machine's clock is set to. A clock that is wrong for seconds must not become the log's time, because
// no fold goes back by itself. A clock that stays where it was set is believed after a while. If it is
// then behind the log, the log has to be turned back (see turnBack). Any goroutine may use it. See
// decision 61 for the consequences.
type logClock struct {
	clock clock.Clock
	// begun is when the process began to count; up and since are counted from there.
	begun time.Time

	mu    sync.Mutex
	at    events.Stamp  // the time that was returned last
	up    time.Duration // how long the process had run then
	gap   time.Duration // by which the clock is ahead of the log, or behind when negative, beyond the slack
	since time.Duration // how long the process had run when it was first so
}

const (
	// clockSlack is by how much the clock and the log may differ and be taken for the same.
	clockSlack = 5 * time.Second
	// clockSettles is how long a clock that was set has to stay so to be believed.
	clockSettles = time.Minute
)

// newLogClock returns a clock for a log whose last entry is of the time last; 0 when it has none. The
// downtime of the process is unknown, so a clock ahead is believed. A clock behind the last entry is
// not: the log begins where it was. If the clock stays there, the log is turned back a minute later.
func newLogClock(c clock.Clock, last events.Stamp) *logClock {
	now := c.Now()
	l := &logClock{clock: c, begun: now, at: max(last, events.StampOf(now))}
	l.up = clock.Uptime(c, now, now)
	return l
}

// now returns the time of what is appended now.
// It never goes back but by turned.
func (c *logClock) now() events.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.read()
	return now
}

// read also returns the time of the machine's clock. The caller holds mu. Each call moves the time on
// by what has passed, measured by a clock that is never set. It then compares the result with the
// machine's clock.
func (c *logClock) read() (at, hands events.Stamp) {
	now := c.clock.Now()
	up := clock.Uptime(c.clock, c.begun, now)
	hands = events.StampOf(now)
	at = c.at.Add(max(0, up-c.up))
	switch gap := hands.Sub(at); {
	// Small differences are followed forward and waited out backward.
	case gap.Abs() <= clockSlack:
		at, c.gap = max(c.at, hands), 0
	case c.gap == 0 || (gap-c.gap).Abs() > clockSlack: // it was set, or set again
		c.gap, c.since = gap, up
	// Ahead for a minute: the log follows at once. Behind is for turnBack, since the log
	// has to say so.
	case gap > 0 && up-c.since >= clockSettles:
		at, c.gap = hands, 0
	default:
		c.gap = gap
	}
	c.at, c.up = at, up
	return at, hands
}

// turnBack reports whether the log is to be turned back to the time of the clock, which has
// been behind it for so long that the log is wrong. After turned the log goes on from there.
func (c *logClock) turnBack() (from, to events.Stamp, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, to = c.read()
	return from, to, c.gap < 0 && c.up-c.since >= clockSettles
}

// turned goes on from the time that the log was turned back to, once the record of it
// stands there.
func (c *logClock) turned(to events.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.gap = to, 0
}

// differs says by how much clock and log disagree; "" when they do not.
// It is what /readyz shows.
func (c *logClock) differs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	switch {
	case c.gap > 0:
		return fmt.Sprintf("the clock of this machine is %v ahead of the log, and not believed until it has stayed so for %v", c.gap.Round(time.Second), clockSettles)
	case c.gap < 0:
		return fmt.Sprintf("the clock of this machine is %v behind the log, which is turned back when it has stayed so for %v", -c.gap.Round(time.Second), clockSettles)
	}
	return ""
}
