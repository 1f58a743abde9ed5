package api

import (
	"log/slog"
	"net/http"

	"weir/cmd/internal/access"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
)

// auditing writes the orders that requests give to the audit log.
type auditing struct {
	log    *access.Audit // nil for nowhere; set by Serve
	door   *door
	clock  clock.Clock
	logger *slog.Logger
}

// audited carries out an order and writes it to the audit log before and after.
// The first line is on the disk before anything happens (see decision 74). The second
// line has the response, and the event that the order became, if any.
func (a *auditing) audited(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request) error) error {
	v := visitOf(r.Context())
	v.order = a.record(r, v.who, access.Asked)
	if err := a.audit(*v.order); err != nil {
		return err
	}
	seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	err := serve(seen, r)
	v.order.Stage, v.order.Time, v.order.Status = access.Answered, a.clock.Now().UTC(), seen.status
	if err != nil {
		// With an error nothing has been written yet: the caller makes the response of it.
		// If the client is gone, the status stays 0.
		v.order.Status = 0
		if e := explain(err); e != nil {
			v.order.Status, v.order.Detail = e.Status, e.Detail
		}
	}
	// The order is carried out. A failed audit line must not make the sender repeat it.
	if aerr := a.log.Write(*v.order); aerr != nil {
		a.logger.Error("the audit log does not say how an order was answered", "order", v.order.ID, "error", aerr)
	}
	return err
}

// audit logs orders before they are carried out. An order that cannot be logged is
// rejected. Without an audit log nothing is logged and nothing rejected. The error is
// 503: a full disk blocks orders of persons as it blocks events, and both recover by
// themselves.
func (a *auditing) audit(orders ...access.Record) error {
	if err := a.log.Write(orders...); err != nil {
		a.logger.Error("orders are not carried out, because the audit log cannot be written", "error", err)
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "the order was not carried out, because the audit log cannot be written; see weir's log", RetryAfter: 5}
	}
	return nil
}

// refusedOrder logs an order of a caller without the role for it.
// who is nil if the caller was not admitted. It is then looked up once more, since a
// client that lacks the role is still known.
func (a *auditing) refusedOrder(r *http.Request, who *access.Principal, e *problem.Error) {
	if who == nil {
		who, _ = a.door.who(r, operator)
	}
	record := a.record(r, who, access.Refused)
	record.Status, record.Detail = e.Status, e.Detail
	a.auditRefused(record)
}

// auditRefused writes the line. That it cannot be written changes nothing: the order is
// refused.
func (a *auditing) auditRefused(record *access.Record) {
	if err := a.log.Write(*record); err != nil {
		a.logger.Error("the audit log does not say that an order was refused", "principal", record.Principal, "peer", record.Peer, "error", err)
	}
}

// record returns what a request states about itself.
// The path includes the query, which names the flow on routes of the inspector. The id
// belongs to orders only and connects their two lines.
func (a *auditing) record(r *http.Request, who *access.Principal, stage string) *access.Record {
	record := &access.Record{Time: a.clock.Now().UTC(), Stage: stage, Peer: r.RemoteAddr, Method: r.Method, Path: r.URL.RequestURI()}
	if stage == access.Asked {
		record.ID = orderID()
	}
	if who != nil {
		record.Principal = who.Name
	}
	return record
}

// recordOf returns the audit line of an order that comes as an event.
// Such an order has one line and no response: it is one of many events in a body.
func (a *auditing) recordOf(r *http.Request, ev *events.Event) access.Record {
	record := a.record(r, visitOf(r.Context()).who, access.Asked)
	noteEvent(record, ev)
	return *record
}

// note notes which event an order has become.
// Outside of an audited request it does nothing, so handlers call it without a look.
func (v *visit) note(ev *events.Event) {
	if v.order != nil {
		noteEvent(v.order, ev)
	}
}

// noteEvent copies what the event says of who and why, each kind of order in its own member.
func noteEvent(record *access.Record, ev *events.Event) {
	record.Kind, record.Event, record.Flow = ev.Kind.String(), ev.ID, ev.CorrelationID
	switch {
	case ev.Operator != nil:
		record.By, record.Reason = ev.Operator.By, ev.Operator.Reason
	case ev.Override != nil:
		record.By, record.Reason = ev.Override.By, ev.Override.Reason
	case ev.Rescue != nil:
		record.By, record.Reason = ev.From.ID(), ev.Rescue.Reason
	}
}

// refusedOrder logs that a sender of events may not give the order among them.
// The audit log does not record other rejected events.
func (t *delivery) refusedOrder(err error) {
	if !gate.IsOrder(&t.event) {
		return
	}
	record := t.intake.auditing.record(t.request, t.visit.who, access.Refused)
	noteEvent(record, &t.event)
	record.Status, record.Detail = http.StatusBadRequest, err.Error()
	t.intake.auditing.auditRefused(record)
}

// statusWriter remembers the status of an answer.
// A handler that writes without a status has answered 200.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader is called once, as by all handlers here.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
