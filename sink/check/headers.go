package check

import (
	"net/http"
	"strconv"
	"strings"

	"weir/events"
)

// RemainingHeader gives the remaining part of each limit, as a list of RFC 9651:
//
//	max_total_calls;left=10;limit=100;unit=calls, max_flow_duration;left=50;limit=3600;unit=s;until=@1795183260
//
// Of a budget with a forecast it also gives what the flow is expected to spend: expected, low and high.
const RemainingHeader = "Weir-Remaining"

// DegradedHeader says that the answer was not given as in quiet times, and why: load or behind.
const DegradedHeader = "Weir-Degraded"

// HeldHeader is until when a call is held, as RFC 3339.
const HeldHeader = "Weir-Held-Until"

// setAnswerHeaders sets the headers of each answer: the remaining figures, and the mode in which it was given.
func setAnswerHeaders(h http.Header, v *events.Verdict) {
	if v.Degraded != "" {
		h.Set(DegradedHeader, v.Degraded)
	}
	if text := remainingText(v.Remaining); text != "" {
		h.Set(RemainingHeader, text)
	}
}

// setRefusalHeaders sets the headers of refusals of every format.
func setRefusalHeaders(h http.Header, v *events.Verdict) {
	setAnswerHeaders(h, v)
	// For gateways that pass on the headers of an answer but not its body.
	h.Set("Weir-Verdict", v.ID)
	h.Set("Weir-Reason", string(v.Reason))
	h.Set("Weir-Status", strconv.Itoa(status(v)))
	if until := HeldUntil(v); until != "" {
		h.Set(HeldHeader, until)
	}
	if waits(v) {
		h.Set("Retry-After", strconv.FormatInt(v.RetryAfterS, 10))
	} else {
		h.Set("X-Should-Retry", "false") // clients of language models obey it, also where limits set a status that invites to try again
	}
}

// remainingText writes the list of RemainingHeader. Each rule is an Item, and its figures are
// Parameters.
func remainingText(left []events.Remaining) string {
	var b strings.Builder
	for i, r := range left {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(r.RuleID + ";left=" + figure(r.Left) + ";limit=" + figure(r.Limit) + ";unit=" + string(r.Unit))
		if !r.Until.IsZero() {
			// Stamps are milliseconds.
			b.WriteString(";until=@" + strconv.FormatInt(int64(r.Until)/1000, 10)) // a Date, in seconds
		}
		if x := r.Forecast; x != nil && x.High > 0 {
			b.WriteString(";expected=" + figure(x.Expected) + ";low=" + figure(x.Low) + ";high=" + figure(x.High))
		}
	}
	return b.String()
}

// figure writes a number in the form of such lists: integers have 15 digits at most, and
// decimals 12 before the point and 3 behind it. Remaining figures are rounded down.
func figure(v float64) string {
	if whole := int64(v); float64(whole) == v {
		return strconv.FormatInt(min(whole, 999_999_999_999_999), 10)
	}
	// A cut at three decimals rounds towards zero, so the figure is never above the true remainder.
	return strconv.FormatFloat(float64(int64(v*1000))/1000, 'f', -1, 64)
}
