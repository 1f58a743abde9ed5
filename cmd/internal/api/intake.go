package api

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"

	"weir/cmd/internal/access"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// Bounds for rejected lines: the number that a response lists, and the number after which
// the rest of a body is not read.
const (
	// A body of nothing but bad lines would otherwise be answered with something longer
	// than it is.
	maxRefusals = 1000
	maxBadLines = 200_000
)

// intakeAnswer is the response to a sender of events.
type intakeAnswer struct {
	Accepted int `json:"accepted"` // in the journal
	// Refused is never null; of more than maxRefusals it has the first.
	Refused []Refusal `json:"refused"` // kept as dead letters
	// StoppedAt is there when so much was refused that the rest, from that line on, was
	// not read.
	StoppedAt int `json:"stopped_at_line,omitempty"`
	// RefusedInAll is present if there are more rejected lines than the list has.
	RefusedInAll int `json:"refused_in_all,omitempty"`
}

// Refusal is one line that was not accepted.
type Refusal struct {
	Line    int         `json:"line"` // from 1
	Code    events.Code `json:"code"`
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
}

// eventIntake takes events.
type eventIntake struct {
	log         Log
	store       Store
	deadLetters *intake.DeadLetters
	folded      *folded
	entrance    *entrance
	auditing    *auditing
	trust       gate.Trust
	own         func(record []byte, ev *events.Event) // see Options.Own
	clock       clock.Clock
	logger      *slog.Logger
}

// serve is POST /v1/events: one event as JSON or many, one per line. Each is
// checked by itself; the good ones are in the journal, synced, when the answer is sent.
// Lines are taken as they come and put into the journal in batches, so that a long body
// holds no more than a short one. After an error the sender sends it all again, and what
// was in the journal already is dropped by its ids.
//
// It answers 202 when at least one line was taken in and the body read to its end, and 400
// when none was or when it stopped reading. A 202 may hold refusals: the sender looks at
// them.
func (n *eventIntake) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := openBody(w, r, maxUnpacked)
	if err != nil {
		return err
	}
	key, err := check.RequestKey(r.Header)
	if err != nil {
		return err
	}
	in := newLineReader(body)
	if err := in.begin(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	// Relieve is called when there is no room for more of this body: what it has gathered
	// goes into the journal and is held no more, so a long body never waits for room that
	// it takes itself. The reader wraps the error of a flush; failed keeps the one to
	// answer with.
	t := delivery{intake: n, request: r, visit: visitOf(r.Context()), key: key, from: n.entrance.sender(r), held: body.hold, answer: intakeAnswer{Refused: []Refusal{}}}
	t.byPrincipal = n.folded.byPrincipal(t.visit)
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
		// This number of bad lines indicates another format. StoppedAt is the first line that
		// was not read; the sender has to check its data before it sends the rest.
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
		// What was taken in before the fault stays in the log, and its sender has to know
		// that sending all of it again does no harm.
		if e := new(problem.Error); errors.As(err, &e) && t.answer.Accepted > 0 {
			return &problem.Error{Status: e.Status, RetryAfter: e.RetryAfter,
				Detail: fmt.Sprintf("%s; the first %d events are taken in, and what comes twice is dropped by its ids", e.Detail, t.answer.Accepted)}
		}
		return err
	}
	if t.answer.Accepted+t.answer.RefusedInAll == 0 {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "the body is empty; send one event as JSON, or one per line"}
	}
	// The total is in the response only if the list is shorter.
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
// It is for the goroutine of its request alone; event and room are used again for each line
// and each batch.
type delivery struct {
	intake  *eventIntake
	request *http.Request
	visit   *visit
	key     string // of the request, see check.KeyHeader; "" for none
	// from says by whose right the events come in. It is looked up once for a body, so a
	// token that is taken out meanwhile is good for the rest of it.
	from   gate.Source
	held   *budget.Hold
	answer intakeAnswer

	event events.Event
	// The entries in good point into room. It grows by a new slice only after a flush,
	// because moving it would leave them with the old one.
	room        []byte // of the lines in good
	good        []state.Entry
	deadLetters []state.DeadLetter
	orders      []access.Record // of persons, among what is good
	lines       int             // since others were let run
	byPrincipal bool            // some budget counts by principal
}

// What is put into the journal at one time, and how many lines are read until other
// requests may have the processor.
const (
	// A batch is one sync of the journal: larger ones wait for more of the sender, smaller
	// ones for the disk.
	takeBytes   = 512 << 10
	takeEntries = 2048
	takeTurn    = 256
)

// take takes one line.
// A line that is refused is no error of the delivery; an error is one of the log, and ends
// it.
func (t *delivery) take(in *lineReader) error {
	// To decode thousands of lines takes milliseconds, for which asks on the same processor
	// wait.
	if t.lines++; t.lines%takeTurn == 0 {
		runtime.Gosched()
	}
	err := t.check(in)
	if err != nil {
		t.refuse(in, err)
		// A body of nothing but bad lines is flushed, too, or it would hold all of them at
		// once.
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
			// A length that was not announced is -1, which gives the least. An announced
			// one that is a lie costs at most takeBytes.
			// As much as the body brings, if that is little.
			t.room = make([]byte, 0, max(len(in.line), min(takeBytes, max(4<<10, int(t.request.ContentLength)))))
		}
	}
	at := len(t.room)
	t.room = append(t.room, in.line...)
	// The third index prevents an append to the value from overwriting the next line.
	t.good = append(t.good, state.Entry{Value: t.room[at:len(t.room):len(t.room)]})
	if len(t.good) < takeEntries {
		return nil
	}
	return t.flush()
}

