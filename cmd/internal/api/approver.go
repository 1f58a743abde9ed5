package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/byhand"
	"weir/state"
)

// Approver carries out the answers to holds at a server that serves.
func Approver(s *Server) approvals.Actor { return approver{handOrders{s}} }

type approver struct{ handOrders }

// Mine reports whether this process folds the flow that has the name of the subject: one member does.
func (p approver) Mine(subject string) bool {
	_, err := p.parts.Log.PumpOf(pump.FlowStage, subject)
	return err == nil
}

// Need is how much one refused call needs of the budget of a hold.
func (p approver) Need(h *approvals.Hold) float64 {
	if b := p.budget(h); b != nil {
		return b.Measure.Figure(b.Need(1))
	}
	return 0
}

// budget is that of a hold; nil where the limits have it no longer.
func (p approver) budget(h *approvals.Hold) *budgets.Budget {
	name, _, _ := strings.Cut(h.Subject, ":")
	limits, _ := p.folded.inForce()
	return budgets.Named(limits.Budgets, name)
}

// Waits reports whether a proposal waits here.
func (p approver) Waits(id string) bool {
	return slices.ContainsFunc(p.parts.Orders.Proposals.List(), func(q orders.Proposal) bool { return q.ID == id })
}

// Decide gives the order that an answer stands for.
func (p approver) Decide(ctx context.Context, h *approvals.Hold, approve bool, by, as string, long time.Duration) error {
	reason := "denied"
	if approve {
		reason = "approved"
	}
	if by == approvals.Author {
		reason += ": no person answered the request for approval"
	}
	switch {
	case h.Kind == approvals.OfProposal:
		return p.second(ctx, h, approve, by, as)
	case !approve && (h.Kind == approvals.OfBudget || h.Kind == approvals.OfCalls): // they are refused already
		return nil
	case !approve && h.Kind == approvals.OfTree:
		return p.stop(ctx, byhand.Order{Order: byhand.Stop, Scope: byhand.Scope{Kind: events.ScopeTree, ID: h.Root}, Reason: reason, By: by}, events.DefaultStop, nil)
	}
	ev := events.Event{CorrelationID: h.Flow}
	switch {
	case !approve:
		ev.Kind, ev.Operator = events.OperatorStop, &events.Operator{Reason: reason, By: by}
	case h.Releases():
		ev.Kind, ev.Operator = events.OperatorRelease, &events.Operator{Reason: reason, By: by, For: long}
	default:
		x, err := p.grant(h, by, long)
		if err != nil {
			return err
		}
		x.Reason = reason
		ev.Kind, ev.Override = events.OverrideSet, x
		if ev.CorrelationID = h.Root; h.Root == "" {
			ev.CorrelationID = h.Flow
		}
	}
	return p.give(ctx, h, &ev, approve)
}

