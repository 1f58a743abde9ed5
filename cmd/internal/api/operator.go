package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
)

// What a person orders is an event in the log like all others: who replays the log
// sees who stopped a flow, when, for how long and why, and gets the same verdicts.

// operatorSource is the source of the events by which people give orders over HTTP.
// It distinguishes them from orders in a body of events, which keep the source they name.
const operatorSource = "weir/operator"

// The paths of orders about more than one flow.
const (
	overridesPath = "/v1/overrides"
)

// whoHeader is the header in which a proxy names the authenticated user. It takes precedence
// over the body, which any holder of the token can write.
const whoHeader = "X-Forwarded-User"

// flowOrders serves the orders that persons give about flows. What it looks up and appends to is set
// by Serve.
type flowOrders struct {
	log    Log
	folded *folded
	orders *orderLog
	clock  clock.Clock
	logger *slog.Logger
}

// routes are the routes by which persons give orders about flows. Each needs the role
// of an operator, and host writes each to the audit log.
func (p *flowOrders) routes() []route {
	return []route{
		{"POST", "/v1/flows/{id}/stop", operator, p.serveOrder(events.OperatorStop)},
		{"POST", "/v1/flows/{id}/release", operator, p.serveOrder(events.OperatorRelease)},
		{"POST", "/v1/flows/{id}/grant", operator, p.serveGrant},
		{"POST", overridesPath, operator, p.serveOverride},
		{"POST", "/v1/inspect/stop", operator, byQuery("flow", p.serveOrder(events.OperatorStop))},
		{"POST", "/v1/inspect/release", operator, byQuery("flow", p.serveOrder(events.OperatorRelease))},
		{"POST", "/v1/inspect/grant", operator, byQuery("flow", p.serveGrant)},
	}
}

// sender is what events come from that the request brings: what a person orders takes the
// admin token, for an intake that took it from anybody would leave nothing of the token.
// gate.Admin is also believed that a user has spoken, see gate.Trust.
func (n *entrance) sender(r *http.Request) gate.Source {
	if n.mayOperate(r) {
		return gate.Admin
	}
	return gate.Producer
}

// OperatorOrder is the body of a request to stop or release, as the member "operator" of the
// event.
// Unknown members are an error: a misspelled one, such as "for", would otherwise make a stop
// of an hour one of a day.
type OperatorOrder struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	ForS   int64  `json:"for_s,omitempty"` // 0: a stop stands for a day, a release holds nothing off
}

// OperatorAnswer is the response to an order: it is in the log.
// The status is 202, since the log has the order and the fold may process it later.
type OperatorAnswer struct {
	ID   string         `json:"id"` // of the event
	Kind string         `json:"kind"`
	Flow string         `json:"flow"`
	Time events.RFC3339 `json:"time"`
	By   string         `json:"by"`
	// New reports that the flow is unknown: the order applies once the flow appears.
	New bool `json:"new,omitempty"`
	// Until is when an override expires.
	Until events.RFC3339 `json:"until,omitzero"`
	// Verdicts are what the fold said of it, if it said something in time.
	Verdicts []json.RawMessage `json:"verdicts,omitempty"`
}

// serveOrder is POST /v1/flows/{id}/stop and release.
// A release of a flow on which nothing stands brings no verdict, so it is answered at once.
func (p *flowOrders) serveOrder(kind events.Kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var asked OperatorOrder
		if err := readOrder(w, r, &asked); err != nil {
			return err
		}
		o, err := asked.operator(r)
		if err != nil {
			return err
		}
		ev := events.Event{Kind: kind, CorrelationID: r.PathValue("id"), Operator: &o}
		waits := func(v *analyzer.View) bool { return kind == events.OperatorStop || v == nil || refuses(v) }
		return p.give(w, r, &ev, waits)
	}
}

// refuses reports whether a release of the flow revokes anything.
// A warning is not revoked, and no request waits for it.
func refuses(v *analyzer.View) bool {
	return slices.ContainsFunc(v.Orders, func(o events.Verdict) bool { return o.Action.Stops() })
}

