package check

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"weir/events"
)

// manyAsks is the media type of a body with several asks, and of its answer.
const manyAsks = "application/x-ndjson"

// MostAsks is how many events one body may ask for.
const MostAsks = 64

// serveMany answers several asks, one event a line, as they would be answered if they came
// in as many requests at one time: each is counted and judged alone, in no order that is
// promised, and one that is refused or wrong spoils none of the others. They share the
// request and, as far as they come together, the write to the disk. The answer has a line
// for each, in their order: {"status": of the answer, "body": the answer}.
func (h *Handler) serveMany(w http.ResponseWriter, r *http.Request, body []byte) {
	var lines [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	by, err := h.sender(r)
	var format DenyFormat
	if err == nil {
		format, err = ParseDenyFormat(r.URL.Query().Get("deny"))
	}
	if err == nil {
		err = faultOf(body, lines)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	// Each goroutine writes its own element, so no lock is needed.
	replies := make([]reply, len(lines))
	several := make([]struct {
		ev events.Event
		Request
	}, len(lines))
	batch := make([]*Request, 0, len(lines))
	for i, line := range lines {
		q := &several[i]
		q.Context = r.Context()
		q.Err = Caught(func() (err error) {
			from := by.line(i + 1)
			q.Raw, err = prepare(line, &q.ev, nil, &from)
			return err
		})
		if q.Err != nil {
			continue
		}
		q.Event, q.Decoded = &q.ev, true
		batch = append(batch, &q.Request)
	}
	h.Check.all(batch)
	var asking sync.WaitGroup
	for i := range several {
		q := &several[i].Request
		respond := func() {
			v, err := q.Answer()
			h.reply(&replies[i], r, func() { h.respond(&replies[i], r, q, v, err, format, brief) })
		}
		if q.Wait != nil {
			asking.Go(respond)
		} else {
			respond()
		}
	}
	asking.Wait()
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", manyAsks)
	var out []byte
	for i := range replies {
		out = replies[i].append(out)
	}
	_, _ = w.Write(out)
}

// reply is the answer to one ask of several.
// It is a ResponseWriter without a connection, so that one ask of many is answered by the code
// that answers one.
type reply struct {
	header http.Header
	status int
	body   []byte
}

// Header is made when it is asked for first: most answers set one or two.
func (r *reply) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

// WriteHeader keeps the status. The first status counts, as in net/http.
func (r *reply) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write keeps what is written, after status 200 if none was set.
func (r *reply) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.body = append(r.body, p...)
	return len(p), nil
}

// append appends the answer as an object.
func (r *reply) append(dst []byte) []byte { return r.appendMembers(append(dst, '{')) }

// appendMembers appends the answer without the brace that it begins with.
// The stream puts the number of the line before them.
func (r *reply) appendMembers(dst []byte) []byte {
	dst = appendStatus(dst, r.status)
	if r.status == 0 { // the client is gone and cannot read it
		return append(dst, "null}\n"...)
	}
	// A body is JSON without line ends inside, so the answer stays one line.
	dst = append(dst, bytes.TrimSpace(r.body)...)
	return append(dst, "}\n"...)
}

func appendStatus(dst []byte, status int) []byte {
	dst = append(dst, `"status":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	return append(dst, `,"body":`...)
}

// faultOf is what is wrong with the body as a whole; a fault of a line is answered in its place.
func faultOf(body []byte, lines [][]byte) error {
	switch {
	case len(body) > events.MaxEventBytes:
		return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; ask for fewer calls at once", events.MaxEventBytes)}
	case len(lines) == 0:
		return &Error{http.StatusBadRequest, "the body asks for nothing; send one event a line"}
	case len(lines) > MostAsks:
		return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body asks for %d calls; ask for at most %d at once", len(lines), MostAsks)}
	}
	return nil
}
