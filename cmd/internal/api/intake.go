package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"weir/cmd/internal/access"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/state"
)

// What of the lines that are refused is told in an answer, and after how many of them the
// rest of a body is not read.
const (
	maxRefusals = 1000
	maxBadLines = 200_000
)

// intakeAnswer is what the sender of events is told.
type intakeAnswer struct {
	Accepted int       `json:"accepted"` // in the journal
	Refused  []Refusal `json:"refused"`  // kept as dead letters
	// StoppedAt is there when so much was refused that the rest, from that line on, was
	// not read.
	StoppedAt int `json:"stopped_at_line,omitempty"`
	// RefusedInAll is there when there are more refusals than the list tells.
	RefusedInAll int `json:"refused_in_all,omitempty"`
}

// Refusal is one line that was not accepted.
type Refusal struct {
	Line    int         `json:"line"` // from 1
	Code    events.Code `json:"code"`
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
}

// serveIntake is POST /v1/events: one event as JSON or many, one per line. Each is
// checked by itself; the good ones are in the journal, synced, when the answer is sent.
// Lines are taken as they come and put into the journal in batches, so that a long body
// holds no more than a short one. After an error the sender sends it all again, and what
// was in the journal already is dropped by its ids.
func (a *Server) serveIntake(w http.ResponseWriter, r *http.Request) error {
	body, err := openBody(w, r, maxUnpacked)
	if err != nil {
		return err
	}
	in := newLineReader(body)
	if err := in.begin(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	t := delivery{server: a, request: r, visit: visitOf(r.Context()), from: a.sender(r), held: body.hold, answer: intakeAnswer{Refused: []Refusal{}}}
	var failed error
	body.hold.Relieve = func() error {
		failed = t.flush()
		return failed
	}
	for in.next() {
		if len(in.line) == 0 {
			continue
		}
		if err := t.take(in); err != nil {
			return err
		}
		if t.answer.RefusedInAll == maxBadLines {
			t.answer.StoppedAt = in.number + 1
			break
		}
	}
	if failed != nil {
		return failed
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := in.err; err != nil {
		if e := new(problem.Error); errors.As(err, &e) && t.answer.Accepted > 0 {
			return &problem.Error{Status: e.Status, RetryAfter: e.RetryAfter,
				Detail: fmt.Sprintf("%s; the first %d events are taken in, and what comes twice is dropped by its ids", e.Detail, t.answer.Accepted)}
		}
		return err
	}
	if t.answer.Accepted+t.answer.RefusedInAll == 0 {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "the body is empty; send one event as JSON, or one per line"}
	}
	if t.answer.RefusedInAll == len(t.answer.Refused) {
		t.answer.RefusedInAll = 0
	}
	status := http.StatusAccepted
	if t.answer.Accepted == 0 || t.answer.StoppedAt > 0 {
		status = http.StatusBadRequest
	}
	writeJSON(w, "application/json", status, t.answer)
	return nil
}

// delivery is one body of events as it is taken in.
type delivery struct {
	server  *Server
	request *http.Request
	visit   *visit
	from    gate.Source
	held    *budget.Hold
	answer  intakeAnswer

	event       events.Event
	room        []byte // of the lines in good
	good        []state.Entry
	deadLetters []state.DeadLetter
	orders      []access.Record // of persons, among what is good
	lines       int             // since others were let run
}

// What is put into the journal at one time, and how many lines are read until other
// requests may have the processor.
const (
	takeBytes   = 512 << 10
	takeEntries = 2048
	takeTurn    = 256
)

// take takes one line.
func (t *delivery) take(in *lineReader) error {
	if t.lines++; t.lines%takeTurn == 0 {
		runtime.Gosched()
	}
	err := t.check(in)
	if err != nil {
		t.refuse(in, err)
		if len(t.deadLetters) < takeEntries {
			return nil
		}
		return t.flush()
	}
	if len(t.room)+len(in.line) > cap(t.room) {
		if len(t.good) > 0 {
			if err := t.flush(); err != nil {
				return err
			}
		}
		if len(in.line) > cap(t.room) {
			// As much as the body brings, if that is little.
			t.room = make([]byte, 0, max(len(in.line), min(takeBytes, max(4<<10, int(t.request.ContentLength)))))
		}
	}
	at := len(t.room)
	t.room = append(t.room, in.line...)
	t.good = append(t.good, state.Entry{Value: t.room[at:len(t.room):len(t.room)]})
	if len(t.good) < takeEntries {
		return nil
	}
	return t.flush()
}

// check says what is wrong with a line.
func (t *delivery) check(in *lineReader) error {
	if most := min(t.server.store.MaxValue(), events.MaxEventBytes); in.size > most {
		return &events.DecodeError{Code: events.CodeTooLong, Offset: most, Reason: fmt.Sprintf("the event has %d bytes; want at most %d", in.size, most)}
	}
	if err := events.Decode(in.line, &t.event); err != nil {
		return err
	}
	if err := t.from.Admit(&t.event); err != nil {
		t.refusedOrder(err)
		return err
	}
	if err := t.visit.owns(&t.event); err != nil {
		return err
	}
	if gate.IsOrder(&t.event) {
		t.orders = append(t.orders, t.server.recordOf(t.request, &t.event))
	}
	if t.server.o.Own != nil {
		t.server.o.Own(in.line, &t.event)
	}
	if t.server.trust.Weigh(t.from, &t.event) {
		in.line = t.event.AppendJSON(nil)
		if most := t.server.store.MaxValue(); len(in.line) > most {
			return &events.DecodeError{Code: events.CodeTooLong, Offset: most, Reason: fmt.Sprintf("the event has %d bytes in its canonical form; want at most %d", len(in.line), most)}
		}
	}
	return nil
}

// refuse makes a dead letter of a line and tells its sender, unless there are so many
// that they are only counted.
func (t *delivery) refuse(in *lineReader, err error) {
	var fault *events.DecodeError
	code, field := events.Code("other"), ""
	if errors.As(err, &fault) {
		code, field = fault.Code, fault.Field
	}
	t.answer.RefusedInAll++
	kept, told := t.server.deadLetters.Keep(&t.server.deadLetters.HTTP, code, len(in.line)), len(t.answer.Refused) < maxRefusals
	if !kept && !told {
		return
	}
	reason := err.Error()
	if told {
		t.answer.Refused = append(t.answer.Refused, Refusal{Line: in.number, Code: code, Field: field, Message: reason})
	}
	if kept {
		d := t.server.deadLetters.New("http", int64(in.number), code, reason, bytes.Clone(in.line[:min(len(in.line), state.MaxRaw)]))
		d.Size = int64(in.size)
		t.deadLetters = append(t.deadLetters, d)
	}
}

// flush puts what was gathered into the journal.
func (t *delivery) flush() error {
	if err := t.server.audit(t.orders...); err != nil {
		return err
	}
	if err := t.server.log.Append(t.request.Context(), t.good); err != nil {
		return err
	}
	t.orders = t.orders[:0]
	t.visit.cost.Add(int64(len(t.good)))
	if err := t.server.store.DeadLetter(t.deadLetters...); err != nil {
		t.server.logger.Error("refused events could not be kept", "count", len(t.deadLetters), "error", err)
	}
	t.answer.Accepted += len(t.good)
	clear(t.good)
	clear(t.deadLetters)
	t.good, t.deadLetters, t.room = t.good[:0], t.deadLetters[:0], t.room[:0]
	t.held.Clear()
	return nil
}
