package adapter

import (
	"time"

	"weir/events"
)

// Epoch is when logs without times begin: 1 January 2026, UTC.
const Epoch events.Stamp = 1767225600000

// Pace is the time between the records of a log without times. Such a log must not set
// off rules about rates and bursts, nor be given the room of one that takes its time:
// at this pace a talk of two stays below the rates, and tool calls that are less than
// ten records apart are still made without pause.
const Pace = 2 * time.Second

// Clock makes up times for records that have none: they happen one Pace after the
// record before them.
// last is in event time; zero before the first record.
type Clock struct{ last events.Stamp }

// At returns logged, or a time that it makes up when logged is zero.
//
// A logged time moves the clock, also backwards: the times of a log are not corrected here.
func (c *Clock) At(logged events.Stamp) events.Stamp {
	switch {
	case logged != 0:
		c.last = logged
	case c.last == 0:
		c.last = Epoch
	default:
		c.last = c.last.Add(Pace)
	}
	return c.last
}
