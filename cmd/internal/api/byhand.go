package api

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/byhand"
)

// ordersPath is where persons give orders about scopes.
const ordersPath = "/v1/orders"

// linksPath is where links that give one order are made and used.
const linksPath = "/v1/order-links"

// Orders is what the server needs of the orders that persons give about scopes.
type Orders struct {
	Book *orders.Book
	Desk *orders.Desk
	// Proposals are the stops that wait for a second person.
	Proposals *orders.Proposals
	// Secrets sign links. The first one signs, all are accepted. The error says why there are none.
	Secrets func() ([][]byte, error)
}

// handOrders serves the orders that persons give about scopes. What it needs of the server is set by
// Serve.
type handOrders struct{ *Server }

func (h handOrders) routes() []route {
	return slices.Concat(secondPerson{h}.routes(), drills{h}.routes(), []route{
		{"POST", ordersPath, operator, h.serveGive},
		{"POST", stopAllPath, operator, h.serveStopAll},
		{"GET", ordersPath, reader, h.serveList},
		{"GET", ordersPath + "/{id}", reader, h.serveOne},
		{"DELETE", ordersPath + "/{id}", operator, h.serveRelease},
		{"GET", ordersPath + "/{id}/receipt", reader, h.serveReceipt},
		h.heartbeats().route(),
		{"POST", receiptPath, member, h.forwarding().toMember(h.answerPart)},
		{"POST", linksPath, operator, h.serveLink},
		{"GET", linksPath + "/{token}", public, h.serveLinkPage},
		{"POST", linksPath + "/{token}", public, h.serveUse},
	})
}

// HandOrder is the body of POST /v1/orders.
type HandOrder struct {
	Scope  byhand.Scope   `json:"scope"`
	Within []byhand.Scope `json:"within,omitempty"`
	Except []byhand.Scope `json:"except,omitempty"`
	Reason string         `json:"reason"`
	By     string         `json:"by,omitempty"`
	ForS   int64          `json:"for_s,omitempty"` // 0: a day
}

// HandOrderView is an order as it is answered.
type HandOrderView struct {
	ID        string         `json:"id"`
	VerdictID string         `json:"verdict_id"`
	Order     string         `json:"order"` // stop or release
	Scope     byhand.Scope   `json:"scope"`
	Within    []byhand.Scope `json:"within,omitempty"`
	Except    []byhand.Scope `json:"except,omitempty"`
	Reason    string         `json:"reason"`
	By        string         `json:"by"`
	Since     events.RFC3339 `json:"since,omitzero"` // when it was given first
	Time      events.RFC3339 `json:"time"`           // of the last word
	Expires   events.RFC3339 `json:"expires_at,omitzero"`
	Active    bool           `json:"active"`
	// Recorded is false while the order is in force at this process alone, because the log does
	// not take it.
	Recorded bool `json:"recorded"`
}

func (h handOrders) view(o *byhand.Order) HandOrderView {
	book := h.parts.Orders.Book
	return HandOrderView{ID: o.ID(), VerdictID: o.VerdictID(), Order: o.Order, Scope: o.Scope, Within: o.Within, Except: o.Except, Reason: o.Reason, By: o.By,
		Since: o.Since, Time: o.Time, Expires: o.Expires, Active: o.Stops(book.Now()), Recorded: book.Saved(o.ID())}
}

// HandOrderList is the answer of GET /v1/orders.
type HandOrderList struct {
	Orders []HandOrderView `json:"orders"`
}

// serveGive is POST /v1/orders: a stop of all calls of a scope, those of flows that begin later as
// well. Given again it takes the place of the one before.
func (h handOrders) serveGive(w http.ResponseWriter, r *http.Request) error {
	var asked HandOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	o, long, err := asked.order(r)
	if err != nil {
		return err
	}
	if err := narrow(visitOf(r.Context()).who, o); err != nil {
		return err
	}
	if h.parts.Orders.Proposals.Needs(o) {
		return secondPerson{h}.propose(w, r, &asked, o)
	}
	return h.give(w, r, *o, long, nil)
}

// long is how long the stop lasts.
func (a *HandOrder) long() (time.Duration, error) {
	long, err := holding(a.ForS)
	if long == 0 {
		long = events.DefaultStop
	}
	return long, err
}

