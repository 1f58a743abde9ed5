package analyzer

import (
	"fmt"
	"math"
	"time"

	"weir/events"
)

type phase uint8

const (
	phaseWarn  phase = 1 + iota
	phaseArmed       // the limit is used up: the next call is the first to refuse
	phaseStop
)

// standingOrder is what an order has whatever it is about: a flow and whom in it, an agent
// or a project.
type standingOrder struct {
	phase    phase // 0 for what refuses no calls and warns of none, such as to resume an agent
	action   events.Action
	shadow   bool
	limits   uint32       // by which limits it was given or looked at last
	since    events.Stamp // when the offence began
	begun    events.Stamp // when it began to refuse what it refuses
	issued   events.Stamp // or renewed
	expires  events.Stamp
	due      events.Stamp // when it is to be renewed, or ends
	revision int64        // of the last verdict about it
	observed int64
	limit    int64
	attempts uint16
	tried    uint16 // attempts since it was issued
	leaked   uint16
}

// give makes it an order of the phase, by a setting that the observed value has reached.
func (o *standingOrder) give(ph phase, action events.Action, set *Setting, observed int64, at events.Stamp) {
	if o.phase != phaseArmed || ph != phaseStop { // else the call after the last one that was allowed is what it refuses anyway
		o.begun = at
	}
	o.phase, o.action, o.shadow = ph, events.Warn, set.Mode == ModeShadow
	if ph > phaseWarn {
		o.action = action
	}
	o.observed, o.limit = observed, set.Limit()
	if ph == phaseWarn && set.Warn < set.Stop {
		o.limit = set.Warn
	}
}

// stand has the order hold from now on, for so long. It is looked at before it ends, so
// that one that is renewed has no gap.
func (o *standingOrder) stand(at events.Stamp, ttl time.Duration) {
	o.issued, o.expires, o.due, o.tried = at, at.Add(ttl), at.Add(ttl-ttl/5), 0
}

// until has the order hold from now on up to a time at which it ends.
func (o *standingOrder) until(at, end events.Stamp) {
	o.issued, o.expires, o.due, o.tried = at, end, end, 0
}

// binds reports whether the order refuses the calls that it is about.
func (o *standingOrder) binds() bool { return o.phase > phaseWarn && !o.shadow && o.action.Stops() }

// early reports whether a call of that time may have been made before anybody could know
// of the order: many callers at once are no defiance. An ask is answered at once, so one
// that comes a full grace later is made by somebody who knew.
func (o *standingOrder) early(when events.Stamp, ask bool, grace time.Duration) bool {
	end := o.begun.Add(grace)
	return when < end || when == end && !ask
}

// attempt counts a call of somebody who knew of the order.
func (o *standingOrder) attempt() {
	if o.attempts < 1<<15 {
		o.attempts++
		o.tried++
	}
}

// leak counts a call that was in flight.
func (o *standingOrder) leak() {
	if o.leaked < 1<<15 {
		o.leaked++
	}
}

// groundless reports whether the setting would not give the order for what was observed.
// From floor on the row says anything at all.
func (o *standingOrder) groundless(set *Setting, floor int64) bool {
	least := set.Stop
	switch {
	case o.phase == phaseWarn:
		least = floor
	case o.phase == phaseArmed && set.Max:
		least--
	}
	return set.Mode == ModeOff || o.observed < least || o.phase > phaseWarn && set.Mode == ModeWarn || o.shadow != (set.Mode == ModeShadow)
}

// figures are the limit and what was observed, in the unit.
func (o *standingOrder) figures(u events.Unit) (limit, observed float64) {
	unit := inUnit(u)
	return float64(o.limit) / unit, float64(o.observed) / unit
}

// inUnit is how much one of the unit is in the fold, which has no fractions.
func inUnit(u events.Unit) float64 {
	if u == events.UnitUSD {
		return 1e6
	}
	return 1
}

