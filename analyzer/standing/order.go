package standing

import (
	"time"

	"weir/analyzer/rules"
	"weir/events"

	"github.com/cespare/xxhash/v2"
)

// Phase is how far an order goes; 0 for one that refuses nothing and warns of nothing, such as
// to resume an agent. A higher one is stricter.
type Phase uint8

// The phases. They stand in stored state, so that numbers are never reused.
const (
	Warn  Phase = 1 + iota
	Armed       // the limit is used up: the next call is the first to refuse
	Stop
)

// Order is what all orders have in common, whether they are about a flow and a party in it, an agent
// or a project. It has no scope and no deadline of its own kind; flows and agents embed it
// (decision 58). Times are event times.
type Order struct {
	Phase  Phase
	Action events.Action
	// It is judged, counted and published like any other, marked as such (Row mode shadow).
	Shadow bool // no dispatcher honors it
	// As VersionOf gives it: when limits change, orders of others are looked at again
	// (decision 20).
	Limits uint32       // by which limits it was given or looked at last
	Since  events.Stamp // when the offence began
	// Calls up to a grace after it were in flight. Arming counts as the beginning of the stop.
	Begun  events.Stamp // when it began to refuse what it refuses
	Issued events.Stamp // or renewed
	// Dispatchers forget the order then, without a word of ours.
	Expires  events.Stamp
	Due      events.Stamp // when it is to be renewed, or ends
	Revision int64        // of the last verdict about it
	Observed int64        // what the row measured when it was given
	Limit    int64        // as the limits file says it
	// It stays through renewals, and moves how wide the order is; Tried begins anew with each.
	Attempts uint16 // calls of parties that knew of it
	Tried    uint16 // attempts since it was issued
	Leaked   uint16 // calls that were in flight
}

// Give makes it an order of the phase, by a setting that the observed value has reached. It
// sets what the verdict says and not how long it stands; Stand or Until follows.
func (o *Order) Give(ph Phase, action events.Action, set *rules.Setting, observed int64, at events.Stamp) {
	if o.Phase != Armed || ph != Stop { // else the call after the last one that was allowed is what it refuses anyway
		o.Begun = at
	}
	o.Phase, o.Action, o.Shadow = ph, events.Warn, set.Mode == rules.ModeShadow
	if ph > Warn {
		o.Action = action
	}
	o.Observed, o.Limit = observed, set.Limit()
	if ph == Warn && set.Warn < set.Stop {
		o.Limit = set.Warn
	}
}

// Stand has the order hold from now on, for so long. It is looked at before it ends, so
// that one that is renewed has no gap. A fifth of the time is left when it is renewed, for the
// verdict to reach dispatchers.
func (o *Order) Stand(at events.Stamp, ttl time.Duration) {
	o.Issued, o.Expires, o.Due, o.Tried = at, at.Add(ttl), at.Add(ttl-ttl/5), 0
}

// Until has the order hold from now on up to a time at which it ends. It is for what is not
// renewed before it ends: throttles, warnings, holds.
func (o *Order) Until(at, end events.Stamp) {
	o.Issued, o.Expires, o.Due, o.Tried = at, end, end, 0
}

// Binds reports whether the order refuses the calls that it is about. An armed order binds:
// the next call is the one that it refuses.
func (o *Order) Binds() bool { return o.Phase > Warn && !o.Shadow && o.Action.Stops() }

// BeginsWait reports whether the next call is the one with which the wait for a person begins.
func (o *Order) BeginsWait() bool { return o.Phase == Armed && o.Action == events.Hold }

// Early reports whether a call at that time may have been made before its caller could know of the
// order. Simultaneous calls of several callers do not count as ignoring it. A check is answered at once,
// so the caller of one that comes a full grace later knew of the order.
func (o *Order) Early(when events.Stamp, ask bool, grace time.Duration) bool {
	end := o.Begun.Add(grace)
	return when < end || when == end && !ask
}

// Attempt counts a call of a caller that knew of the order.
func (o *Order) Attempt() {
	if o.Attempts < 1<<15 {
		o.Attempts++
		o.Tried++
	}
}

// Leak counts a call that was in flight.
func (o *Order) Leak() {
	if o.Leaked < 1<<15 {
		o.Leaked++
	}
}

// Groundless reports whether the setting would not give the order for what was observed.
// From floor on the row says anything at all. It goes by what was observed when the order was
// given, since what is observed now may be of another event.
func (o *Order) Groundless(set *rules.Setting, floor int64) bool {
	least := set.Stop
	switch {
	case o.Phase == Warn:
		least = floor
	case o.Phase == Armed && set.Max:
		least--
	}
	return set.Mode == rules.ModeOff || o.Observed < least || o.Phase > Warn && set.Mode == rules.ModeWarn || o.Shadow != (set.Mode == rules.ModeShadow)
}

// Figures are the limit and what was observed, in the unit.
func (o *Order) Figures(u events.Unit) (limit, observed float64) {
	unit := rules.InUnit(u)
	return float64(o.Limit) / unit, float64(o.Observed) / unit
}

// VersionOf is the version of limits as orders keep it, see Order.Limits: never 0.
func VersionOf(limits string) uint32 {
	h := xxhash.Sum64String(limits)
	return uint32(h>>32) ^ uint32(h) | 1
}
