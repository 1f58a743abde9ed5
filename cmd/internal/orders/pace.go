package orders

import (
	"time"

	"weir/events"
)

// Silent is how long a guard may be silent before it counts as cut off.
const Silent = 4500 * time.Millisecond

// The answer to a heartbeat says when weir expects the next one. A guard sends one at once when an order
// by hand comes, or when a call that it binds has ended.
const (
	// BeatEvery is the interval of a guard that holds an order by hand. BeatMany is the interval if there
	// are more than FewGuards. Both leave time until Silent for a heartbeat that is lost: guards wait a
	// second for its answer, and send it again after a quarter of a second.
	BeatEvery = 2 * time.Second
	BeatMany  = 3 * time.Second
	FewGuards = 300
	// BeatIdle is the interval of a guard that holds none.
	BeatIdle = 20 * time.Second

	// beatSlot separates the moments at which heartbeats come. A process that has nothing else to do wakes
	// up for each heartbeat, which costs more than the heartbeat. One that comes together with others
	// costs half.
	beatSlot = 500 * time.Millisecond
)

// Answer is the answer to a heartbeat.
type Answer struct {
	NextMS int64 `json:"next_ms"` // after which time the next heartbeat is due
}

// pace chooses when guards send heartbeats. The zero pace is ready.
type pace struct {
	turn int64
}

// next returns after what time the next heartbeat of a guard is due, which holds orders or not. It moves
// the guard to the closest slot, so the next heartbeat comes at the end of the interval or up to half a
// slot earlier or later. Guards that hold other orders than before get the slots in turn: all of them send
// a heartbeat when an order comes.
func (p *pace) next(now events.Stamp, guards int, holds, anew bool) time.Duration {
	every := BeatIdle
	switch {
	case holds && guards > FewGuards:
		every = BeatMany
	case holds:
		every = BeatEvery
	}
	slot := beatSlot.Milliseconds()
	off := (int64(now)+slot/2)%slot - slot/2
	if anew {
		every -= beatSlot * time.Duration(p.turn%int64(every/beatSlot))
		p.turn++
	}
	return every - time.Duration(off)*time.Millisecond
}
