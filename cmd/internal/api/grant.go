package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/state"
)

// GrantOrder is the body of a request that grants a flow more than its limits. It has an
// amount for each unit. The amount applies to every limit of the flow and of its tree that
// counts this unit. Either Expires or ForS sets the end.
// Amounts are increments, not new limits: the fold adds them to the current limits when it
// reaches the event (see decision 62).
type GrantOrder struct {
	Calls  int64 `json:"calls,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
	// Dollars, as people write them; events carry millionths.
	CostUSD   float64 `json:"cost_usd,omitempty"`
	DurationS int64   `json:"duration_s,omitempty"`
	// Spawns are subagents, and flows of the tree, that may start.
	Spawns  int64  `json:"spawns,omitempty"`
	Reason  string `json:"reason"`
	By      string `json:"by,omitempty"`
	Expires string `json:"expires,omitempty"`
	ForS    int64  `json:"for_s,omitempty"`
}

// extra is what is granted of a unit, as events carry it.
// Of units that nothing is granted of it is 0.
func (o *GrantOrder) extra(u events.Unit) int64 {
	switch u {
	case events.UnitCalls:
		return o.Calls
	case events.UnitTokens:
		return o.Tokens
	case events.UnitUSD:
		return int64(o.CostUSD*1e6 + 0.5)
	case events.UnitSeconds:
		return o.DurationS
	case events.UnitSpawns, events.UnitFlows:
		return o.Spawns
	}
	return 0
}

// GrantAnswer is the response to a grant.
// The id is that of the first of its events; each rule has one.
type GrantAnswer struct {
	OperatorAnswer

	Rules []string `json:"rules"` // that have more room now
}

// MostGranted is how many dollars may be granted at most.
// In millionths of a dollar it is 1e15, which a float64 still holds to the last digit.
const MostGranted = 1e9

// overrides returns the limits that count what is granted, and an event for each.
func (o *GrantOrder) overrides(r *http.Request, flow string, limits *analyzer.Limits, now time.Time) (granted []string, grants []events.Event, err error) {
	for _, row := range analyzer.Rows() {
		extra, set := o.extra(row.Unit), row.Setting(limits)
		// The remaining rows are the active budgets: rows of the flow or of its tree that
		// can report their remainder, count the granted unit and can stop a flow.
		if row.OfAgents() && !row.Counts().OfTree() || !row.Tells && !set.Hold && row.Counts() != agents.CountedTreeSpawns || extra == 0 || !row.Limits(limits) || set.Stop == rules.Off && !row.OfSubagents() {
			continue
		}
		scope := events.ScopeFlow
		if row.OfAgents() {
			scope = events.ScopeTree // of the flow
		}
		order := OverrideOrder{Scope: scope, ScopeID: flow, Rule: row.Name, Extra: extra, Reason: o.Reason, By: o.By, Expires: o.Expires, ForS: o.ForS}
		// It checks who, why and until when; the first row is enough to find what is wrong.
		x, err := order.override(r, now)
		if err != nil {
			return nil, nil, err
		}
		granted = append(granted, row.Name)
		grants = append(grants, events.Event{Kind: events.OverrideSet, CorrelationID: flow, Override: &x})
	}
	if len(grants) == 0 {
		return nil, nil, &problem.Error{Status: http.StatusUnprocessableEntity, Code: string(events.CodeInvalidValue),
			Detail: "no limit in force counts what is granted; say calls, tokens, cost_usd, duration_s or spawns as the limits do that stop the flow (GET /v1/flows/{id} tells)"}
	}
	return granted, grants, nil
}

// serveGrant is POST /v1/flows/{id}/grant: an override for each limit in force that counts
// what is granted, all put into the log together.
func (p *flowOrders) serveGrant(w http.ResponseWriter, r *http.Request) error {
	var asked GrantOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	// Written so, the last one is false for NaN as well.
	if asked.Calls < 0 || asked.Spawns < 0 || asked.Tokens < 0 || asked.DurationS < 0 || !(asked.CostUSD >= 0 && asked.CostUSD <= MostGranted) {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeOutOfRange), Detail: "calls, tokens, cost_usd, duration_s and spawns are what is granted more; none is below 0, and cost_usd at most 1e9"}
	}
	flow := r.PathValue("id")
	limits, _ := p.folded.inForce()
	granted, grants, err := asked.overrides(r, flow, limits, p.clock.Now())
	if err != nil {
		return err
	}
	view, known, err := p.folded.lookAt(flow)
	if err != nil {
		return err
	}
	if known && view != nil {
		// A flow that is held for another reason would go on waiting, while the sender of the
		// grant expects it to continue.
		if by := heldBy(view, granted); by != "" {
			return &problem.Error{Status: http.StatusConflict, Code: string(events.CodeInvalidValue),
				Detail: fmt.Sprintf("the flow waits because of %s, of which nothing is granted here: grant what that counts, release the flow if it counts no budget, or stop it", by)}
		}
	}
	var entries []state.Entry
	for i := range grants {
		ev := &grants[i]
		stamp(ev, orderID(), p.clock.Now())
		if known && view != nil {
			ev.Time = max(ev.Time, events.Stamp(view.Last)) // behind all that was folded it might be too late
		}
		raw, err := lineOf(ev)
		if err != nil {
			return err
		}
		entries = append(entries, state.Entry{Value: raw})
	}
	// One append: a grant is there for all its limits or for none.
	if err := p.log.Append(r.Context(), entries); err != nil {
		return err
	}
	first := &grants[0]
	visitOf(r.Context()).note(first)
	out := GrantAnswer{Rules: granted, OperatorAnswer: OperatorAnswer{ID: first.ID, Kind: first.Kind.String(), Flow: flow, Time: events.RFC3339(first.Time),
		By: first.Override.By, New: !known, Until: events.RFC3339(first.Override.Expires)}}
	p.logger.Info("a person has granted a flow more", "flow", flow, "rules", granted, "by", out.By, "reason", asked.Reason, "until", out.Until.String(), "event", out.ID,
		"calls", asked.Calls, "spawns", asked.Spawns, "tokens", asked.Tokens, "cost_usd", fmt.Sprint(asked.CostUSD), "duration", time.Duration(asked.DurationS)*time.Second)
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}

// heldBy names the rule that holds the flow, if more of the granted ones would not release it.
// It is "" if nothing holds the flow, or only the granted rules. Orders that are armed, or
// in shadow mode, do not hold a flow yet.
func heldBy(view *analyzer.View, granted []string) string {
	for i := range view.Orders {
		v := &view.Orders[i]
		if v.Action == events.Hold && v.Effective == events.EffectiveNow && v.Mode == events.ModeEnforce && !slices.Contains(granted, v.RuleID) {
			return v.RuleID
		}
	}
	return ""
}
