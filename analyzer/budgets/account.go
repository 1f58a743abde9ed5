package budgets

import (
	"slices"

	"weir/events"
)

// Bounds of an account, which keep its record small.
const (
	buckets = 60 // of a rolling window, which is exact to a sixtieth
	// MaxClaims is for how many flows something is reserved one by one, or how many know of a block.
	// The one silent longest gives way; what is reserved for it stays reserved until it would have
	// been given back.
	MaxClaims = 384
	// most keeps sums of sums from overflowing.
	most = 1 << 60
)

// Account is what is spent of one budget by one value of its scope. The zero Account is one of
// which nothing was seen. It belongs to the goroutine that folds it.
type Account struct {
	// Kind and Measure are those of the budget: with others the account begins anew.
	Kind    Kind
	Measure Measure
	Began   events.Stamp // when something was spent, or asked for, first; 0 for never
	// Start and End are of the window at hand. End is 0 for a rolling one.
	Start, End events.Stamp
	Spent      int64 // in the window
	newest     int64 // of a rolling window, the bucket that counts now
	counts     [buckets]int64

	Granted    int64 // by persons, more than the budget
	GrantEnds  events.Stamp
	Refused    uint32 // checks, in the window
	Beyond     int64  // spent beyond the budget, in the window: reports of calls that no check allowed
	Last       events.Stamp
	Before     Past // the window before
	Order      Order
	claims     []claim
	lost       int64 // reserved for flows that gave way
	lostExpire events.Stamp
}

// Past is a window that is over.
type Past struct {
	Start, End     events.Stamp
	Spent, Granted int64
}

// Order is what was last sent to people and dispatchers. The zero Order is nothing.
type Order struct {
	Warned   bool // that Soft was reached
	Used     bool // that the budget is used up
	Since    events.Stamp
	Issued   events.Stamp
	Expires  events.Stamp
	Due      events.Stamp // when it is renewed, or ends
	Tried    uint32       // calls since it was issued
	Limits   uint32       // by which limits it was given, see standing.VersionOf
	Revision int64
}

// claim is a flow that has something reserved, or knows of a block.
type claim struct {
	flow  uint64 // hash of its key
	held  int64
	calls uint32 // that were allowed and have no result
	seen  events.Stamp
	told  events.Stamp // until when it knows of a block; 0 for never
}

// Reset forgets everything but keeps the memory.
func (a *Account) Reset() { *a = Account{claims: a.claims[:0]} }

// Roll begins the window that a time is in, and gives back what was reserved for flows that were
// silent since idle. It reports whether another window began.
func (a *Account) Roll(b *Budget, at events.Stamp, idle events.Stamp) (anew bool) {
	if a.Began != 0 && (a.Kind != b.Scope.Kind || a.Measure != b.Measure) {
		a.Reset()
	}
	a.Kind, a.Measure = b.Scope.Kind, b.Measure
	a.release(idle)
	if at >= a.lostExpire {
		a.lost = 0
	}
	anew = a.turn(b, at)
	if a.GrantEnds != 0 && at >= a.GrantEnds {
		a.Granted, a.GrantEnds = 0, 0
	}
	return anew
}

// turn begins the window that a time is in.
func (a *Account) turn(b *Budget, at events.Stamp) (anew bool) {
	if a.Began == 0 {
		a.Began = at
		a.begin(b, at)
		return false
	}
	if b.Window.Rolling {
		if a.End != 0 { // it was of the calendar by the limits before
			a.begin(b, at)
			return true
		}
		a.slide(b, at)
		return false
	}
	if a.End != 0 && at < a.End {
		return false
	}
	a.Before = Past{a.Start, a.End, a.Spent, a.Granted}
	end := a.End
	a.begin(b, at)
	a.Start = max(a.Start, end)
	return true
}

// begin begins the window that a time is in.
func (a *Account) begin(b *Budget, at events.Stamp) {
	a.Spent, a.counts, a.Refused, a.Beyond = 0, [buckets]int64{}, 0, 0
	if b.Window.Rolling {
		a.newest, a.End = int64(at/bucketOf(b)), 0
		a.Start = max(a.Began, at-b.Window.rolling())
		return
	}
	a.Granted, a.GrantEnds = 0, 0 // a grant is of one window
	a.Start, a.End = b.Window.Around(at)
}