// grant is the override that an approval stands for.
func (p approver) grant(h *approvals.Hold, by string, long time.Duration) (*events.Override, error) {
	x := &events.Override{Scope: events.ScopeFlow, ScopeID: h.Flow, Rule: h.Rule, Extra: int64(math.Round(h.Extra * rules.InUnit(h.Unit))), By: by,
		Expires: events.StampOf(p.clock.Now().Add(long))}
	switch h.Kind {
	case approvals.OfTree, approvals.OfSpawn:
		x.Scope, x.ScopeID = events.ScopeTree, h.Root
	case approvals.OfBudget:
		b := p.budget(h)
		if b == nil {
			return nil, approvals.ErrOver
		}
		if !b.MayGrant(by) {
			return nil, &problem.Error{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not grant more of budget %s; those who may: %s", by, b.Name, strings.Join(b.Grant, ", "))}
		}
		x.Scope, x.ScopeID, x.Rule, x.Extra = events.ScopeBudget, h.Subject, agents.BudgetRule(), max(b.Need(1), int64(math.Round(h.Extra*b.Measure.In())))
	}
	x.Extra = max(x.Extra, 1) // an approval that grants nothing is none
	return x, nil
}

// give appends the event of an answer. All answers to a hold have the same id: the fold takes the first one,
// also where two members append at the same time.
func (p approver) give(ctx context.Context, h *approvals.Hold, ev *events.Event, approve bool) error {
	stamp(ev, "approval-"+h.ID, p.clock.Now())
	if h.Kind == approvals.OfBudget {
		ev.CorrelationID = ""
	}
	if h.Kind != approvals.OfFlow && h.Kind != approvals.OfCalls {
		raw, err := lineOf(ev)
		if err != nil {
			return err
		}
		return p.parts.Log.Append(ctx, []state.Entry{{Value: raw}})
	}
	view, known, err := p.folded.lookAt(h.Flow)
	if err != nil {
		return err
	}
	if known && view != nil {
		if !slices.ContainsFunc(view.Orders, func(v events.Verdict) bool { return v.Action == events.Hold && orders.IDOf(v.ID) == h.ID }) {
			return approvals.ErrOver
		}
		ev.Time = max(ev.Time, events.Stamp(view.Last)) // behind all that was folded it might be too late
	}
	said, leave, err := p.orders.put(ctx, ev)
	defer leave()
	if err != nil {
		return err
	}
	stopped, any := false, false
	for _, line := range said() {
		var v events.Verdict
		if events.DecodeVerdict(line, &v) == nil {
			any, stopped = true, stopped || v.Action == events.Halt
		}
	}
	if any && stopped == approve { // another answer came first
		return approvals.ErrOver
	}
	return nil
}

// second confirms or withdraws a stop that waits for its second person.
func (p approver) second(ctx context.Context, h *approvals.Hold, approve bool, by, as string) error {
	if !approve {
		_, err := p.parts.Orders.Proposals.Withdraw(h.ID)
		return overProposal(err)
	}
	if as == "" || !p.o.Access.MayStop(as) {
		return &problem.Error{Status: http.StatusForbidden, Detail: "this link stands for no principal that may confirm a stop"}
	}
	q, expect, err := p.parts.Orders.Proposals.Take(h.ID, as)
	if err != nil {
		return overProposal(err)
	}
	q.Order.By += " and " + by
	return p.stop(ctx, q.Order, q.Long, expect)
}

func overProposal(err error) error {
	if errors.Is(err, orders.ErrNoProposal) || errors.Is(err, orders.ErrVoid) {
		return approvals.ErrOver
	}
	if err != nil {
		return proposalProblem(err)
	}
	return nil
}

// stop gives an order by hand.
func (p approver) stop(ctx context.Context, o byhand.Order, long time.Duration, expect *int64) error {
	o.Expires = events.RFC3339(p.parts.Orders.Book.Now().Add(long))
	_, err := p.parts.Orders.Book.Give(ctx, o, expect)
	switch {
	case errors.Is(err, orders.ErrUnsaved): // it is in force
		return nil
	case errors.Is(err, orders.ErrOther):
		return approvals.ErrOver
	case err != nil:
		return handProblem(err)
	}
	return nil
}

// Publish passes a decision on to the other members: their links of the hold are of no use any more, and
// they ask no tier. A member that does not answer learns it from the verdicts, if there are any.
func (p approver) Publish(ctx context.Context, d approvals.Decision) {
	if p.parts.Members == nil {
		return
	}
	body, err := json.Marshal(d)
	if err != nil {
		p.logger.Error("a decision is not passed on", "order", d.Hold, "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partTime)
	defer cancel()
	addresses, _ := p.parts.Members.Others(ctx)
	for i, reply := range p.postEach(ctx, addresses, approvalPath, body) {
		if reply.err != nil {
			p.logger.Warn("a member did not learn how a hold was decided", "member", addresses[i], "order", d.Hold, "error", reply.err)
		}
	}
}

// takeDecision takes in what another member has decided.
func (p approving) takeDecision(_ *http.Request, body []byte) (int, []byte, error) {
	// Without keys of the group any caller that may check could silence what persons are asked.
	if p.parts.Members == nil || !p.o.Peer.Keys().Orders {
		return 0, nil, &problem.Error{Status: http.StatusNotFound, Detail: "this weir is not a member of a group that shares a key for orders"}
	}
	var d approvals.Decision
	if err := json.Unmarshal(body, &d); err != nil {
		return 0, nil, &problem.Error{Status: http.StatusBadRequest, Detail: "want a decision: " + err.Error()}
	}
	if p.parts.Approvals != nil {
		p.parts.Approvals.Decided(d)
	}
	return http.StatusNoContent, nil, nil
}
