package embedded

import (
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
)

// TestLogClock sets the hands of a clock and checks the time of the log.
func TestLogClock(t *testing.T) {
	hands := clock.NewFake()
	begun := events.StampOf(hands.Now())
	c := newLogClock(hands, 0)
	told := func(want time.Duration, differs bool) {
		t.Helper()
		if got := c.now().Sub(begun); got != want {
			t.Errorf("the log is told %v, want %v", got, want)
		}
		if got := c.differs(); (got != "") != differs {
			t.Errorf("clock and log differ: %q", got)
		}
	}
	told(0, false)
	hands.Advance(time.Hour) // time passes without a call
	told(time.Hour, false)

	hands.Set(3 * time.Hour) // ahead for seconds
	told(time.Hour, true)
	hands.Advance(20 * time.Second)
	told(time.Hour+20*time.Second, true)
	hands.Set(-3 * time.Hour)
	told(time.Hour+20*time.Second, false)
	if _, _, ok := c.turnBack(); ok {
		t.Error("the log is turned back")
	}

	hands.Set(20 * time.Minute) // ahead and stays there, as after a sleep of the machine
	told(time.Hour+20*time.Second, true)
	hands.Advance(30 * time.Second)
	hands.Set(20 * time.Minute) // set again: it counts anew
	told(time.Hour+50*time.Second, true)
	hands.Advance(40 * time.Second)
	told(time.Hour+90*time.Second, true)
	hands.Advance(20 * time.Second)
	told(time.Hour+110*time.Second+40*time.Minute, false)

	hands.Set(-40 * time.Minute) // which was wrong
	told(time.Hour+110*time.Second+40*time.Minute, true)
	hands.Advance(clockSettles)
	from, to, ok := c.turnBack()
	if !ok || from.Sub(begun) != time.Hour+170*time.Second+40*time.Minute || to.Sub(begun) != time.Hour+170*time.Second {
		t.Fatalf("from %v to %v, %t", from.Time(), to.Time(), ok)
	}
	c.turned(to)
	told(time.Hour+170*time.Second, false)

	hands.Set(-2 * time.Second) // a small step back never turns the time
	told(time.Hour+170*time.Second, false)
	hands.Advance(3 * time.Second)
	told(time.Hour+171*time.Second, false)

	if c := newLogClock(hands, begun.Add(10*time.Hour)); c.now() != begun.Add(10*time.Hour) || c.differs() == "" {
		t.Error("a log that is ahead at the start goes back by itself")
	}
}