// order is the record of what was asked, and how long the stop lasts.
func (a *HandOrder) order(r *http.Request) (o *byhand.Order, long time.Duration, err error) {
	by, err := signed(r, a.By, a.Reason)
	if err != nil {
		return nil, 0, err
	}
	if long, err = a.long(); err != nil {
		return nil, 0, err
	}
	o = &byhand.Order{Order: byhand.Stop, Scope: a.Scope, Within: a.Within, Except: a.Except, Reason: a.Reason, By: by}
	if err := o.Check(); err != nil {
		return nil, 0, &problem.Error{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	if o.IsSelfTest() {
		return nil, 0, &problem.Error{Status: http.StatusBadRequest, Field: "scope", Detail: "these flows are weir's own, to test itself"}
	}
	return o, long, nil
}

// narrow keeps an order to what the principal may give orders about: an order about anything else is
// given within the one scope that it may, such as its tenant.
func narrow(who *access.Principal, o *byhand.Order) error {
	may := who.Orders()
	if len(may) == 0 {
		return nil
	}
	for _, mine := range may {
		if slices.ContainsFunc(append([]byhand.Scope{o.Scope}, o.Within...), mine.Covers) {
			return nil
		}
	}
	if len(may) == 1 {
		o.Within = append(slices.Clip(o.Within), may[0])
		return nil
	}
	return &problem.Error{Status: http.StatusForbidden, Field: "within", Detail: fmt.Sprintf("%s may give orders within %v only; name one of them in within", who.Name, may)}
}

// give puts an order in force and answers. long is how long a stop lasts, and expect is that of
// orders.Book.Give.
func (h handOrders) give(w http.ResponseWriter, r *http.Request, o byhand.Order, long time.Duration, expect *int64) error {
	given, err := h.order(r, o, long, expect)
	if err != nil {
		return err
	}
	writeJSON(w, "application/json", http.StatusOK, h.view(given))
	return nil
}

// order puts an order in force and notes it for the audit log.
func (h handOrders) order(r *http.Request, o byhand.Order, long time.Duration, expect *int64) (*byhand.Order, error) {
	book := h.parts.Orders.Book
	if o.Order == byhand.Stop {
		o.Expires = events.RFC3339(book.Now().Add(long))
	}
	given, err := book.Give(r.Context(), o, expect)
	switch {
	case errors.Is(err, orders.ErrUnsaved): // it is in force, which is what matters now
	case err != nil:
		return nil, handProblem(err)
	}
	noteOrder(r, given)
	return given, nil
}

// handProblem is the answer to an order that was not taken.
func handProblem(err error) error {
	switch {
	case errors.Is(err, orders.ErrNone):
		return &problem.Error{Status: http.StatusNotFound, Detail: "there is no such order; GET " + ordersPath + " lists those that there are"}
	case errors.Is(err, orders.ErrOther):
		return &problem.Error{Status: http.StatusGone, Detail: orders.ErrLink.Error()}
	case errors.Is(err, orders.ErrFull):
		return &problem.Error{Status: http.StatusConflict, Detail: err.Error()}
	}
	return err
}

// noteOrder notes for the audit log what a request has become.
func noteOrder(r *http.Request, o *byhand.Order) {
	if record := visitOf(r.Context()).order; record != nil {
		record.Kind, record.Event, record.Flow = "order."+o.Order, o.VerdictID(), o.Scope.String()
		record.By, record.Reason = o.By, o.Reason
	}
}

// serveList is GET /v1/orders, with ?all=1 of those as well that were released or have expired.
func (h handOrders) serveList(w http.ResponseWriter, r *http.Request) error {
	out := HandOrderList{Orders: []HandOrderView{}}
	for _, o := range h.parts.Orders.Book.List(r.URL.Query().Get("all") == "1") {
		if mayRead(visitOf(r.Context()).who, o) {
			out.Orders = append(out.Orders, h.view(o))
		}
	}
	return answer(w, out)
}

// mayRead reports whether an order concerns a principal that gives orders within some scopes alone.
func mayRead(who *access.Principal, o *byhand.Order) bool {
	may := who.Orders()
	return len(may) == 0 || o.Scope.Kind == events.ScopeAll && len(o.Within) == 0 ||
		slices.ContainsFunc(may, func(mine byhand.Scope) bool {
			return slices.ContainsFunc(append([]byhand.Scope{o.Scope}, o.Within...), mine.Covers)
		})
}

// orderID16 is the id of an order, which no text of a scope is.
var orderID16 = regexp.MustCompile("^[0-9a-f]{16}$")

// find returns the order that a path names, by its id or the text of its scope.
func (h handOrders) find(r *http.Request) (*byhand.Order, error) {
	name, who := r.PathValue("id"), visitOf(r.Context()).who
	if !orderID16.MatchString(name) {
		scope, err := byhand.ParseScope(name)
		if err != nil {
			return nil, &problem.Error{Status: http.StatusBadRequest, Detail: err.Error()}
		}
		asked := &byhand.Order{Scope: scope}
		for _, text := range r.URL.Query()["within"] {
			s, err := byhand.ParseScope(text)
			if err != nil {
				return nil, &problem.Error{Status: http.StatusBadRequest, Field: "within", Detail: err.Error()}
			}
			asked.Within = append(asked.Within, s)
		}
		if err := narrow(who, asked); err != nil {
			return nil, err
		}
		name = asked.ID()
	}
	o := h.parts.Orders.Book.Get(name)
	if o == nil || !mayRead(who, o) {
		return nil, handProblem(orders.ErrNone)
	}
	return o, nil
}

// serveOne is GET /v1/orders/{id}.
func (h handOrders) serveOne(w http.ResponseWriter, r *http.Request) error {
	o, err := h.find(r)
	if err != nil {
		return err
	}
	return answer(w, h.view(o))
}

// HandRelease is the body of DELETE /v1/orders/{id}.
type HandRelease struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// serveRelease is DELETE /v1/orders/{id}: calls of the scope may be made again.
func (h handOrders) serveRelease(w http.ResponseWriter, r *http.Request) error {
	var asked HandRelease
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	by, err := signed(r, asked.By, asked.Reason)
	if err != nil {
		return err
	}
	o, err := h.find(r)
	if err != nil {
		return err
	}
	release := byhand.Order{Order: byhand.Release, Scope: o.Scope, Within: o.Within, Reason: asked.Reason, By: by}
	before := release.ID()
	if err := narrow(visitOf(r.Context()).who, &release); err != nil || release.ID() != before {
		return &problem.Error{Status: http.StatusForbidden, Detail: "this order is not within what this principal may give orders about"}
	}
	return h.give(w, r, release, 0, nil)
}
