package plainhttp

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// answer gathers what a handler answers. It is for the goroutine of the handler, but for
// its deadlines.
type answer struct {
	conn   *conn
	header http.Header
	status int
	body   []byte
	out    bytes.Buffer
	again  func(w http.ResponseWriter, body []byte) bool // see Repeat
	lines  []byte                                        // header, as it goes out, while again is there
}

// begin makes it ready for the next request.
func (a *answer) begin(c *conn) {
	if a.conn == nil {
		a.conn, a.header = c, make(http.Header)
	}
	clear(a.header)
	a.status, a.body, a.again, a.lines = 0, a.body[:0], nil, a.lines[:0]
}

// Repeat is called by a handler that knows what it answers the next time. If the next request on the connection
// has the same head, again gets it in the place of the handler, with the whole body, which is its until it
// returns. The headers are those of the answer that the handler gives now. again writes the body, or returns
// false before it has written anything: then the request is the handler's. It answers as long as the head stays
// the same. A writer of another server, or one without Unwrap around that of this package, has no effect.
func Repeat(w http.ResponseWriter, again func(w http.ResponseWriter, body []byte) bool) {
	for {
		switch inner := w.(type) {
		case *answer:
			inner.again = again
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return
		}
	}
}

// Header is what goes out with the answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sets the status; the first one counts.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write adds to the body.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

// SetReadDeadline is for http.ResponseController, by any goroutine while the request is
// served.
func (a *answer) SetReadDeadline(by time.Time) error { return a.conn.SetReadDeadline(by) }

// SetWriteDeadline is for http.ResponseController. Like that of reads it is moved when that matters.
func (a *answer) SetWriteDeadline(by time.Time) error {
	if d := by.Sub(a.conn.writeBy); d >= 0 && d <= little(time.Until(by)) {
		return nil
	}
	a.conn.writeBy = by
	return a.conn.SetWriteDeadline(by)
}

// write sends it, and reports whether that went well.
func (a *answer) write(last bool) bool {
	a.WriteHeader(http.StatusOK)
	h := a.header
	if len(a.body) > 0 && h.Get("Content-Type") == "" {
		h.Set("Content-Type", http.DetectContentType(a.body))
	}
	if last {
		h.Set("Connection", "close")
	}
	out := append(a.out.AvailableBuffer(), "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(a.status), 10)
	out = append(append(out, ' '), http.StatusText(a.status)...)
	out = append(out, "\r\nDate: "...)
	out = time.Now().UTC().AppendFormat(out, http.TimeFormat)
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		out = append(out, "\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(a.body)), 10)
	}
	out = append(out, "\r\n"...)
	_, _ = a.out.Write(out)
	if len(a.lines) > 0 {
		_, _ = a.out.Write(a.lines)
	} else {
		begin := a.out.Len()
		_ = h.Write(&a.out)
		if a.again != nil {
			a.lines = append(a.lines, a.out.Bytes()[begin:]...)
		}
	}
	_, _ = a.out.WriteString("\r\n")
	_, _ = a.out.Write(a.body)
	_, err := a.conn.Write(a.out.Bytes())
	a.out.Reset()
	if cap(a.body)+a.out.Cap() > mostSpare {
		a.body, a.out = nil, bytes.Buffer{}
	}
	return err == nil
}
