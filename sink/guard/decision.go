package guard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/events"
)

// Source says where a decision comes from.
// The zero Source is of no decision.
type Source uint8

// The sources.
const (
	FromTable   Source = 1 + iota // the standing orders
	FromWeir                      // weir was asked, and has counted the call
	StaleOpen                     // the orders may be out of date; allowed
	StaleClosed                   // the orders may be out of date; refused, because Options.FailClosed says so
	LocalLimit                    // the orders may be out of date; the flow is over three times its limits
	ErrorOpen                     // a fault in the guard; allowed
	sourceCount
)

var sourceNames = [sourceCount]string{"", "table", "weir", "stale_open", "stale_closed", "local_limit", "error_open"}

// String returns the source in one word.
func (s Source) String() string {
	if s < sourceCount {
		return sourceNames[s]
	}
	return "invalid"
}

// HeldUntil is when a hold ends without a decision; the zero time for other decisions.
func (d *Decision) HeldUntil() time.Time {
	if d.Action != events.Hold || d.Verdict == nil || d.Verdict.ExpiresAt.IsZero() {
		return time.Time{}
	}
	return events.Stamp(d.Verdict.ExpiresAt).Time()
}

// Advice says what the caller of a refused call had best do.
type Advice string

// The advices.
const (
	BackOff               Advice = "back_off"                 // wait, then try again
	AskUser               Advice = "ask_user"                 // a person has to decide
	FinishWithPartialWork Advice = "finish_with_partial_work" // report what there is
)

// ReasonStale is the reason of a refusal that no order gave: the guard does not know
// the orders and is set to refuse then.
const ReasonStale events.Reason = "guard_stale"

// ReasonRejected is the reason of a refusal of a call that weir cannot read: an argument that the
// dispatcher has to correct. To let such calls pass would leave them uncounted.
const ReasonRejected events.Reason = "check_rejected"

// Decision is what a guard says of a call. It costs no memory unless the call is
// refused and Err is asked for.
// Who gets one may keep it; its Verdict is shared with the table.
type Decision struct {
	Action events.Action // Allow, Warn, or one that Stops
	Source Source
	Stale  bool   // the orders that were gone by may be out of date
	Flow   string // of the call: its own, that of its context, or the one that weir made for a person's call without one

	// The rest is set for refusals and, where weir gives it, for warnings.
	Reason          events.Reason
	Limit, Observed float64 // NaN when there are none
	RetryAfter      time.Duration
	Verdict         *events.Verdict // the order; nil when there is none. It must not be changed.

	// Remaining is the remaining part of each limit after the call. Note is for the model, as
	// soon as no more remains than weir's limits set: fixed words and numbers only. Only Ask
	// sets them, and Note only for allowed calls.
	Remaining []events.Remaining
	Note      string
}

// allowed is a decision that nothing is said against. It is stale where the orders were, and the
// guard is set to let calls through then.
func allowed(by Source) Decision {
	return Decision{Action: events.Allow, Source: by, Stale: by == StaleOpen}
}

// refused is the decision by an order.
func refused(v *events.Verdict, flow string, by Source, now events.Stamp) Decision {
	d := Decision{Action: actionOf(v), Source: by, Reason: v.Reason, Limit: math.NaN(), Observed: math.NaN(), Verdict: v, Flow: flow}
	// One figure without the other means nothing, so neither is set then.
	if v.Limit != nil && v.Observed != nil {
		d.Limit, d.Observed = *v.Limit, *v.Observed
		if v.Effective == events.EffectiveNext && counted(v.Unit) {
			d.Observed++ // the call that is refused would have been the one over the limit
		}
	}
	switch {
	// Only a throttle, and what says how long to wait, has a time to wait for; an order that
	// merely expires is none.
	case v.Action != events.Throttle && v.RetryAfterS == 0:
	// Without a time, as in an answer of weir, the seconds in the verdict count. Rounded up:
	// who waits a little less is refused again.
	case v.ExpiresAt != 0 && now != 0:
		d.RetryAfter = wait(max(1, (int64(v.ExpiresAt)-int64(now)+999)/1000))
	default:
		d.RetryAfter = wait(v.RetryAfterS)
	}
	return d
}

// mostWait is the longest wait that a decision gives, in seconds: some 68 years, which every
// timer of every language can hold.
const mostWait = 1<<31 - 1

func wait(seconds int64) time.Duration {
	return time.Duration(min(max(0, seconds), mostWait)) * time.Second
}

// withRemaining adds what an answer says is left.
func (d Decision) withRemaining(v *events.Verdict) Decision {
	if d.Remaining = v.Remaining; !d.Stopped() {
		d.Note = v.AgentMessage
	}
	return d
}

// Answer is the order as the answer to a call that it refuses, for those who answer
// others: it says what the call would have been counted as, and how long to wait.
// c may be a call without a flow; the answer then names the flow that it is folded in.
func Answer(v *events.Verdict, c *Call, now events.Stamp) *events.Verdict {
	d := refused(v, c.Flow, FromTable, now)
	a := *v
	a.CorrelationID, a.Effective, a.Message = c.flowKey(), events.EffectiveNow, d.message()
	a.RetryAfterS = int64(d.RetryAfter / time.Second)
	if v.Limit != nil && v.Observed != nil {
		a.Observed = &d.Observed
	}
	return &a
}

