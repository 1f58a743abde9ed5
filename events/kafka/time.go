package kafka

import (
	"sync"
	"time"

	"weir/events"
)

// brokerTime is what the clocks of the brokers say. It goes on as time passes here, whatever
// the clock of this machine is set to.
//
// So a machine whose clock is wrong judges no silence wrongly.
type brokerTime struct {
	mu sync.Mutex
	at events.Stamp // what was heard last; 0 for nothing
	// heard carries the monotonic clock, which setting the clock of this machine does not
	// move.
	heard time.Time
}

// Heard notes that a broker's clock says at, as in its answer to a record that it took just
// now.
//
// What was heard last counts, also when it is less: the clocks of brokers differ a little.
func (c *Cluster) Heard(at events.Stamp) {
	c.time.mu.Lock()
	defer c.time.mu.Unlock()
	c.time.at, c.time.heard = at, time.Now()
}

// Time is what the brokers' clocks say now; false when no broker has said so yet, as with
// topics whose records have the times that producers say.
func (c *Cluster) Time() (events.Stamp, bool) {
	c.time.mu.Lock()
	defer c.time.mu.Unlock()
	return c.time.at.Add(time.Since(c.time.heard)), c.time.at != 0
}
