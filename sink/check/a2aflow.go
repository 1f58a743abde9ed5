package check

import (
	"fmt"
	"net/http"
	"time"

	"weir/events"
	"weir/events/a2aflow"
)

// spent refuses a message that says by weir's extension of A2A that its own limits are used up; nil for any
// other. The refusal is the sender's own word, so no call is counted and no verdict recorded.
func spent(hop *a2aflow.Hop, ev *events.Event, now time.Time) *events.Verdict {
	if hop == nil {
		return nil
	}
	refusal := hop.Refused(now)
	if refusal == "" {
		return nil
	}
	v := &events.Verdict{ID: "a2a-" + ev.ID, Mode: "enforce", Action: events.Deny, Effective: events.EffectiveNow, Reason: a2aReason + events.Reason(refusal), CorrelationID: ev.CorrelationID, ControlledCutoff: true,
		From: ev.From.ID(), To: ev.To.ID(), HTTPStatus: http.StatusPaymentRequired, Limit: new(float64), Observed: new(float64)}
	switch refusal {
	case a2aflow.Hops:
		v.Unit, v.HTTPStatus, v.DelegationDepth = events.UnitHops, http.StatusForbidden, hop.Hops
		*v.Limit, *v.Observed = float64(hop.MaxHops), float64(hop.Hops)
		v.Message = fmt.Sprintf("the message was handed on %d times and says that %d are the most", hop.Hops, hop.MaxHops)
	case a2aflow.Tokens:
		v.Unit, v.Message = events.UnitTokens, "the message says that no tokens remain"
	case a2aflow.USD:
		v.Unit, v.Message = events.UnitUSD, "the message says that no money remains"
	case a2aflow.Until:
		v.Unit, v.Limit, v.Observed = events.UnitSeconds, nil, nil
		v.Message = fmt.Sprintf("the message says that the time for it ended at %s", hop.Left.Until.Format(time.RFC3339))
	}
	return v
}

// a2aReason begins the reasons of such refusals. No rule has them.
const a2aReason = "a2a_flow_"
