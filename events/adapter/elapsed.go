package adapter

import "weir/events"

// Elapsed measures how much time passes in a log, by the times of its records. The times come
// from many clocks, of which some are wrong. A wrong clock, even one in the year 9999, neither
// makes the time of the others pass nor keeps it from passing.
//
// Times near each other are of one clock. The elapsed time is that of the clock that runs
// fastest. A time far from all others has three possible causes: it is wrong, its machine is set
// wrong, or it comes after a period without records. The last one is believed when the next
// record lies there as well, or farther on.
//
// It is for one goroutine.
type Elapsed struct {
	near   int64      // how far apart the times of one clock may lie, in ms
	passed int64      // in ms
	clocks []logClock // the one that was used last in front
	record int64      // how many were begun
}

// logClock is one of the clocks that records go by.
type logClock struct {
	at     events.Stamp // its latest time
	passed int64        // until then, in ms
	first  int64        // the first record with a time of it
	known  bool         // another record has confirmed it
	// leap is how far it began ahead of the others, in ms, until that is believed, or
	// another clock is used.
	leap int64
}

// maxClocks bounds the clocks that are distinguished; the one that was not used for the longest
// is forgotten.
const maxClocks = 16

// NewElapsed returns an Elapsed in which times of one clock lie at most near ms apart. A period
// without records counts as near and one.
func NewElapsed(near int64) *Elapsed {
	// A quarter of the range leaves room for sums of two.
	return &Elapsed{near: min(max(near, 1), 1<<61)}
}

// Next begins a record. A single record, with any number of times, is never enough to believe
// that time has leapt.
func (e *Elapsed) Next() { e.record++ }

// Passed is how much time has passed since the first record, in ms. It never runs back.
func (e *Elapsed) Passed() int64 { return e.passed }

// Tell takes a time of the record. It reports whether other records confirm it; none can confirm
// the first.
func (e *Elapsed) Tell(at events.Stamp) bool {
	i := e.nearest(at)
	if i < 0 {
		e.begin(at)
		return len(e.clocks) == 1
	}
	c := e.clocks[i]
	if i > 0 {
		// The previous time is of a separate clock, and does not show that time has passed.
		e.clocks[0].leap = 0
	}
	if e.record > c.first {
		e.believe(&c)
	}
	// It stood still for a while, or another one ran too fast, if it is far behind.
	c.passed = max(c.passed, e.passed-e.near)
	if at > c.at {
		c.passed += int64(at - c.at)
		c.at = at
	}
	e.passed = max(e.passed, c.passed)
	copy(e.clocks[1:i+1], e.clocks[:i])
	e.clocks[0] = c
	return c.known || len(e.clocks) == 1
}

// nearest returns the place of the clock that a time belongs to; -1 for none.
func (e *Elapsed) nearest(at events.Stamp) int {
	found, least := -1, e.near
	for i := range e.clocks {
		apart := int64(at - e.clocks[i].at)
		// Of two equally near clocks it is the one that was used later.
		if apart = max(apart, -apart); apart < least || found < 0 && apart == least {
			found, least = i, apart
		}
	}
	return found
}

// begin begins a clock that is far from all others.
func (e *Elapsed) begin(at events.Stamp) {
	c := logClock{at: at, first: e.record}
	if len(e.clocks) > 0 {
		before := &e.clocks[0]
		latest := before.at
		for i := range e.clocks {
			if e.clocks[i].known {
				latest = max(latest, e.clocks[i].at)
			}
		}
		c.leap = max(0, int64(at-latest))
		// No record went back from where time leapt to, and time goes on from there.
		if c.leap > 0 && e.record > before.first {
			e.believe(before)
		}
	}
	c.passed = e.passed
	if len(e.clocks) < maxClocks {
		e.clocks = append(e.clocks, logClock{})
	}
	copy(e.clocks[1:], e.clocks)
	e.clocks[0] = c
}

// believe treats a clock as one that is not wrong by accident. It counts the period without
// records if the clock began after one.
func (e *Elapsed) believe(c *logClock) {
	c.known = true
	if c.leap > 0 {
		e.passed += min(c.leap, e.near+1)
		c.passed, c.leap = e.passed, 0
	}
}
