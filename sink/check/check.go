// Package check answers dispatchers, gateways and hooks that ask before a call. The ask goes into the log like any
// event, and the answer is what the fold said of it there: there is no second evaluator.
package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/analyzer/spelling"
	"weir/events"
)

// Handler is POST /v1/check: one event of kind agent.call, tool.call, task.loop or task.reflect, answered
// with an Answer: 200 when the call may be made, and else the status of the verdict or of the error,
// which is a problem (RFC 9457), too. With ?deny=bare a refusal is flat instead. Several events, one a line as application/x-ndjson, are asked for
// together, see serveMany.
// It holds nothing of its own, and any number of requests may be served at once.
type Handler struct {
	Check Checker
	// Fail writes an error: one of Check, one of the request, which is a *Error or an
	// *events.DecodeError, or a *Panic, which it logs with its stack and counts.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// Now is the time of events that give none, which may lack an id as well. Nil: an event has to
	// have both, unless KeyHeader gives the id.
	Now func() time.Time
	// Hint returns what the caller of an allowed check should pass as well, "" for nothing. It may be nil.
	Hint func(ev *events.Event) string
}

// MemberPath is the route on which one member of a group takes the asks that another one
// passes on to it.
const MemberPath = "/v1/asks"

// TreePath is the route on which one member of a group asks another one what a tree of flows
// has said to an ask.
const TreePath = MemberPath + "/tree"

// Error is what is wrong with a request.
// Errors of this type are the client's fault, and never count as failures of weir.
type Error struct {
	Status int    `json:"status"`
	Detail string `json:"detail"` // what, and how to go on
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }

// ServeHTTP answers one ask, or several.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := singles.Get().(*single)
	// If serve returns false, another goroutine may still use s, for any time. Then s is not reused.
	if h.serve(w, r, s) && cap(s.body)+cap(s.room)+cap(s.text) <= mostSpare {
		singles.Put(s)
	}
}

// single is the memory of an ask that comes by itself.
type single struct {
	body []byte
	room []byte // for what goes into the log
	ev   events.Event
	Request
	batch [1]*Request
	text  []byte // of the answer
}

// mostSpare is how much memory of a check is used again; longer ones are rare.
const mostSpare = 16 << 10

var singles = sync.Pool{New: func() any { return new(single) }}

// serve answers a request in the memory of s, and reports whether that is free again.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, s *single) (done bool) {
	in := bytes.NewBuffer(s.body[:0])
	// One byte more than is taken, so that Decode finds out that the body is too long.
	_, err := in.ReadFrom(io.LimitReader(r.Body, events.MaxEventBytes+1))
	s.body = in.Bytes()
	if err != nil {
		h.Fail(w, r, fmt.Errorf("read the body: %w", err))
		return true
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == manyAsks {
		h.serveMany(w, r, s.body)
		return false
	}
	by, err := h.sender(r)
	var raw []byte
	if err == nil {
		raw, err = prepare(s.body, &s.ev, s.room, &by)
	}
	if err == nil {
		err = by.agrees(&s.ev)
	}
	if err != nil {
		h.Fail(w, r, err)
		return true
	}
	if &raw[0] != &s.body[0] {
		s.room = raw
	}
	format, err := ParseDenyFormat(r.URL.Query().Get("deny"))
	if err != nil {
		h.Fail(w, r, err)
		return true
	}
	s.Request = Request{Context: r.Context(), Event: &s.ev, Raw: raw, Decoded: true}
	s.batch[0] = &s.Request
	h.Check.all(s.batch[:])
	v, err := s.Answer()
	if err == nil && !Refuses(v) {
		s.text = append(h.appendAllowance(s.text[:0], &s.ev, v), '\n')
		writeAllowance(w, v, s.text)
	} else {
		h.respond(w, r, &s.Request, v, err, format, whole)
	}
	done = s.done()
	s.Request = Request{} // so that nothing is kept alive
	return done
}

// respond writes what an ask was answered with.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, q *Request, v *events.Verdict, err error, format DenyFormat, as detail) {
	switch {
	case err != nil:
		h.Fail(w, r, err)
	case Refuses(v):
		// There is no JSON-RPC request that it could be for, so it is a Problem or Flat.
		reply := Refuse(v, format, nil)
		if format != Flat {
			reply.Body = appendRefusal(reply.Body, q.Event, as.of(v))
		}
		reply.write(w)
	default:
		writeAllowance(w, v, append(h.appendAllowance(make([]byte, 0, 1<<10), q.Event, v), '\n'))
	}
}

