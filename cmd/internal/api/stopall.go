package api

import (
	"net/http"

	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/byhand"
)

// stopAllPath is where programs stop all flows that know no orders about scopes.
const stopAllPath = "/v1/flows/stop"

// StopAll is the body of POST /v1/flows/stop.
type StopAll struct {
	All    bool   `json:"all"`
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	ForS   int64  `json:"for_s,omitempty"` // 0: a day
}

// StopAllAnswer is its answer: the order about everything that was given. It names no flows, since
// it stops those as well of which weir has not heard.
type StopAllAnswer struct {
	HandOrderView
	Stopped string   `json:"stopped"` // all
	Missed  []string `json:"missed"`  // flows that go on: none
}

// serveStopAll is POST /v1/flows/stop: POST /v1/orders with the scope all. A principal that gives
// orders within some scopes alone stops those.
func (h handOrders) serveStopAll(w http.ResponseWriter, r *http.Request) error {
	var asked StopAll
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	if !asked.All {
		return &problem.Error{Status: http.StatusBadRequest, Field: "all", Detail: "this stops all flows: confirm it with all: true, or POST to " + ordersPath}
	}
	o, long, err := (&HandOrder{Scope: byhand.Scope{Kind: events.ScopeAll}, Reason: asked.Reason, By: asked.By, ForS: asked.ForS}).order(r)
	if err != nil {
		return err
	}
	if err := narrow(visitOf(r.Context()).who, o); err != nil {
		return err
	}
	if h.parts.Orders.Proposals.Needs(o) {
		return secondPerson{h}.propose(w, r, &HandOrder{ForS: asked.ForS}, o)
	}
	given, err := h.order(r, *o, long, nil)
	if err != nil {
		return err
	}
	writeJSON(w, "application/json", http.StatusAccepted, StopAllAnswer{h.view(given), "all", []string{}})
	return nil
}
