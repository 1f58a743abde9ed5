package pump

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/costs"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// Counts is what the pumps and intakes that share it have counted since it was made. A pump counts in
// its own memory and adds the sums here once for each batch. Rare counters are updated here directly.
// Any goroutine may use it.
type Counts struct {
	mu sync.Mutex // of what follows
	// All of it only grows, so that rates can be made of two readings.
	sum      prom.Counters
	verdicts prom.VerdictCounts
	longest  int64         // calls of the longest flow that was never stopped
	waste    *costs.Ledger // what was spent after a warning or a stop; nil when nothing was

	coverage       sourceCoverage
	uncheckpointed atomic.Int64 // records that would be folded again after a crash
}

// Count has fn count. It must not block, nor keep what it is given.
func (c *Counts) Count(fn func(*prom.Counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(&c.sum)
}

// Sum returns where the counters stand.
func (c *Counts) Sum() prom.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// Verdicts returns how many verdicts with the action were published.
// It adds up all reasons, enforced and in shadow mode.
func (c *Counts) Verdicts(a events.Action) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.verdicts {
		x := &c.verdicts[r][a.Place()]
		n += x[0].N + x[1].N
	}
	return n
}

// verdict counts one that is published. flow is the hash of its flow's key; 0 when it is
// about no flow.
func (c *Counts) verdict(v *events.Verdict, flow uint64, now time.Time) {
	reason, action, shadow := v.Reason.Place(), v.Action.Place(), 0
	// A reason without a place has no counter.
	if reason < 0 {
		return
	}
	if v.Mode == events.ModeShadow {
		shadow = 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &c.verdicts[reason][action][shadow]
	x.N++
	if flow != 0 {
		// The example leads from a figure to one flow behind it.
		x.Last = prom.Example{Flow: flow, At: now}
	}
}

// wasted enters what was spent after a warning or a stop.
// Only these go by name into the ledger, so that honest flows cost a sum (decision 77).
func (c *Counts) wasted(ev *events.Event, spent costs.Spent, when costs.Phase, rule events.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger().Note(ev, spent, when, string(rule))
}

// wastedIn enters what a flow spent after the rule had warned or stopped its tree.
func (c *Counts) wastedIn(spent costs.Spent, when costs.Phase, rule events.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger().NoteRule(spent, when, string(rule))
}

// ledger is where waste is noted. The caller holds the lock.
func (c *Counts) ledger() *costs.Ledger {
	if c.waste == nil {
		c.waste = costs.NewLedger(prom.MostSpenders)
	}
	return c.waste
}

// unstopped notes how many calls a flow had that was never stopped.
func (c *Counts) unstopped(calls int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, calls)
}

// Read fills in where everything stands.
// r is the caller's and may be kept.
func (c *Counts) Read(r *prom.Reading) {
	// The coverage has its own lock, so that counting the events of sources does not wait for a
	// reading.
	r.Coverage = c.coverage.sum()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Counters, r.Verdicts, r.Longest = c.sum, c.verdicts, c.longest
	if c.waste != nil {
		r.Waste = wasteOf(c.waste.Costs())
	}
}

// TroubleOf returns the cause of a failed exchange, as far as it does not depend on the peer. The
// group gives pumps its own function, which also distinguishes Kafka's errors.
func TroubleOf(err error) prom.Trouble {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, state.ErrDiskLow):
		return prom.TroubleDisk
	case errors.As(err, &timeout) && timeout.Timeout():
		return prom.TroubleTimeout
	}
	return prom.TroubleOther
}

// Standing is how one pump stands now. Any goroutine may read it.
// Each field is set by itself, so two of them may be of different moments.
type Standing struct {
	Flows        atomic.Int64 // in memory; agents of an agent stage
	FlowBytes    atomic.Int64 // that they take
	Live         [analyzer.StandingCount]atomic.Int64
	Unsent       atomic.Int64 // verdicts that are not published
	Watermark    atomic.Int64 // latest event time seen, Unix milliseconds
	Next         atomic.Int64 // first offset not folded
	CheckpointMS atomic.Int64 // how long the last checkpoint took
	// Each is set while a write of its kind waits for free space. In a group only checkpoints
	// write to the disk of this machine.
	publishLow, checkpointLow atomic.Bool
	Busy                      atomic.Bool // limits have shrunk, because everything together is busy
	Reporting                 atomic.Bool // some agent reports of itself, as far as is known here
}

// Counted is how much the fold of a replay has taken, dropped and refused so far.
type Counted struct{ Events, Duplicates, TooLate, Refused, Strays int64 }

// Add adds what another fold has counted.
func (c *Counted) Add(o Counted) {
	c.Events, c.Duplicates, c.TooLate, c.Refused, c.Strays = c.Events+o.Events, c.Duplicates+o.Duplicates, c.TooLate+o.TooLate, c.Refused+o.Refused, c.Strays+o.Strays
}

// Repeats is the number of events that were dropped because they were folded before, or are too late
// to be checked for that.
func (c Counted) Repeats() int64 { return c.Duplicates + c.TooLate }

// Called reports whether the event, which was folded between c and now, was a call that was made:
// not one that had been folded before, and not one that was refused when it was asked for.
func (c Counted) Called(ev *events.Event, now Counted) bool {
	return ev.Refusable() && c.Repeats() == now.Repeats() && c.Refused == now.Refused
}

// Counted returns what a pump without a store has counted; those with one add it to their
// Counts. It is for the goroutine that folds.
// The difference of two readings is what one event came to, see Called.
func (p *Pump) Counted() Counted {
	return p.fold.stage.counted(&p.fold.fx.Counts)
}

// DiskLow reports whether a write waits for free space.
func (s *Standing) DiskLow() bool { return s.publishLow.Load() || s.checkpointLow.Load() }
