package api

import (
	"errors"
	"net/http"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/byhand"
)

// proposalsPath is where stops wait that a second person has to confirm.
const proposalsPath = "/v1/order-proposals"

// secondPerson serves them.
type secondPerson struct{ handOrders }

func (s secondPerson) routes() []route {
	return []route{
		{"GET", proposalsPath, reader, s.serveList},
		{"POST", proposalsPath + "/{id}", operator, s.serveConfirm},
		{"DELETE", proposalsPath + "/{id}", operator, s.serveWithdraw},
	}
}

// OrderProposal is a stop that waits for a second person.
type OrderProposal struct {
	ID     string         `json:"id"`
	Scope  byhand.Scope   `json:"scope"`
	Except []byhand.Scope `json:"except,omitempty"`
	Reason string         `json:"reason"`
	By     string         `json:"by"`
	ForS   int64          `json:"for_s"`
	Until  events.RFC3339 `json:"until"` // the proposal is dropped then
}

// OrderProposalList is the answer of GET /v1/order-proposals.
type OrderProposalList struct {
	Proposals []OrderProposal `json:"proposals"`
}

func proposalView(q *orders.Proposal) OrderProposal {
	return OrderProposal{ID: q.ID, Scope: q.Order.Scope, Except: q.Order.Except, Reason: q.Order.Reason, By: q.Order.By, ForS: int64(q.Long.Seconds()), Until: events.RFC3339(q.Until)}
}

// person returns the name by which weir knows the sender. A token that many share identifies no person.
func person(r *http.Request) (string, error) {
	who := visitOf(r.Context()).who
	if who == nil || !who.Named {
		return "", &problem.Error{Status: http.StatusForbidden, Detail: orders.ErrNotTwoNames.Error()}
	}
	return who.Name, nil
}

// propose keeps a stop until a second person confirms it, and answers 202.
func (s secondPerson) propose(w http.ResponseWriter, r *http.Request, asked *HandOrder, o *byhand.Order) error {
	first, err := person(r)
	if err != nil {
		return err
	}
	long, err := asked.long()
	if err != nil {
		return err
	}
	q, err := s.parts.Orders.Proposals.Propose(*o, long, first)
	if err != nil {
		return &problem.Error{Status: http.StatusConflict, Detail: err.Error()}
	}
	approving{s.Server}.propose(&q)
	if record := visitOf(r.Context()).order; record != nil {
		record.Kind, record.Event, record.Flow = "order.propose", q.ID, o.Scope.String()
	}
	writeJSON(w, "application/json", http.StatusAccepted, proposalView(&q))
	return nil
}

// serveList is GET /v1/order-proposals: those that were given to this process.
func (s secondPerson) serveList(w http.ResponseWriter, _ *http.Request) error {
	out := OrderProposalList{Proposals: []OrderProposal{}}
	for _, q := range s.parts.Orders.Proposals.List() {
		out.Proposals = append(out.Proposals, proposalView(&q))
	}
	return answer(w, out)
}

// serveConfirm is POST /v1/order-proposals/{id} by a second person: the order is given.
func (s secondPerson) serveConfirm(w http.ResponseWriter, r *http.Request) error {
	second, err := person(r)
	if err != nil {
		return err
	}
	if may := visitOf(r.Context()).who.Orders(); len(may) > 0 {
		return &problem.Error{Status: http.StatusForbidden, Detail: "this principal may give orders within some scopes only"}
	}
	q, expect, err := s.parts.Orders.Proposals.Take(r.PathValue("id"), second)
	if err != nil {
		return proposalProblem(err)
	}
	o := q.Order
	o.By += " and " + second
	err = s.give(w, r, o, q.Long, expect)
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Status == http.StatusGone { // it has changed this moment
		return proposalProblem(orders.ErrVoid)
	}
	return err
}

// serveWithdraw is DELETE /v1/order-proposals/{id}.
func (s secondPerson) serveWithdraw(w http.ResponseWriter, r *http.Request) error {
	q, err := s.parts.Orders.Proposals.Withdraw(r.PathValue("id"))
	if err != nil {
		return proposalProblem(err)
	}
	if record := visitOf(r.Context()).order; record != nil {
		record.Kind, record.Event, record.Flow = "order.withdraw", q.ID, q.Order.Scope.String()
	}
	return answer(w, proposalView(&q))
}

func proposalProblem(err error) error {
	status := http.StatusNotFound
	switch {
	case errors.Is(err, orders.ErrSamePerson):
		status = http.StatusForbidden
	case errors.Is(err, orders.ErrVoid):
		status = http.StatusGone
	}
	return &problem.Error{Status: status, Detail: err.Error()}
}