// prepare reads the event and makes an ask of it.
// The returned line is what goes into the log. It may be body itself, which the caller then
// may not change, or be written over what room holds.
func prepare(body []byte, ev *events.Event, room []byte, by *sender) ([]byte, error) {
	if err := events.Decode(body, ev); err != nil {
		if body, err = Complete(ev, err, by.missing()); err != nil {
			return nil, err
		}
	}
	// Some kinds and fields are weir's own; producers must not send them.
	if err := ev.FromProducer(); err != nil {
		return nil, err
	}
	if !ev.Kind.Asked() {
		return nil, &Error{http.StatusUnprocessableEntity,
			fmt.Sprintf("only agent.call, tool.call, task.loop and task.reflect can be asked for, not %s; send it to /v1/events", ev.Kind)}
	}
	// Only an event that was changed is written anew: what the producer wrote goes into the
	// log as it is.
	changed := begin(ev)
	if ev.CorrelationSource == events.CorrelationPrincipal { // gateways make such checks, beside another one
		ev.CorrelationSource, changed = events.CorrelationExplicit, true
	}
	if changed || !ev.Ask {
		ev.Ask = true
		return ev.AppendJSON(slices.Grow(room[:0], len(body)+askRoom)), nil
	}
	if bytes.IndexByte(body, '\n') < 0 { // it is one line already
		return body, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}

// askRoom is what being made an ask adds to an event, about.
const askRoom = 64

// begin gives a call of a person, a scheduler or an applet without a flow a flow of its
// own: no earlier call can have begun it. The id is made from the id of the event. A caller that
// asks again because the answer was lost gets the same one. begin reports whether it set one.
func begin(ev *events.Event) bool {
	by := ev.By()
	if ev.Kind != events.AgentCall || ev.CorrelationID != "" || by != events.OriginUser && by != events.OriginScheduler && by != events.OriginApplet {
		return false
	}
	// The source is part of it, for ids are good within a source.
	sum := sha256.Sum256([]byte(ev.Source + "\x00" + ev.ID))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	ev.CorrelationID = fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	return true
}

// Refuses reports whether the verdict, given as an answer, forbids the call.
// A verdict in shadow mode says what would be refused, and refuses nothing.
func Refuses(v *events.Verdict) bool {
	return v.Mode != events.ModeShadow && v.Stops()
}

// writeAllowance writes an answer that allows the call.
func writeAllowance(w http.ResponseWriter, v *events.Verdict, body []byte) {
	h := w.Header()
	setAnswerHeaders(h, v)
	h.Set("Cache-Control", "no-store") // a call by a cached allowance would not be counted
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// The status of the verdict goes first, since limits may set it (see decision 53).
func status(v *events.Verdict) int {
	switch {
	case v.HTTPStatus >= 400 && v.HTTPStatus < 600:
		return v.HTTPStatus
	case v.Action == events.Throttle:
		return http.StatusTooManyRequests
	}
	return http.StatusForbidden
}

// problem is a refusal as RFC 9457 wants it, with the members that gateways know.
// A figure that is nil was not measured, which is not 0.
type problem struct {
	Type             string        `json:"type"`
	Title            string        `json:"title"`
	Status           int           `json:"status"`
	Detail           string        `json:"detail"`
	Instance         string        `json:"instance,omitempty"`
	Reason           events.Reason `json:"reason_code"`
	Action           events.Action `json:"action"`
	Limit            *float64      `json:"limit,omitempty"`
	Observed         *float64      `json:"observed,omitempty"`
	Unit             events.Unit   `json:"unit,omitempty"`
	Session          string        `json:"session,omitempty"`
	Tool             string        `json:"tool,omitempty"`
	ControlledCutoff bool          `json:"controlled_cutoff"`
	RetryAfterS      int64         `json:"retry_after_s,omitempty"`
	AgentMessage     string        `json:"agent_message,omitempty"`
	HeldUntil        string        `json:"held_until,omitempty"` // a person has to decide until then
	CorrelationID    string        `json:"correlation_id,omitempty"`

	// load or behind, see DegradedHeader.
	Degraded  string             `json:"degraded,omitempty"`
	Remaining []events.Remaining `json:"remaining,omitempty"`
}

// problemOf writes a refusal as a problem.
func problemOf(v *events.Verdict) []byte {
	return encode(problem{HeldUntil: HeldUntil(v), Type: "urn:weir:reason:" + string(v.Reason), Title: title(v.Reason), Status: status(v), Detail: v.Message,
		Instance: "urn:weir:verdict:" + v.ID, Reason: v.Reason, Action: v.Action, Limit: v.Limit, Observed: v.Observed, Unit: v.Unit,
		Session: v.Session, Tool: v.Tool, ControlledCutoff: v.ControlledCutoff, RetryAfterS: v.RetryAfterS,
		AgentMessage: v.AgentMessage, CorrelationID: v.CorrelationID, Degraded: v.Degraded, Remaining: v.Remaining})
}

// title is the reason as a person reads it; it does not change from one refusal to the next.
func title(r events.Reason) string {
	words := strings.ReplaceAll(string(r), "_", " ")
	if words == "" {
		return "Refused"
	}
	return spelling.Capital(words)
}

// ErrTimeout is for a Checker: the fold did not come to the event in time. The event is in
// the log all the same, so the same ask with the same id gets its answer later.
var ErrTimeout = errors.New("the answer takes too long; ask again with the same id, or go by the standing orders")
