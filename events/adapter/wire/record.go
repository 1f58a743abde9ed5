// Package wire reads HTTP logs of a proxy: one JSON object per request and per response.
//
// A request has time, direction "request", exchange (a number that its response has,
// too), proxy (the name of the server behind it), method, path, headers and body. A
// response has status instead of method and path, and, when it is a stream of
// server-sent events, events (the list of their data) instead of body.
package wire

import (
	"iter"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Record is one request or one response.
// It may alias the line that it was read from: who keeps some of it keeps strings only.
type Record struct {
	// At is required: it distinguishes the exchange from one of an earlier run of the proxy.
	At       events.Stamp
	Response bool
	Proxy    string // the server's name in the log
	Exchange string // the number that a request and its response share
	Path     string // of a request
	Status   int64  // of a response
	Header   Header

	body   []byte // one JSON-RPC message, or a batch
	stream []byte // the messages of a stream of events
}

// Header contains the headers of a request or a response.
// A header that is missing is its zero value. Names of headers are case-insensitive.
type Header struct {
	Correlation string // x-correlation-id
	Baggage     Flow   // in baggage
	Trace       Trace
	Session     string // mcp-session-id
	MCP, A2A    bool   // headers that only this protocol has
}

// Key is what a request and its response share.
// It is good within one run of the proxy only, see ID.
func (r *Record) Key() string { return r.Proxy + "/" + r.Exchange }

// ID returns an id that is unique to the exchange of a request. It also differs from those of an
// earlier run of the proxy, which began to count at 1, too.
func (r *Record) ID() string { return r.Key() + "@" + strconv.FormatInt(int64(r.At), 10) }

// Refused reports whether a response says that the request was not served.
func (r *Record) Refused() bool { return r.Status >= 400 }

// Room for what is put behind an id, or before it.
// With them the longest id of an exchange, with the id of a message and a suffix, fits into
// events.MaxID.
const (
	maxName   = 64
	maxNumber = 24
)

// Read reads one record. What it holds may alias p.
// The error is a *events.DecodeError that names the field that is missing.
func Read(p []byte) (*Record, error) {
	if err := adapter.CheckSize(p); err != nil {
		return nil, err
	}
	c := jsonwalk.New(p)
	r, direction := walk(c)
	// After a failure a cursor passes over all that is left, so the walk needs no checks of
	// its own.
	c.End()
	switch {
	case c.Err() != nil:
	case direction != "request" && direction != "response":
		c.Fail(events.CodeMissingField, "direction", `want "request" or "response" on every record`)
	case r.Exchange == "":
		c.Fail(events.CodeMissingField, "exchange", "want the number that a request and its response share on every record")
	case r.At == 0:
		c.Fail(events.CodeMissingField, "time", "want an RFC 3339 time on every record")
	}
	return r, c.Err()
}

// walk reads the object that follows, as far as it goes.
func walk(c *jsonwalk.Cursor) (r *Record, direction string) {
	r = &Record{}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "time":
			// Read reports an invalid time as missing.
			if at, ok := events.ParseStamp(string(c.Text())); ok {
				r.At = at
			}
		case "direction":
			switch string(c.Text()) {
			case "request":
				direction = "request"
			case "response":
				direction, r.Response = "response", true
			}
		case "exchange":
			r.Exchange = adapter.Word(c.Scalar(), maxNumber)
		case "proxy":
			r.Proxy = adapter.Word(c.Text(), maxName)
		case "path":
			r.Path = adapter.Word(c.Text(), events.MaxID)
		case "status":
			r.Status, _ = c.Int()
		case "headers":
			r.Header.read(c)
		case "body":
			r.body = c.Raw()
		case "events":
			r.stream = c.Raw()
		}
	}
	return r, direction
}

// Head reads the first records of an input, of which head is the beginning. The last
// one may be cut off.
// Head is for the scores of formats: a record whose end is missing is given as far as it goes.
func Head(head *adapter.Head) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		if !head.Any(func(top adapter.Top) bool { return top.Has("direction", "exchange") }) {
			return
		}
		for c := range adapter.Heads(head.Bytes) {
			if r, direction := walk(c); direction != "" && r.Exchange != "" && !yield(r) {
				return
			}
		}
	}
}

// read reads the headers, of which only a few are known; the others cost a comparison.
func (h *Header) read(c *jsonwalk.Cursor) {
	// No name that is known is longer than room, so what is longer need not be made lower
	// case.
	var room [32]byte
	for c.MaybeObject(); c.Member(); {
		key := c.Key()
		if len(key) > len(room) {
			c.Skip()
			continue
		}
		switch string(lower(room[:0], key)) {
		case "x-correlation-id":
			h.Correlation = adapter.Word(c.Text(), events.MaxID)
		case "baggage":
			h.Baggage = Baggage(c.Text())
		case "traceparent":
			h.Trace = Traceparent(c.Text())
		case "mcp-session-id":
			h.MCP, h.Session = true, adapter.Word(c.Text(), events.MaxID)
		// Their presence is enough to identify the protocol.
		case "mcp-protocol-version", "mcp-method", "mcp-name":
			h.MCP = true
			c.Skip()
		case "a2a-version", "a2a-extensions", "x-a2a-extensions":
			h.A2A = true
			c.Skip()
		}
	}
}

// lower makes ASCII letters lower case; header names have no others.
func lower(dst, p []byte) []byte {
	for _, b := range p {
		if b-'A' < 26 {
			b |= 0x20
		}
		dst = append(dst, b)
	}
	return dst
}
