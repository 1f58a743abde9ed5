package logs

import (
	"fmt"
	"slices"
	"time"

	"weir/events"
)

// Clock gives events a time of the log that files have no other of: a running weir writes down
// when it took each event, and believes no producer who is ahead of that. An event far ahead
// of most of those behind it is said to have been appended (events.Event.Appended) at the
// time that the log had come to, and so the fold takes it. Without that one line of the year
// 9999 would let the deadlines of all flows fire with each of their events, and no loop
// would be seen any more.
//
// It holds events back only where one leaps ahead. It is for one goroutine.
type Clock struct {
	fold func(*events.Event) error
	// Ahead is how many events were far ahead, and First the time of the first of them.
	Ahead int64
	First events.Stamp

	now     events.Stamp // the latest time that is believed; 0 before the first
	passed  int          // events that were folded
	waiting []held       // the first of them leaps ahead
	room    []byte
	event   events.Event // for those that waited
}

const (
	// leapBy is how far ahead of the log an event has to be to be looked at. Clocks of
	// machines that are set well lie within it.
	leapBy = 5 * time.Minute
	// witnesses is how many events behind it are looked at, and fewest how many of them at
	// least have to be behind it in time as well: a single one may be late itself.
	witnesses = 64
	fewest    = 4
	// unlikely is the leap that a few events at the end of a log are not believed to make:
	// those that are put into the order of time come there, however wrong theirs is.
	unlikely = 365 * 24 * time.Hour
)

// NewClock returns the clock of a log that fold folds. An error of fold ends it.
func NewClock(fold func(*events.Event) error) *Clock { return &Clock{fold: fold} }

// Take takes the next event of the log, which is good until Take returns.
func (c *Clock) Take(ev *events.Event) error {
	if len(c.waiting) == 0 && !c.leaps(ev.Time) {
		c.pass(ev.Time)
		return c.fold(ev)
	}
	var h held
	h, c.room = hold(ev, c.room)
	c.waiting = append(c.waiting, h)
	if len(c.waiting) <= witnesses {
		return nil
	}
	return c.release(witnesses)
}

// End folds what is held back.
func (c *Clock) End() error { return c.release(0) }

// leaps reports whether a time is far ahead of the log. That of the first event may be.
func (c *Clock) leaps(at events.Stamp) bool { return at > c.now.Add(leapBy) }

// pass moves the log's time on.
func (c *Clock) pass(at events.Stamp) {
	c.now = max(c.now, at)
	c.passed++
}

// release folds events that wait, as long as the first of them leaps ahead of no more than
// left, and those behind them that do not leap.
func (c *Clock) release(left int) error {
	n := 0
	var err error
	for ; n < len(c.waiting) && err == nil; n++ {
		h, rest := &c.waiting[n], c.waiting[n+1:]
		leaps := c.leaps(h.at)
		if leaps && len(rest) < left {
			break
		}
		// What was read once is read again.
		if err = events.Decode(h.json, &c.event); err != nil {
			return fmt.Errorf("an event that waited: %w", err)
		}
		if leaps && c.wrong(h.at, rest) {
			if c.Ahead++; c.Ahead == 1 {
				c.First = h.at
			}
			c.event.Appended = c.now
			c.passed++
		} else {
			c.pass(h.at)
		}
		err = c.fold(&c.event)
	}
	c.waiting = slices.Delete(c.waiting, 0, n)
	return err
}

// wrong reports whether a time that leaps ahead is one that the events behind it speak against.
// A log that begins with one gets its time from them.
func (c *Clock) wrong(at events.Stamp, rest []held) bool {
	var before []events.Stamp
	for i := range rest {
		if at > rest[i].at.Add(leapBy) {
			before = append(before, rest[i].at)
		}
	}
	if len(before) >= fewest && 2*len(before) > len(rest) {
		if c.now == 0 {
			slices.Sort(before)
			c.now = before[len(before)/2]
		}
		return true
	}
	return c.now != 0 && at > c.now.Add(unlikely) && len(rest) < min(witnesses/2, c.passed)
}
