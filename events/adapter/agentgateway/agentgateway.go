// Package agentgateway reads the request log of agentgateway, as key=value lines or JSON.
//
// It reads tool calls over MCP, calls of agents over A2A, and requests to models with their tokens; the
// table in fields.go lists the names and their meaning. A request is logged when it is over. It is emitted
// as a call, at the time at which it began, and a result. One flow is the correlation id or the baggage
// that the log was set to add, else the trace, the A2A context or the MCP session. Otherwise it is all
// requests of one caller, which is marked as derived.
//
// The caller is the principal (jwt.sub), or the address. Arguments and results are present only if the log
// was set to add them (mcp.tool.arguments, mcp.tool.result). A gateway cannot see whether a hop came
// without work: agents have tools beside it. Calls of tools have a source of their own, so that the log
// does not count as one that reports all work.
package agentgateway

import (
	"bytes"
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// Format returns the format of agentgateway's request log.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "agentgateway",
		Title:   "request log of agentgateway, text or JSON, one request per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Work is never reported: an agent does more than what goes through the gateway.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Sometimes, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Never},
	}
}

// score reads lines as Decode does.
func score(head *adapter.Head) adapter.Match {
	if !bytes.Contains(head.Bytes, []byte("http.")) { // both names of the status begin so
		return adapter.NoMatch
	}
	for line := range bytes.Lines(head.Bytes) {
		if l, err := read(bytes.TrimSpace(line)); err == nil && l.isRequest {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader needs no state but the pairing's: a line is a whole request.
type reader struct{ pair *pairing.Pairer }

// newReader takes the pairing's order of names; the caller comes last, as derived.
func newReader(o adapter.Options) adapter.Adapter { return &reader{pairing.New(o, "agentgateway")} }

// line is one line of the log.
//
// text and rank are indexed by field, see aliases.
type line struct {
	at events.Stamp
	// isRequest is set by the status, which only lines about requests have.
	isRequest bool
	text      [fields][]byte
	rank      [fields]uint8
}

// take notes a value whose key is known, unless a preferred key already gave it.
func (l *line) take(key, value []byte) {
	// Most keys of a line are of no use here.
	p, known := places[string(key)]
	if known && len(value) > 0 && p.Rank > l.rank[p.Field] {
		l.text[p.Field], l.rank[p.Field] = value, p.Rank
	}
	l.isRequest = l.isRequest || p.Field == httpStatus && known
}

// word returns a value as an event may carry it.
func (l *line) word(f field) string { return adapter.Word(l.text[f], events.MaxID) }

// read reads a line. What it holds may alias p.
func read(p []byte) (*line, error) {
	l := &line{}
	if len(p) > 0 && p[0] == '{' {
		c := jsonwalk.New(p)
		isOurs := false
		// In JSON the log's own name is a member; other logs have a status as well.
		for c.Object(); c.Member(); {
			switch key := string(c.Key()); key {
			case "time", "timestamp":
				l.at, _ = c.Stamp()
			case "scope", "target":
				isOurs = strings.Contains(string(c.Text()), "request")
			default:
				l.take([]byte(key), c.Scalar())
			}
		}
		c.End()
		// Without its name two of its keys identify it.
		l.isRequest = l.isRequest && (isOurs || l.text[protocol] != nil || l.text[route] != nil)
		return l, c.Err()
	}
	// 2026-11-20T14:00:00.123456Z info request key=value ...
	// Time, level and target are words in front, parted by tabs in some versions.
	// Only the time is needed of them.
	first, rest, _ := bytes.Cut(p, []byte("\t"))
	if len(rest) == 0 {
		first, rest, _ = bytes.Cut(p, []byte(" "))
	}
	at, ok := jsonwalk.Stamp(first)
	if !ok {
		return nil, &events.DecodeError{Code: events.CodeWrongType, Offset: 0, Reason: "want a JSON object, or a time and key=value behind it"}
	}
	l.at = at
	for len(rest) > 0 {
		var key, value []byte
		key, value, rest = pair(rest)
		// Words without a value are level and target.
		if value != nil {
			l.take(key, value)
		}
	}
	return l, nil
}

// pair cuts the next key=value off a line; value is nil for a word that has none.
//
// It never fails: what is broken off counts as far as it goes.
func pair(p []byte) (key, value, rest []byte) {
	p = bytes.TrimLeft(p, " \t")
	n := bytes.IndexAny(p, "= \t")
	// The last word of the line.
	if n < 0 {
		return p, nil, nil
	}
	if key, p = p[:n], p[n:]; p[0] != '=' {
		return key, nil, p
	}
	p = p[1:]
	switch {
	case len(p) > 0 && p[0] == '"':
		// A value in quotes may have escapes.
		end := 1
		for end < len(p) && p[end] != '"' {
			if p[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(p))
		return key, jsonwalk.Unescape(p[1:end]), p[min(end+1, len(p)):]
	// A value that is JSON may have blanks in it.
	case len(p) > 0 && (p[0] == '{' || p[0] == '['):
		c := jsonwalk.New(p)
		if raw := c.Raw(); c.Err() == nil {
			return key, raw, p[c.Offset():]
		}
	}
	if n = bytes.IndexAny(p, " \t"); n < 0 {
		n = len(p)
	}
	return key, p[:n:n], p[n:]
}

// Decode reads one line. Lines that are no requests are passed over.
//
// Lines are known again by their text, as each has its time.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	switch {
	case err != nil:
		return err
	case !l.isRequest:
		return nil
	case l.at == 0:
		return adapter.Missing("time", "want a time on every request")
	}
	// The key makes the ids of all events of the request.
	r.line(l, r.pair.Key(record, true), emit)
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// line emits a request, by the names of its protocol.
func (r *reader) line(l *line, key string, emit func(*events.Event)) {
	method := string(l.text[a2aMethod])
	switch {
	// Other methods of MCP list or prepare, and are no use of a tool.
	case string(l.text[mcpMethod]) == "tools/call" && l.text[toolName] != nil:
		r.tool(l, key, emit)
	// By their names of both versions of A2A.
	case method == "SendMessage", method == "SendStreamingMessage", method == "message/send", method == "message/stream":
		r.agent(l, key, emit)
	// A model's request is known by its tokens, whatever its path.
	case l.text[inputTokens] != nil || l.text[outputTokens] != nil:
		r.model(l, key, emit)
	}
}

// caller is the principal of a request, or the address that it came from.
//
// The port of an address changes with each connection and is left out; an IPv6 address has
// more colons.
func (r *reader) caller(l *line) string {
	if name := l.word(principal); name != "" {
		return name
	}
	address := l.word(source)
	if host, _, ok := strings.Cut(address, ":"); ok && strings.Count(address, ":") == 1 {
		return host
	}
	return cmp.Or(address, "client")
}

// begin fills what all events of a request share: flow, caller, how long it took and how it
// ended.
func (r *reader) begin(l *line, id string, kind events.Kind) *events.Event {
	// A trace that is none is left out, and not refused with the rest.
	trace := strings.ToLower(l.word(traceID))
	if len(trace) != 32 || strings.Trim(trace, "0123456789abcdef") != "" {
		trace = ""
	}
	flow := wire.Baggage(l.text[baggage])
	names := adapter.Names{
		events.CorrelationExplicit: l.word(correlationID), events.CorrelationBaggage: flow.ID, events.CorrelationTrace: trace,
		events.CorrelationConversation: l.word(contextID), events.CorrelationSession: l.session(),
		events.CorrelationDerived: "agentgateway:" + adapter.ID([]byte(r.caller(l))),
	}
	e := r.pair.Begin(id, kind, l.at, &names)
	e.ParentCorrelationID, e.RootCorrelationID = flow.Parent, flow.Root
	e.TraceID, e.TurnID, e.From = trace, l.word(turnID), events.Party{Agent: r.caller(l)}
	// An address may be that of a person, but the log does not say so.
	if kind == events.AgentCall {
		e.Origin = events.OriginAgent
	}
	e.DurationMS = duration(l.text[took])
	if status, _ := strconv.Atoi(string(l.text[httpStatus])); status >= 400 {
		e.Status, e.ErrorType = events.StatusError, "HTTP "+strconv.Itoa(status)
	}
	// The error of a tool goes before the status of its request.
	if failure := l.text[failure]; len(failure) > 0 {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(failure), "error")
	}
	return e
}

// session is the MCP session. Stateless gateways put what a session needs to know into
// its id, which may then be long.
//
// The hash of such an id is as good a name.
func (l *line) session() string {
	id := l.text[sessionID]
	if len(id) > events.MaxID {
		return fingerprint.Content(id).String()
	}
	return adapter.Word(id, events.MaxID)
}

// duration reads a time such as 3ms, 1.2s or a number of milliseconds.
//
// What is neither is 0, which is not known.
func duration(p []byte) float64 {
	if ms, err := strconv.ParseFloat(string(p), 64); err == nil {
		return min(max(0, ms), events.MaxNumber)
	}
	d, err := time.ParseDuration(string(p))
	if err != nil {
		return 0
	}
	return max(0, float64(d.Microseconds())/1e3)
}

// tool emits a call and its result; the pairing makes the call up, as the log has only its
// end.
func (r *reader) tool(l *line, key string, emit func(*events.Event)) {
	e := r.begin(l, key+"/result", events.ToolResult)
	// Its own source, see the package comment.
	e.Source += "/tools"
	e.Tool = events.Tool{Name: l.word(toolName), CallID: key, Server: l.word(target), Type: "mcp"}
	if args := l.text[toolArgs]; len(args) > 0 {
		r.pair.Args(e, args)
	}
	text := l.text[toolResult]
	if got := wire.ReadToolResult(text); got.Text != nil {
		if text = got.Text; got.Failed && e.Status <= events.StatusOK {
			e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(text), "error")
		}
	}
	pairing.Returned(e, text)
	r.pair.Pair(e, func(e *events.Event) {
		deed.Returned(e, text)
		emit(e)
	})
}

// agent emits a call of an agent and its return. The callee has no name but the one from the route or
// the path.
func (r *reader) agent(l *line, key string, emit func(*events.Event)) {
	to := events.Party{Agent: cmp.Or(l.word(agentName), l.word(route), l.word(endpoint), l.path(), "agent")}
	e := r.begin(l, key+"/call", events.AgentCall)
	e.Time = max(1, l.at-events.Stamp(e.DurationMS))
	// Status and duration are of the return.
	e.To, e.Status, e.ErrorType, e.DurationMS, e.TransferMode = to, events.StatusUnset, "", 0, events.ReturnToCaller
	r.pair.Pair(e, emit)
	e = r.begin(l, key+"/return", events.AgentReturn)
	e.From, e.To = to, e.From
	r.pair.Pair(e, emit)
}

// path is the path of the request, without its query.
func (l *line) path() string {
	// The query may hold secrets, and would make a name of its own of each request.
	u, err := url.Parse(l.word(httpPath))
	if err != nil {
		return ""
	}
	return u.Path
}

// model emits the usage of a request to a model.
func (r *reader) model(l *line, key string, emit func(*events.Event)) {
	// What is no count is 0, which says nothing.
	number := func(f field) int64 {
		v, err := strconv.ParseInt(string(l.text[f]), 10, 64)
		if err != nil || v < 0 || v > events.MaxNumber {
			return 0
		}
		return v
	}
	e := r.begin(l, key+"/llm", events.LLMCall)
	e.Model, e.Provider = l.word(model), adapter.Word(l.text[provider], events.MaxProvider)
	e.Usage = events.Usage{Known: true, Input: number(inputTokens), Output: number(outputTokens), CacheRead: number(cacheRead),
		CacheCreation: number(cacheCreation), Reasoning: number(reasoning), Total: number(totalTokens)}
	r.pair.Pair(e, emit)
}