// counted reports whether one more call adds one to what is measured.
// Seconds, tokens and money grow by what a call uses, which is unknown before the call.
func counted(u events.Unit) bool {
	switch u {
	case events.UnitSeconds, events.UnitTokens, events.UnitUSD, events.UnitNone, "":
		return false
	}
	return true
}

// actionOf is the action by which a dispatcher goes. What is neither a warning nor a stop is
// allowed: an action of a later version is no reason to refuse.
func actionOf(v *events.Verdict) events.Action {
	if v.Action == events.Warn || v.Action.Stops() {
		return v.Action
	}
	return events.Allow
}

// Stopped reports whether the call must not be made.
func (d *Decision) Stopped() bool { return d.Action.Stops() }

// Err returns nil for a call that may be made and else a *Stop.
// It allocates, which Check does not.
func (d *Decision) Err() error {
	if !d.Stopped() {
		return nil
	}
	s := &Stop{Flow: d.Flow, Reason: d.Reason, Action: d.Action, Source: d.Source, Limit: d.Limit, Observed: d.Observed, RetryAfter: d.RetryAfter, HeldUntil: d.HeldUntil(), Advice: d.Advice(),
		Message: d.message(), AgentMessage: d.agentMessage()}
	if d.Verdict != nil {
		s.VerdictID = d.Verdict.ID
	}
	return s
}

// Advice says what the caller of a refused call had best do; "" when it may be made.
func (d *Decision) Advice() Advice {
	switch {
	case !d.Stopped():
		return ""
	// Waiting goes first: a throttle that lasts is still no case for a person.
	case d.RetryAfter > 0 || d.Action == events.Throttle:
		return BackOff
	case d.Action == events.Halt || d.Action == events.Hold:
		return AskUser
	}
	return FinishWithPartialWork
}

// armedHeads begin the sentence of an order that waits for the next call, and that about the call that it
// refuses.
var armedHeads = [...][2]string{
	{"Limit used up, the next call will be rejected: ", "Agent call rejected: "},
	{"Limit used up, from the next call on the flow waits for a person: ", "Flow held for a person to decide: "},
	{"Limit used up, the next call waits for a person: ", "Call held for a person to decide: "},
}

// message is the sentence for people. An armed order is written before the call that it
// refuses; the sentence is turned into one about this call.
func (d *Decision) message() string {
	switch {
	case d.Verdict != nil && d.Verdict.Message != "":
		for _, head := range armedHeads {
			if rest, ok := strings.CutPrefix(d.Verdict.Message, head[0]); ok {
				return head[1] + rest
			}
		}
		return d.Verdict.Message
	case d.Source == LocalLimit:
		return "Agent call rejected: weir is unreachable, and the flow made " + number(d.Observed) + " calls (max " + number(d.Limit) + " meanwhile)"
	case d.Source == StaleClosed:
		return "Agent call rejected: weir is unreachable, and calls are refused until it is back"
	}
	return "Agent call rejected: " + string(d.Reason)
}

// agentMessage is for the model: fixed words and numbers only.
// No name or text of the log gets into it: what an agent wrote could give orders to the model
// that reads it.
func (d *Decision) agentMessage() string {
	if d.Verdict != nil && d.Verdict.AgentMessage != "" {
		return d.Verdict.AgentMessage
	}
	what := "The call was refused by the flow guard (" + string(d.Reason) + "). "
	switch d.Advice() {
	case BackOff:
		return what + "Wait before you call again; do other work meanwhile."
	case AskUser:
		if d.Action == events.Hold {
			return what + "The flow waits for a person, who may grant more. What is done is kept. Do not try the call again: end your turn and say what you wait for."
		}
		return what + "Do not try it again. Report what is finished and what is not."
	}
	return what + "Do not try it again. Finish with what you have and report back."
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Stop is the error of a call that must not be made.
// It is reached by errors.As through whatever a framework wraps around it.
type Stop struct {
	Flow            string
	Reason          events.Reason
	Action          events.Action // Throttle, Deny, Hold or Halt
	Source          Source
	Limit, Observed float64       // NaN when there are none
	RetryAfter      time.Duration // 0: waiting does not help
	HeldUntil       time.Time     // of a hold: when it ends without a decision
	Advice          Advice
	Message         string // for people
	AgentMessage    string // for the model: fixed words and numbers only
	VerdictID       string // of the order; "" when there is none
}

// Error returns the message and the reason.
func (s *Stop) Error() string {
	if math.IsNaN(s.Limit) {
		return fmt.Sprintf("%s (%s)", s.Message, s.Reason)
	}
	return fmt.Sprintf("%s (%s, %s of %s)", s.Message, s.Reason, number(s.Observed), number(s.Limit))
}