// check returns what is wrong with a line.
// It leaves the event in t.event. If the event had to be changed, its new form is in
// in.line: the log gets what was sent, byte for byte, unless weir has to add a mark.
// The order of the checks matters: the rights of a line are checked only if it is an event,
// and only admitted events go to the audit log.
func (t *delivery) check(in *lineReader) error {
	// This comes before decoding, because of a line that is too long only the beginning is
	// here.
	if most := min(t.intake.store.MaxValue(), events.MaxEventBytes); in.size > most {
		return &events.DecodeError{Code: events.CodeTooLong, Offset: most, Reason: fmt.Sprintf("the event has %d bytes; want at most %d", in.size, most)}
	}
	line := in.line
	if err := events.Decode(line, &t.event); err != nil {
		if line, err = check.Complete(&t.event, err, t.missing(in.number)); err != nil {
			return err
		}
	}
	if err := t.from.Admit(&t.event); err != nil {
		t.refusedOrder(err)
		return err
	}
	if err := t.visit.owns(&t.event); err != nil {
		return err
	}
	// flush writes it to the audit log, before it appends the batch with the event.
	if gate.IsOrder(&t.event) {
		t.orders = append(t.orders, t.intake.auditing.recordOf(t.request, &t.event))
	}
	// It looks in the line as it came, because decoding drops members that it does not
	// know.
	if t.intake.own != nil {
		t.intake.own(in.line, &t.event)
	}
	// weir writes who pays. The mark says that a user has spoken only by its sender's word (see decision 59).
	if signed := t.visit.sign(t.byPrincipal, &t.event); t.intake.trust.Weigh(t.from, &t.event) || signed {
		line = t.event.AppendJSON(nil)
	}
	if in.line = line; len(line) > in.size { // it was written anew and has grown
		if most := t.intake.store.MaxValue(); len(in.line) > most {
			return &events.DecodeError{Code: events.CodeTooLong, Offset: most, Reason: fmt.Sprintf("the event has %d bytes in its canonical form; want at most %d", len(in.line), most)}
		}
	}
	return nil
}

// missing are the values of what the event of a line may leave out. Without a key of the request an
// event that is sent again would be another one, so it has to have an id then.
func (t *delivery) missing(line int) check.Missing {
	m := check.Missing{Time: events.StampOf(t.intake.clock.Now())}
	if t.key != "" {
		m.ID = t.key + "-" + strconv.Itoa(line)
	}
	return m
}

// refuse makes a dead letter of a line and reports it to the sender. Beyond a bound of each
// it only counts the line.
// The two bounds are separate: the rate of all intakes together decides whether the dead
// letter is kept, and the length of this response whether the sender gets a report.
func (t *delivery) refuse(in *lineReader, err error) {
	var fault *events.DecodeError
	code, field := events.Code("other"), ""
	if errors.As(err, &fault) {
		code, field = fault.Code, fault.Field
	}
	t.answer.RefusedInAll++
	kept, answered := t.intake.deadLetters.Keep(&t.intake.deadLetters.HTTP, code, len(in.line)), len(t.answer.Refused) < maxRefusals
	if !kept && !answered {
		return
	}
	reason := err.Error()
	if answered {
		t.answer.Refused = append(t.answer.Refused, Refusal{Line: in.number, Code: code, Field: field, Message: reason})
	}
	if kept {
		// The line is copied, since the buffer that it stands in is read over. Size says
		// how long it was, because the dead letter may hold only its beginning.
		d := t.intake.deadLetters.New("http", int64(in.number), code, reason, bytes.Clone(in.line[:min(len(in.line), state.MaxRaw)]))
		d.Size = int64(in.size)
		t.deadLetters = append(t.deadLetters, d)
	}
}

// flush appends the gathered lines to the journal.
// The order follows from what may be lost. Orders are in the audit log before they are in
// the log, and events are in the log before they are counted as accepted. A dead letter that
// cannot be kept is reported in weir's own log; its sender gets the reason in any case.
//
// After an error of the log the gathered lines are kept, and the request ends with the
// error. The sender sends all of it again.
func (t *delivery) flush() error {
	if err := t.intake.auditing.audit(t.orders...); err != nil {
		return err
	}
	if err := t.intake.log.Append(t.request.Context(), t.good); err != nil {
		return err
	}
	t.orders = t.orders[:0]
	// Lines that were refused cost nothing beside the request.
	t.visit.cost.Add(int64(len(t.good)))
	if err := t.intake.store.DeadLetter(t.deadLetters...); err != nil {
		t.intake.logger.Error("refused events could not be kept", "count", len(t.deadLetters), "error", err)
	}
	t.answer.Accepted += len(t.good)
	// What was written may be collected, though the slices are kept for the next batch.
	clear(t.good)
	clear(t.deadLetters)
	t.good, t.deadLetters, t.room = t.good[:0], t.deadLetters[:0], t.room[:0]
	// The bytes are on the disk, so others may hold as many.
	t.held.Clear()
	return nil
}
