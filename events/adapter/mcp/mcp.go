// Package mcp reads MCP over streamable HTTP (2025-03-26 to 2026-07-28) from the logs of HTTP proxies.
//
// It reads tool calls, which are emitted when they are sent, their results, which are emitted when they
// arrive, and the names by which clients open their sessions. One flow is the one that the caller names in
// baggage or a trace context; else the MCP session; else all calls of one client on one server, which is
// marked as derived.
//
// MCP knows clients, not agents. The caller is the client by the name that it gives, on every request or
// once for a session. Agents in one client cannot be distinguished. Calls between agents, tokens and work
// are not on the wire.
package mcp

import (
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/wire"
)

// Format returns the MCP wire format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "mcp",
		Title:   "MCP over streamable HTTP, as a logging proxy writes it, one request or response per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Never, Turn: adapter.Never,
			Tokens: adapter.Never, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Never},
	}
}

// score knows the protocol by its headers or by a method.
func score(head *adapter.Head) adapter.Match {
	for r := range wire.Head(head) {
		if r.Header.MCP {
			return adapter.Certain
		}
		for m := range r.Messages() {
			if isMethod(m.Method) {
				return adapter.Certain
			}
		}
	}
	return adapter.NoMatch
}

// isMethod reports whether only MCP has the method.
// Prefixes are enough: A2A, which comes the same way, has no methods that begin so.
func isMethod(method string) bool {
	if method == "initialize" || method == "server/discover" {
		return true
	}
	for _, prefix := range [...]string{"tools/", "resources/", "prompts/", "notifications/", "completion/", "logging/", "sampling/", "roots/", "elicitation/"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	return false
}

const (
	maxRemembered = 4096 // exchanges without a response, sessions, and calls that ask for input, each
	maxBatch      = 16   // calls of one request that are paired with their results
)

// reader remembers each request until it is answered. Its memories forget the oldest, since a
// proxy may lose responses.
type reader struct {
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	// open is by wire.Record.Key, so one exchange at a time has the key.
	open    *adapter.Recent[*exchange]
	clients *adapter.Recent[string] // names, by session
	tasks   *adapter.Recent[*task]
	asking  *adapter.Recent[string] // ids of the calls that asked for input, by what they called
	event   events.Event
}

// exchange is a request that has no response yet.
type exchange struct {
	// Empty for all requests but initialize.
	client string // who opens a session with it
	calls  []call
}

// call is a tool call that has no result yet.
type call struct {
	// Results are paired by it inside one exchange: it is not unique beyond.
	rpc   string       // its JSON-RPC id
	event events.Event // as it was emitted
	// The server, the client, the tool and the hash of the arguments, see asking.
	same string // what identifies equal calls
	task string // that it looks at; empty for the call of a tool
}

// newReader trusts what the caller says of its flow before its session.
func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "mcp"), ignore: o.IgnoreArgs,
		// The trace goes before the session: a session lasts as long as the client runs, and
		// holds many prompts.
		correlation: o.CorrelationOr(events.CorrelationExplicit, events.CorrelationBaggage, events.CorrelationTrace,
			events.CorrelationSession, events.CorrelationDerived),
		open: adapter.NewRecent[*exchange](most), clients: adapter.NewRecent[string](most), asking: adapter.NewRecent[string](most), tasks: adapter.NewRecent[*task](most),
	}
}

// Decode reads one request or response.
//
// A response without its request gives no event and no error.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	rec, err := wire.Read(record)
	if err != nil {
		return err
	}
	if rec.Response {
		r.response(rec, emit)
	} else {
		r.request(rec, emit)
	}
	return nil
}

// Flush has nothing to do: calls are emitted at once.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// request emits each tool call of a request at once, before its outcome is known: orders
// have to reach the next call.
func (r *reader) request(rec *wire.Record, emit func(*events.Event)) {
	var x exchange
	for m := range rec.Messages() {
		switch m.Method {
		case "initialize":
			x.client = readParams(m.Params, nil).client
		case "tools/call":
			p := readParams(m.Params, r.ignore)
			// The server will refuse it, too.
			if p.tool == "" {
				continue
			}
			c := r.call(rec, m, p)
			// Calls beyond maxBatch are emitted, but get no result.
			if len(x.calls) < maxBatch {
				x.calls = append(x.calls, c)
			}
			r.event = c.event
			emit(&r.event)
		case "tasks/get", "tasks/update":
			c, ok := r.look(rec, m)
			if !ok || len(x.calls) >= maxBatch {
				continue
			}
			x.calls = append(x.calls, c)
			r.event = c.event
			emit(&r.event)
		}
	}
	// Requests of other methods are not remembered, since their responses are not needed.
	if x.client != "" || len(x.calls) > 0 {
		r.open.Put(rec.Key(), &x)
	}
}

