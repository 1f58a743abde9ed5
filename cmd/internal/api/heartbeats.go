package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/plainhttp"
	"weir/cmd/internal/problem"
	"weir/sink/prom"
)

// guardsPath is where guards send their heartbeats.
const guardsPath = "/v1/guards"

// maxBeat is the longest heartbeat in bytes: of a guard with the most orders.
const maxBeat = 128 << 10

// heartbeats takes what guards report that they enforce. There may be thousands of guards, each with a
// connection on which it sends nothing else.
type heartbeats struct {
	orders   Orders
	entrance *entrance
	faults   *faults
	metrics  *prom.Metrics // nil if metrics are off
}

func (h handOrders) heartbeats() *heartbeats {
	return &heartbeats{orders: h.parts.Orders, entrance: &h.entrance, faults: &h.faults, metrics: h.metrics}
}

// route is POST /v1/guards.
func (h *heartbeats) route() route { return route{"POST", guardsPath, follower, h.serve} }

// serve answers a heartbeat, and has the next ones on the connection answered by repeats.
func (h *heartbeats) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxBeat)
	if err != nil {
		return err
	}
	next, err := h.heard(PrincipalOf(r.Context()), body)
	if err != nil {
		return err
	}
	h.repeats(w, r)
	w.Header().Set("Content-Type", "application/json")
	h.write(w, next)
	return nil
}

// heard takes a heartbeat of a principal, and returns after what time the next one is due.
func (h *heartbeats) heard(principal string, body []byte) (time.Duration, error) {
	guards, now := h.orders.Desk.Guards, h.orders.Book.Now()
	if next, ok := guards.Again(principal, body, now); ok {
		return next, nil
	}
	b, err := readBeat(body)
	if err != nil {
		return 0, err
	}
	return guards.Read(principal, body, b, now), nil
}

// readBeat reads a heartbeat, and reports what is wrong with it.
func readBeat(body []byte) (b orders.Beat, err error) {
	if err := json.Unmarshal(body, &b); err != nil {
		return b, &problem.Error{Status: http.StatusBadRequest, Detail: "read the heartbeat: " + err.Error()}
	}
	if err := b.Check(); err != nil {
		return b, &problem.Error{Status: http.StatusBadRequest, Detail: "the heartbeat is not valid: " + err.Error()}
	}
	return b, nil
}

// write writes an orders.Answer.
func (h *heartbeats) write(w http.ResponseWriter, next time.Duration) {
	text := strconv.AppendInt([]byte(`{"next_ms":`), next.Milliseconds(), 10)
	_, _ = w.Write(append(text, "}\n"...))
}

// repeats has the next heartbeats on a connection answered without the layers of the server, as long as their
// heads are those of r. Host and origin are in the head, so they are good. The principal is looked up and charged
// each time. A heartbeat that is rejected takes the way of other requests, which charges it. So it is read before it
// is charged here.
func (h *heartbeats) repeats(w http.ResponseWriter, r *http.Request) {
	rt := h.route()
	var next time.Duration
	answer := h.metrics.Counted(prom.Request{Method: rt.method, Pattern: rt.path}, func(w http.ResponseWriter, _ *http.Request) { h.write(w, next) })
	plainhttp.Repeat(w, func(w http.ResponseWriter, body []byte) bool {
		err := h.faults.caught(rt.method+" "+rt.path, func() (err error) {
			if !h.orders.Desk.Guards.Recognizes(body) {
				if _, err := readBeat(body); err != nil {
					return err
				}
			}
			who, e := h.entrance.enter(&rt, r)
			if e != nil {
				return e
			}
			next, err = h.heard(principalName(who), body)
			return err
		})
		if err != nil {
			return false
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		answer(w, r)
		return true
	})
}