// bucketOf is how long one bucket counts, in milliseconds.
func bucketOf(b *Budget) events.Stamp { return b.Window.rolling() / buckets }

// slide forgets the buckets that have left a rolling window.
func (a *Account) slide(b *Budget, at events.Stamp) {
	now := int64(at / bucketOf(b))
	for i := a.newest + 1; i <= now && i <= a.newest+buckets; i++ {
		a.Spent -= a.counts[i%buckets]
		a.counts[i%buckets] = 0
	}
	if now > a.newest {
		a.newest, a.Refused = now, 0
	}
	a.Start = max(a.Began, at-b.Window.rolling())
}

// Used reports whether nothing is left of the budget for a call, whatever is reserved.
func (a *Account) Used(b *Budget) bool {
	limit := a.Limit(b)
	return limit != Off && limit-a.Spent < max(1, b.Need(0))
}

// FreeAt is when a rolling window holds so much less that a call has room; the end of the window of a
// calendar.
func (a *Account) FreeAt(b *Budget) events.Stamp {
	if !b.Window.Rolling {
		return a.End
	}
	left, limit := a.Spent, a.Limit(b)-max(1, b.Need(0))+1
	for i := a.newest - buckets + 1; i <= a.newest; i++ {
		if i < 0 {
			continue
		}
		if left -= a.counts[i%buckets]; left < limit {
			return events.Stamp(i+buckets) * bucketOf(b)
		}
	}
	return events.Stamp(a.newest+buckets) * bucketOf(b)
}

// release takes out the flows that were silent since a time.
func (a *Account) release(since events.Stamp) {
	if len(a.claims) > 0 {
		a.claims = slices.DeleteFunc(a.claims, func(c claim) bool { return c.seen <= since })
	}
}

// Limit is how much may be spent in the window.
func (a *Account) Limit(b *Budget) int64 {
	if b.Hard == Off || b.Hard > most-a.Granted {
		return b.Hard
	}
	return b.Hard + a.Granted
}

// Reserved is what is set aside for calls that were allowed.
func (a *Account) Reserved() int64 {
	n := a.lost
	for i := range a.claims {
		n += a.claims[i].held
	}
	return n
}

// Room is what is neither spent nor reserved; below 0 where reports have spent more.
func (a *Account) Room(b *Budget) int64 {
	limit := a.Limit(b)
	if limit == Off {
		return Off
	}
	return limit - a.Spent - a.Reserved()
}

// Need is how much room a call needs that spends so much as far as is known. A call of nothing
// needs room as well where what it takes is not known before it is made.
func (b *Budget) Need(n int64) int64 {
	switch {
	case b.Measure == Spawns || b.Measure == BackgroundSpawns:
		return n
	case b.Measure == Calls:
		return max(1, n)
	}
	return max(1, b.Reserve)
}

// Allow notes a call of a flow that a check allows: it is spent where that is known, else reserved.
func (a *Account) Allow(b *Budget, flow uint64, n int64, at, idle events.Stamp) {
	if b.Measure.Counted() {
		a.add(b, n, at)
		return
	}
	if b.Reserve == 0 {
		return
	}
	c := a.claim(flow, at, idle)
	c.calls++
	c.held += b.Reserve
}

// Withdraw takes an allowance back that another budget, or the tree of the flow, has refused.
func (a *Account) Withdraw(b *Budget, flow uint64, n int64) {
	if b.Measure.Counted() {
		n = min(n, a.Spent)
		a.Spent -= n
		for i := a.newest; i > a.newest-buckets && i >= 0 && n > 0 && b.Window.Rolling; i-- {
			less := min(n, a.counts[i%buckets])
			a.counts[i%buckets] -= less
			n -= less
		}
		return
	}
	a.Settle(b, flow)
}

// Spend notes what a flow has spent without a check, at a time that may be long past: what belongs
// to the window before counts there. What the flow had reserved is used first.
func (a *Account) Spend(b *Budget, flow uint64, n int64, when, at events.Stamp) {
	if i := a.find(flow); i >= 0 {
		c := &a.claims[i]
		c.seen = max(c.seen, at)
		c.held -= min(c.held, n)
	}
	limit := a.Limit(b)
	before := a.Spent
	a.add(b, n, when)
	if over := a.Spent - limit; limit != Off && over > 0 {
		a.Beyond = min(most, a.Beyond+min(over, a.Spent-before))
	}
}