// verdict is what the row says of an order, whatever it is about. Who calls it adds whom
// the order is about and why, in words.
func (r *Rule[S, ID]) verdict(o *standingOrder, id uint64, at events.Stamp, window int64, status int16) events.Verdict {
	v := events.Verdict{
		SchemaVersion:    1,
		ID:               fmt.Sprintf("%016x-%x", id, o.revision),
		Time:             events.RFC3339(at),
		Revision:         o.revision,
		Mode:             events.ModeEnforce,
		Action:           o.action,
		ControlledCutoff: o.action == events.Deny || o.action == events.Halt,
		Reason:           r.Reason,
		RuleID:           r.Name,
		Unit:             r.Unit,
	}
	if o.shadow {
		v.Mode = events.ModeShadow
	}
	switch r.Window {
	case "seconds":
		v.WindowS = float64(window)
	case "calls":
		v.WindowCalls = window
	}
	if o.action == events.Allow {
		return v
	}
	if o.expires != 0 {
		v.ExpiresAt = events.RFC3339(o.expires)
		v.TTLS = secondsUp(o.expires.Sub(o.issued).Seconds())
	}
	if !r.Fixed && (o.phase != 0 || o.limit != 0) {
		limit, observed := o.figures(r.Unit)
		v.Limit, v.Observed = &limit, &observed
	}
	switch o.phase {
	case phaseArmed:
		v.Effective = events.EffectiveNext
	case phaseStop:
		v.Effective = events.EffectiveNow
	}
	if o.phase > phaseWarn {
		v.HTTPStatus = httpStatus(o.action, r.Status, status)
	}
	if o.action == events.Throttle {
		v.RetryAfterS = secondsUp(o.expires.Sub(at).Seconds())
	}
	return v
}

// secondsUp rounds up to whole seconds, at least one.
func secondsUp(s float64) int64 { return max(1, int64(math.Ceil(s))) }

// head says to people what becomes of a call of the kind, and over how what was observed
// is to the limit.
func (o *standingOrder) head(kind events.Kind) string {
	switch {
	case o.phase == phaseWarn:
		return "Warning: "
	case o.phase == phaseArmed && o.action == events.Hold:
		return "Limit used up, from the next call on the flow waits for a person: "
	case o.phase == phaseArmed:
		return "Limit used up, the next call will be rejected: "
	case o.action == events.Hold:
		return "Flow held for a person to decide: "
	case o.action == events.Throttle:
		return "Agent call delayed: "
	case kind == events.ToolCall:
		return "Tool call rejected: "
	}
	return "Agent call rejected: "
}

func (o *standingOrder) over(limit string) string {
	switch {
	case o.phase == phaseWarn:
		return "is near its limit (warns at " + limit + ")"
	case o.phase != phaseStop || o.observed <= o.limit:
		return "has reached the limit (" + limit + ")"
	}
	return "exceeds limit (max " + limit + ")"
}

// bound says to people beside a figure how far it may go. Who is warned wants to know when it
// will be refused, which is in the setting and not in the order.
func (o *standingOrder) bound(set *Setting, unit float64) string {
	limit := float64(o.limit) / unit
	switch {
	case o.phase == phaseStop && o.observed > o.limit:
		return "(max " + number(limit) + ")"
	case o.phase != phaseWarn:
		return "(limit " + number(limit) + ")"
	case set.Stop == Off || set.Mode == ModeWarn:
		return "(only warns, from " + number(limit) + " on)"
	case set.Max:
		return "(max " + number(float64(set.Limit())/unit) + ")"
	}
	return "(stops at " + number(float64(set.Stop)/unit) + ")"
}

// refused says to the model that its call was refused, or the next one will be.
func (o *standingOrder) refused(reason events.Reason, limit, observed float64) string {
	if o.phase == phaseArmed {
		return "The flow guard refuses the next call (" + string(reason) + ", limit " + number(limit) + " used up). "
	}
	return "The call was refused by the flow guard (" + string(reason) + ", " + number(observed) + " of " + number(limit) + "). "
}

// What the model is told to do.
const (
	adviceHold   = "The flow waits for a person, who may grant more. What is done is kept. Do not try the call again: end your turn and say what you wait for."
	adviceWait   = "Wait before you call again; do other work meanwhile."
	adviceReport = "Do not try it again. Finish with what you have and report back."
)

// The statuses of refusals where waiting helps, and where it does not.
const (
	statusWait   = 429
	statusRefuse = 403
)

// httpStatus is the status of a refusal: what the limits say, else 429 where waiting
// helps, and only there, because clients try again what was refused so.
func httpStatus(action events.Action, row int, limits int16) int {
	switch {
	case limits != 0:
		return int(limits)
	case action == events.Throttle:
		return statusWait
	case row == statusWait:
		return statusRefuse
	}
	return row
}
