package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/problem"
	"weir/events"
)

// OverrideOrder is the body of a request for an override, as the member "override" of the
// event. Either Expires or ForS sets the end.
// Warn and Stop are pointers because 0 is a valid threshold.
type OverrideOrder struct {
	Scope   events.ScopeKind `json:"scope"`
	ScopeID string           `json:"scope_id"`
	Rule    string           `json:"rule"`
	Warn    *int64           `json:"warn,omitempty"`
	Stop    *int64           `json:"stop,omitempty"`
	Extra   int64            `json:"extra,omitempty"`
	Mode    string           `json:"mode,omitempty"`
	Reason  string           `json:"reason"`
	By      string           `json:"by,omitempty"`
	Expires string           `json:"expires,omitempty"`
	ForS    int64            `json:"for_s,omitempty"`
}

// serveOverride is POST /v1/overrides.
// A limit of one flow is changed for a time, or so much is granted more than it (see
// decision 62; the route for grants makes these). No verdict is waited for: the next call
// shows it.
func (p *flowOrders) serveOverride(w http.ResponseWriter, r *http.Request) error {
	var asked OverrideOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	o, err := asked.override(r, p.clock.Now())
	if err != nil {
		return err
	}
	// The override would be in the log without effect, and its author would get no notice.
	if limits, _ := p.folded.inForce(); off(limits, o.Rule) {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Code: string(events.CodeInvalidValue), Field: "rule",
			Detail: fmt.Sprintf("the rule %s is off by the limits in force, and what is off is not judged for any flow; turn it on in the limits file, in mode shadow if it is for this flow alone", o.Rule)}
	}
	ev := events.Event{Kind: events.OverrideSet, CorrelationID: o.ScopeID, Override: &o}
	if who := visitOf(r.Context()).who; !who.Flow(o.ScopeID) {
		return notOwn(who, o.ScopeID)
	}
	return p.give(w, r, &ev, func(*analyzer.View) bool { return false })
}

// off reports whether the fold ignores the rule.
// The fold applies a rule with an override in the limits file to the scope of that override.
func off(limits *analyzer.Limits, name string) bool {
	rule, ok := analyzer.RuleNamed(name)
	if !ok || slices.ContainsFunc(limits.Overrides, func(o analyzer.Override) bool { return o.Rule == rule }) {
		return false
	}
	row := analyzer.FlowRow(rule)
	return !row.Limits(limits)
}

// override finds the faults that otherwise only the fold would find, without a report.
// The fold is the last to see an event, and cannot return an error to the sender. So every
// order that it would ignore is rejected here: an invalid scope, a rule that cannot change,
// an order that changes nothing, or one that is over before it begins. The error names the
// wrong member.
func (o *OverrideOrder) override(r *http.Request, now time.Time) (x events.Override, err error) {
	bad := func(field, format string, args ...any) error {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeInvalidValue), Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	if x.By, err = signed(r, o.By, o.Reason); err != nil {
		return x, err
	}
	switch o.Scope {
	case events.ScopeFlow:
	case events.ScopeTree:
		if o.Extra <= 0 {
			return x, bad("extra", "a tree is granted so much extra, and nothing else of it is changed")
		}
	case events.ScopeProject, events.ScopeAgent, events.ScopeTool:
		return x, &problem.Error{Status: http.StatusUnprocessableEntity, Code: string(events.CodeInvalidValue), Field: "scope",
			Detail: fmt.Sprintf("an override for one %s is not set by an event yet, only for one flow; write it under overrides in the limits file, which is read again at once", o.Scope)}
	default:
		return x, bad("scope", "scope=%q; want flow", o.Scope)
	}
	if o.ScopeID == "" {
		return x, bad("scope_id", "scope_id is missing: the id of the flow")
	}
	// A rule of the agent stage knows no override, but for those that count a tree of
	// flows, and of these only so much extra.
	row, ok := analyzer.RowNamed(o.Rule)
	if ofTree := row.Counts().OfTree(); !ok || row.Fixed || row.OfAgents() && !ofTree || ofTree != (o.Scope == events.ScopeTree) {
		return x, bad("rule", "there is no rule %q whose limits could change; GET /v1/limits has their names", o.Rule)
	}
	x = events.Override{Scope: o.Scope, ScopeID: o.ScopeID, Rule: o.Rule, Extra: o.Extra, Mode: o.Mode, Reason: o.Reason, By: x.By}
	for _, v := range []struct {
		given *int64
		to    *events.Optional
	}{{o.Warn, &x.Warn}, {o.Stop, &x.Stop}} {
		if v.given != nil {
			*v.to = events.Optional{Set: true, Value: *v.given}
		}
	}
	if !x.Warn.Set && !x.Stop.Set && x.Extra == 0 && x.Mode == "" {
		return x, bad("stop", "it changes nothing; give warn, stop, extra or mode")
	}
	switch {
	// An override without an end would act like a hidden limits file.
	case (o.Expires == "") == (o.ForS == 0):
		return x, bad("expires", "say until when: either expires or for_s")
	case o.ForS != 0:
		hold, err := holding(o.ForS)
		if err != nil {
			return x, err
		}
		x.Expires = events.StampOf(now.Add(hold))
	default:
		if x.Expires, ok = events.ParseStamp(o.Expires); !ok {
			return x, bad("expires", "expires=%q; want a time such as 2026-12-01T00:00:00Z", o.Expires)
		}
	}
	if x.Expires <= events.StampOf(now) || x.Expires.Sub(events.StampOf(now)) > events.MaxHold {
		return x, bad("expires", "it expires at %s; want a time from now on, within 366 days", events.RFC3339(x.Expires))
	}
	return x, nil
}