// Settle notes that one call of a flow has its result: nothing is reserved for it any more.
func (a *Account) Settle(b *Budget, flow uint64) {
	i := a.find(flow)
	if i < 0 {
		return
	}
	c := &a.claims[i]
	c.calls -= min(1, c.calls)
	c.held = min(c.held, int64(c.calls)*b.Reserve)
}

// EndFlow notes that a flow is over.
func (a *Account) EndFlow(flow uint64) {
	if i := a.find(flow); i >= 0 {
		a.claims = slices.Delete(a.claims, i, i+1)
	}
}

// add adds to the window that a time is in, which is the one at hand or the one before.
func (a *Account) add(b *Budget, n int64, when events.Stamp) {
	n = max(0, n)
	switch {
	case b.Window.Rolling:
		i := min(a.newest, int64(when/bucketOf(b)))
		if i <= a.newest-buckets {
			return // it has left the window
		}
		a.counts[i%buckets] = min(most, a.counts[i%buckets]+n)
		a.Spent = min(most, a.Spent+n)
	case when >= a.Start:
		a.Spent = min(most, a.Spent+n)
	case when >= a.Before.Start && a.Before.End != 0:
		a.Before.Spent = min(most, a.Before.Spent+n)
	}
}

// find is the place of a flow among the claims; -1 for none.
func (a *Account) find(flow uint64) int {
	return slices.IndexFunc(a.claims, func(c claim) bool { return c.flow == flow })
}

// claim returns the claim of a flow, a new one if need be.
func (a *Account) claim(flow uint64, at, idle events.Stamp) *claim {
	i := a.find(flow)
	if i < 0 {
		if len(a.claims) == MaxClaims {
			a.giveWay(idle)
		}
		a.claims = append(a.claims, claim{flow: flow})
		i = len(a.claims) - 1
	}
	c := &a.claims[i]
	c.seen = max(c.seen, at)
	return c
}

// giveWay takes out the flow that has the least reserved, of several the one silent longest. What it
// has reserved is kept until its silence would have given it back, so that no budget is exceeded.
func (a *Account) giveWay(idle events.Stamp) {
	least := 0
	for i := range a.claims {
		c, l := &a.claims[i], &a.claims[least]
		if c.held < l.held || c.held == l.held && c.seen < l.seen {
			least = i
		}
	}
	if c := &a.claims[least]; c.held > 0 {
		a.lost, a.lostExpire = min(most, a.lost+c.held), max(a.lostExpire, c.seen+idle)
	}
	a.claims = slices.Delete(a.claims, least, least+1)
}

// Tell reports whether a flow knows of no block, and notes that it knows of one until a time.
func (a *Account) Tell(flow uint64, at, until, idle events.Stamp) bool {
	if i := a.find(flow); i >= 0 && a.claims[i].told > at {
		a.claims[i].seen = max(a.claims[i].seen, at)
		return false
	}
	a.claim(flow, at, idle).told = until
	return true
}

// Untell forgets which flows know of a block.
func (a *Account) Untell() {
	for i := range a.claims {
		a.claims[i].told = 0
	}
}

// Grant adds to the budget of the window at hand, or to what is spent and reserved where that is
// more. It expires with the window, a grant for a rolling one a period later.
func (a *Account) Grant(b *Budget, extra int64, expires, at events.Stamp) {
	if b.Hard == Off || extra <= 0 {
		return
	}
	base := max(a.Limit(b), a.Spent+a.Reserved())
	a.Granted = min(most, base-b.Hard+extra)
	end := a.End
	if b.Window.Rolling {
		end = at + b.Window.rolling()
	}
	if expires != 0 {
		end = min(end, expires)
	}
	a.GrantEnds = max(a.GrantEnds, end)
}

// Due is when the account wants to be looked at even if nothing comes; 0 for never.
func (a *Account) Due() (at events.Stamp) {
	if a.Order.Used {
		at = a.Order.Due
	}
	if a.End != 0 && (a.Spent > 0 || a.Order.Used || a.Order.Warned) && (at == 0 || a.End < at) {
		at = a.End
	}
	if a.GrantEnds != 0 && (at == 0 || a.GrantEnds < at) {
		at = a.GrantEnds
	}
	return at
}
