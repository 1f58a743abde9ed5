package standing

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/analyzer/rules"
	"weir/events"
)

// Verdict is the verdict of the row about an order, whatever the order is about. The caller adds the
// subject of the order and the reason, in words. id is the order's, the same for all its verdicts.
// status is the HTTP status that the limits set for the row, 0 for none. window is in the row's own
// unit. An Allow, which lifts the order, has none of the remaining fields.
func (o *Order) Verdict(r *rules.Row, id uint64, at events.Stamp, window int64, status int16) events.Verdict {
	v := events.Verdict{
		SchemaVersion:    1,
		ID:               fmt.Sprintf("%016x-%x", id, o.Revision),
		Time:             events.RFC3339(at),
		Revision:         o.Revision,
		Mode:             events.ModeEnforce,
		Action:           o.Action,
		ControlledCutoff: o.Action == events.Deny || o.Action == events.Halt,
		Reason:           r.Reason,
		RuleID:           r.Name,
		Unit:             r.Unit,
	}
	// Everything else stays, so that people see what would have been done.
	if o.Shadow {
		v.Mode = events.ModeShadow
	}
	switch r.Window {
	case "seconds":
		v.WindowS = float64(window)
	case "calls":
		v.WindowCalls = window
	}
	if o.Action == events.Allow {
		return v
	}
	// Notices stand for nothing and so until no time.
	if o.Expires != 0 {
		v.ExpiresAt = events.RFC3339(o.Expires)
		v.TTLS = secondsUp(o.Expires.Sub(o.Issued).Seconds())
	}
	// A person's stop was measured by nothing.
	if !r.Fixed && (o.Phase != 0 || o.Limit != 0) {
		limit, observed := o.Figures(r.Unit)
		v.Limit, v.Observed = &limit, &observed
	}
	switch o.Phase {
	case Armed:
		v.Effective = events.EffectiveNext
	case Stop:
		v.Effective = events.EffectiveNow
	}
	if o.Phase > Warn {
		v.HTTPStatus = httpStatus(o.Action, r.Status, status)
	}
	// From the time of the verdict, since an active order may be sent again.
	if o.Action == events.Throttle {
		v.RetryAfterS = secondsUp(o.Expires.Sub(at).Seconds())
	}
	return v
}

// secondsUp rounds up to whole seconds, at least one.
func secondsUp(s float64) int64 { return max(1, int64(math.Ceil(s))) }

// OrderOf is the order that a verdict id is about; 0 for an id of another make. It is how an
// acknowledgement finds its order.
func OrderOf(id string) uint64 {
	order, _, ok := strings.Cut(id, "-")
	if !ok || len(order) != 16 {
		return 0
	}
	n, err := strconv.ParseUint(order, 16, 64)
	if err != nil {
		return 0
	}
	return n
}

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

// Allowed is the reason, of no row, of the answer to a call that nothing is said against.
const Allowed events.Reason = "allowed"

// IncidentID is the id of an incident, of which the hash names flow or agent, cause and beginning.
func IncidentID(hash uint64) string { return fmt.Sprintf("%016x", hash) }