// give appends an order about one flow to the log and answers. It waits for the result of
// the fold if waits expects something of the flow. The flow is nil if another process folds
// it.
//
// An unknown flow accepts orders, too: an operator who sees a runaway may stop it before its
// first event arrives. The response reports this (New), because a name may be misspelled.
func (p *flowOrders) give(w http.ResponseWriter, r *http.Request, ev *events.Event, waits func(*analyzer.View) bool) error {
	view, known, err := p.folded.lookAt(ev.CorrelationID)
	if err != nil {
		return err
	}
	stamp(ev, orderID(), p.clock.Now())
	if known && view != nil {
		ev.Time = max(ev.Time, events.Stamp(view.Last)) // behind all that was folded it might be too late
	}
	said, leave, err := p.orders.put(r.Context(), ev)
	defer leave()
	if err != nil {
		return err
	}
	out := OperatorAnswer{ID: ev.ID, Kind: ev.Kind.String(), Flow: ev.CorrelationID, Time: events.RFC3339(ev.Time), New: !known}
	visitOf(r.Context()).note(ev)
	if ev.Override != nil {
		out.By, out.Until = ev.Override.By, events.RFC3339(ev.Override.Expires)
		p.logger.Info("a limit was overridden by a person", "flow", out.Flow, "rule", ev.Override.Rule, "by", out.By, "reason", ev.Override.Reason, "until", out.Until.String(), "event", out.ID)
	} else {
		out.By = ev.Operator.By
		p.logger.Info("a person has given an order", "kind", out.Kind, "flow", out.Flow, "by", out.By, "reason", ev.Operator.Reason, "for", ev.Operator.For, "event", out.ID)
	}
	if waits(view) {
		out.Verdicts = said()
	}
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}

// orderID is an id for the event of an order, which no two have.
// So an order that is sent twice is two events, each of which is folded.
func orderID() string { return "order-" + strings.ToLower(rand.Text()) }

// stamp fills in what the events of all orders have.
func stamp(ev *events.Event, id string, now time.Time) {
	ev.ID, ev.Source, ev.Time = id, operatorSource, events.StampOf(now)
}

// lineOf returns the event as the log has it; the error says what is wrong with what
// was asked.
// What a person gives passes the same checks as what a producer sends.
func lineOf(ev *events.Event) ([]byte, error) {
	if err := ev.FromProducer(); err != nil {
		return nil, err
	}
	return ev.Canonical()
}

// maxOrder is how many bytes an order may have: what a person writes.
// A body that is longer is refused with 413.
const maxOrder = 64 << 10

// readOrder reads one JSON object into v, and refuses members that it does not know and
// anything behind the object.
func readOrder(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err = in.Decode(v); err == nil && in.More() {
		err = errors.New("there is something behind the object")
	}
	if err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf(`read the order: %v; want an object such as {"reason": "looping since noon", "by": "ann", "for_s": 3600}`, err)}
	}
	return nil
}

// signed returns the author of an order, and an error if the author or the reason is missing.
// A principal with a name gives the order in that name, and may add on whose behalf.
// "ann/bob" is ann, an authenticated principal, on behalf of bob, a name from the body: a body
// never authenticates its sender. The audit log gets the names also when the order is
// rejected.
func signed(r *http.Request, by, reason string) (string, error) {
	if who := r.Header.Get(whoHeader); who != "" {
		by = who
	}
	v := visitOf(r.Context())
	if v.who != nil && v.who.Named && by != v.who.Name {
		by = strings.TrimSuffix(v.who.Name+"/"+by, "/")
	}
	if v.order != nil {
		v.order.By, v.order.Reason = by, reason
	}
	switch {
	case strings.TrimSpace(reason) == "":
		return "", &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeMissingField), Field: "reason", Detail: "say why: an order without a reason is not taken"}
	case strings.TrimSpace(by) == "":
		return "", &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeMissingField), Field: "by", Detail: "say who: by in the body, or a proxy in the header " + whoHeader}
	}
	return by, nil
}

// holding reads for how long an order stands.
// 0 is what the sender left out, and for the caller to read.
func holding(seconds int64) (time.Duration, error) {
	const most = int64(events.MaxHold / time.Second)
	if seconds < 0 || seconds > most {
		return 0, &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeOutOfRange), Field: "for_s", Detail: fmt.Sprintf("for_s is %d; want seconds from 0 to %d, which is 366 days", seconds, most)}
	}
	return time.Duration(seconds) * time.Second, nil
}

// operator is what the event says of an order, with who gives it. The error is one to
// answer with.
func (o *OperatorOrder) operator(r *http.Request) (events.Operator, error) {
	by, err := signed(r, o.By, o.Reason)
	if err != nil {
		return events.Operator{}, err
	}
	hold, err := holding(o.ForS)
	return events.Operator{Reason: o.Reason, By: by, For: hold}, err
}