// call makes the event of a tool call.
func (r *reader) call(rec *wire.Record, m *wire.Message, p *params) call {
	client := p.client
	// Where requests do not name the client, the one that opened the session did.
	if client == "" {
		client, _ = r.clients.Get(rec.Header.Session)
	}
	id := rec.ID() + "/" + m.ID
	e := events.Event{ID: id + "/call", Source: r.source, Time: rec.At, Kind: events.ToolCall, Origin: events.OriginAgent,
		From: events.Party{Agent: cmp.Or(client, unnamed)},
		Tool: events.Tool{Name: p.tool, CallID: id, Server: rec.Proxy, Type: "mcp", ArgsHash: p.args, ArgsSize: p.size}}
	h := &rec.Header
	trace := h.Trace
	// What the message says goes before what the HTTP request says: proxies and pools put
	// their own trace there.
	if p.trace.ID != "" {
		trace = p.trace
	}
	e.TraceID, e.ParentSpanID = trace.ID, trace.Span
	flow := p.baggage.Or(h.Baggage)
	e.ParentCorrelationID, e.RootCorrelationID = flow.Parent, flow.Root
	for _, source := range r.correlation {
		switch source {
		case events.CorrelationExplicit:
			e.CorrelationID = h.Correlation
		case events.CorrelationBaggage:
			e.CorrelationID = flow.ID
		case events.CorrelationTrace:
			e.CorrelationID = trace.ID
		case events.CorrelationSession:
			e.CorrelationID = h.Session
		case events.CorrelationDerived:
			// All that a client calls on a server: too much for one flow, which is why derived
			// flows are only warned.
			e.CorrelationID = "mcp:" + rec.Proxy + ":" + adapter.ID([]byte(client))
		}
		if e.CorrelationID != "" {
			e.CorrelationSource = source
			break
		}
	}
	same := rec.Proxy + " " + e.From.Agent + " " + p.tool + " " + p.args.String()
	if p.resent {
		// The answer to the call asked for it: it is the same call, legally sent again.
		e.Tool.RetryOf, _ = r.asking.Get(same)
	}
	return call{rpc: m.ID, event: e, same: same}
}

// unnamed stands for clients that do not say who they are.
const unnamed = "mcp-client"

// response closes the exchange: what comes later with its number is unknown.
func (r *reader) response(rec *wire.Record, emit func(*events.Event)) {
	x, ok := r.open.Get(rec.Key())
	if !ok {
		return // without its request nothing is known of it
	}
	r.open.Delete(rec.Key())
	// The server gives the session its id with the answer to initialize.
	if x.client != "" && rec.Header.Session != "" {
		r.clients.Put(rec.Header.Session, x.client)
	}
	for m := range rec.Messages() {
		if !m.Answers() {
			continue
		}
		for i := range x.calls {
			// An error may come without an id.
			// The kind of a call is turned to ToolResult once it is answered, so that each
			// gets one result.
			if c := &x.calls[i]; (c.rpc == m.ID || m.ID == "") && c.event.Kind == events.ToolCall {
				switch {
				case c.task != "":
					r.looked(rec, c, m, emit)
				case m.Error != nil || !r.becomes(rec, c, m):
					r.result(rec, c, readResult(m), emit)
				}
				c.event.Kind = events.ToolResult
				break
			}
		}
	}
	// A refusal by HTTP has no message: what is still open ended by it. A response that was
	// served and leaves calls open may be a stream that broke off; these stay without a
	// result.
	for i := range x.calls {
		if c := &x.calls[i]; c.event.Kind == events.ToolCall && rec.Refused() {
			r.result(rec, c, result{status: events.StatusError, failure: "HTTP " + strconv.FormatInt(rec.Status, 10)}, emit)
		}
	}
}

// result emits the end of a call, with the details of the call.
func (r *reader) result(rec *wire.Record, c *call, got result, emit func(*events.Event)) {
	r.event = c.event
	e := &r.event
	// A result is never before its call, whatever the clocks say.
	e.ID, e.Kind, e.Time = c.event.Tool.CallID+"/result", events.ToolResult, max(rec.At, c.event.Time)
	e.DurationMS = float64(e.Time - c.event.Time)
	// The size of the arguments and the retried call are reported once, with the call.
	e.Tool.ArgsSize, e.Tool.RetryOf = 0, ""
	e.Status, e.ErrorType, e.Content, e.Sim = got.status, got.failure, got.said, got.sim
	new(deed.Call).End(nil, e, "", "", &got.done)
	if got.status == events.StatusInputRequired {
		// The next equal call that brings answers is this one again, and no repetition.
		r.asking.Put(c.same, c.event.Tool.CallID)
	}
	emit(e)
}
