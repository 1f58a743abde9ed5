package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"weir/events"
	"weir/state"
)

// Limits of one request to the intake.
const (
	maxBody     = 8 << 20  // bytes as they come
	maxUnpacked = 32 << 20 // bytes after decompression
	maxRefusals = 1000     // told in the answer; more are only counted
)

// intakeAnswer is what the sender of events is told.
type intakeAnswer struct {
	Accepted int       `json:"accepted"` // in the journal
	Refused  []refusal `json:"refused"`  // kept as dead letters
	// RefusedInAll is there when there are more refusals than the list tells.
	RefusedInAll int `json:"refused_in_all,omitempty"`
}

// refusal is one line that was not accepted.
type refusal struct {
	Line    int         `json:"line"` // from 1
	Code    events.Code `json:"code"`
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
}

// serveIntake is POST /v1/events: one event as JSON or many, one per line. Each is
// checked by itself; the good ones are in the journal, synced, when the answer is sent.
func (a *App) serveIntake(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	lines, err := split(body, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	var (
		result  = intakeAnswer{Refused: []refusal{}}
		good    = make([]state.Entry, 0, len(lines))
		letters []state.DeadLetter
		ev      events.Event
	)
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		err := events.Decode(line, &ev)
		if err == nil {
			err = ev.FromProducer()
		}
		if err == nil {
			err = a.mayOrder(r, &ev)
		}
		if err == nil && len(line) > a.store.MaxValue() {
			err = &events.DecodeError{Code: events.CodeTooLong, Offset: a.store.MaxValue(), Reason: fmt.Sprintf("the event has %d bytes; want at most %d", len(line), a.store.MaxValue())}
		}
		if err == nil {
			good = append(good, state.Entry{Value: line})
			continue
		}
		refused := refusal{Line: i + 1, Code: "other", Message: err.Error()}
		if e, ok := err.(*events.DecodeError); ok {
			refused.Code, refused.Field = e.Code, e.Field
		}
		letters = append(letters, a.letter("http", int64(i+1), refused.Code, refused.Message, line))
		if result.RefusedInAll++; len(result.Refused) < maxRefusals {
			result.Refused = append(result.Refused, refused)
		}
	}
	if len(good)+len(letters) == 0 {
		return &httpError{status: http.StatusBadRequest, detail: "the body is empty; send one event as JSON, or one per line"}
	}
	if err := a.form.append(r.Context(), good); err != nil {
		return err
	}
	if err := a.store.DeadLetter(letters...); err != nil {
		a.logger.Error("refused events could not be kept", "count", len(letters), "error", err)
	}
	a.counts.Accepted.Add(int64(len(good)))
	result.Accepted = len(good)
	if result.RefusedInAll == len(result.Refused) {
		result.RefusedInAll = 0
	}
	status := http.StatusAccepted
	if len(good) == 0 {
		status = http.StatusBadRequest
	}
	writeJSON(w, "application/json", status, result)
	return nil
}

// letter makes a dead letter of what was not accepted, and counts it.
func (a *App) letter(source string, position int64, code events.Code, reason string, raw []byte) state.DeadLetter {
	a.counts.DeadLetter(code)
	return state.DeadLetter{Source: source, Position: position, Code: string(code), Reason: reason, Appended: events.StampOf(a.clock.Now()), Raw: raw}
}

// readBody reads the body within its limits, unpacked.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var in io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, &httpError{status: http.StatusBadRequest, detail: "the body is not gzip, though Content-Encoding says so"}
		}
		in = http.MaxBytesReader(w, z, maxUnpacked)
	default:
		return nil, &httpError{status: http.StatusUnsupportedMediaType, detail: fmt.Sprintf("Content-Encoding %q is not known; use gzip or none", coding)}
	}
	body, err := io.ReadAll(in)
	if err != nil {
		if e, ok := err.(*http.MaxBytesError); ok {
			return nil, &httpError{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body is longer than %d bytes; send it in parts", e.Limit)}
		}
		return nil, &httpError{status: http.StatusBadRequest, detail: fmt.Sprintf("read the body: %v", err)}
	}
	return body, nil
}

// split cuts a body into events. A single event may span lines, when its content type
// does not say that it is one of many.
func split(body []byte, contentType string) ([][]byte, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = ""
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(trimmed, []byte("[")) {
		return nil, &httpError{status: http.StatusBadRequest, detail: "this is a JSON array; send one event per line (application/x-ndjson) instead, for example through: jq -c '.[]'"}
	}
	first, _, many := bytes.Cut(trimmed, []byte("\n"))
	if many && !strings.Contains(media, "ndjson") && !strings.Contains(media, "jsonl") && !json.Valid(first) {
		var line bytes.Buffer
		if json.Compact(&line, trimmed) == nil {
			return [][]byte{line.Bytes()}, nil
		}
	}
	lines := bytes.Split(body, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimSpace(lines[i])
	}
	lines[0] = bytes.TrimSpace(bytes.TrimPrefix(lines[0], []byte("\xef\xbb\xbf")))
	return lines, nil
}
