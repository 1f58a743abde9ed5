package check

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/events"
)

// KeyHeader names the check of a request. It takes the place of the id in the event, so a request
// that is sent again is the same check.
const KeyHeader = "Idempotency-Key"

// Missing are the values of what the sender of an event may leave out. Without a value the event
// has to have the field.
type Missing struct {
	ID   string
	Time events.Stamp
}

// NewID returns an id for a check that has none.
// The time comes first, so that such ids sort by time.
func NewID(now events.Stamp) string {
	return "check-" + strconv.FormatInt(int64(now), 36) + "-" + rand.Text()[:8] // other checks have the same millisecond
}

// Complete fills in the id and the time of an event of which Decode reports with err that one of them
// is missing. It returns the canonical form of the event. All else that is missing is an error, and
// so is what m has no value for.
func Complete(ev *events.Event, err error, m Missing) ([]byte, error) {
	fault, ok := errors.AsType[*events.DecodeError](err)
	if !ok || fault.Code != events.CodeMissingField || fault.Field != "id" && fault.Field != "time" {
		return nil, err
	}
	// Decode looks for these two first, and when all else is read.
	if ev.ID == "" {
		ev.ID = m.ID
	}
	if ev.Time == 0 {
		ev.Time = m.Time
	}
	if ev.ID == "" || ev.Time == 0 {
		return nil, err
	}
	line := ev.AppendJSON(nil)
	if err = events.Decode(line, ev); err != nil {
		if fault, ok = errors.AsType[*events.DecodeError](err); ok {
			fault.Offset = -1 // the sender does not have this line
		}
	}
	return line, err
}

// RequestKey returns the id that a request gives its check; "" when it gives none. Clients write the
// header as a string of RFC 8941, with quotes, or as it is.
func RequestKey(h http.Header) (string, error) {
	key := h.Get(KeyHeader)
	if key == "" {
		return "", nil
	}
	if inner, ok := strings.CutPrefix(key, `"`); ok {
		key = strings.TrimSuffix(inner, `"`)
	}
	if key == "" || len(key) > mostKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return "", &Error{http.StatusBadRequest, fmt.Sprintf("the header %s is not usable: want 1 to %d visible ASCII characters, such as a UUID", KeyHeader, mostKey)}
	}
	return key, nil
}

// mostKey leaves room for the number of a line in an id.
const mostKey = 200

// sender is how a request fills in what its events leave out.
type sender struct {
	key string           // of the header; "" for none
	now func() time.Time // nil: nothing is filled in
}

// sender reads the header of a request.
func (h *Handler) sender(r *http.Request) (s sender, err error) {
	s.now = h.Now
	s.key, err = RequestKey(r.Header)
	return s, err
}

// missing is for the only event of a body.
func (s *sender) missing() (m Missing) {
	if s.now != nil {
		m.Time = events.StampOf(s.now())
		m.ID = NewID(m.Time)
	}
	if s.key != "" {
		m.ID = s.key
	}
	return m
}

// line is the same for one line of many, counted from 1 without empty ones: the same body has the
// same ids again. A line may have an id of its own.
func (s *sender) line(n int) sender {
	if s.key == "" {
		return *s
	}
	return sender{key: s.key + "-" + strconv.Itoa(n), now: s.now}
}

// agrees refuses the only event of a request that has another id than the request names.
func (s *sender) agrees(ev *events.Event) error {
	if s.key == "" || ev.ID == s.key {
		return nil
	}
	return &Error{http.StatusBadRequest, fmt.Sprintf("the event has the id %q and the header %s has %q; send one of them", ev.ID, KeyHeader, s.key)}
}
