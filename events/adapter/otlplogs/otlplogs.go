// Package otlplogs reads OpenTelemetry log records of agent programs in OTLP JSON.
//
// It supports the events of Claude Code; the tables in fields.go map names to meanings. One flow
// is one prompt (prompt.id), or the session. The program logs a tool use when it is over. The
// reader emits it as a call, at the time at which the use began, and a result.
//
// Arguments are present only where the program is set to log details of tools; results never
// are. The log does not name the agent that called another one. Records of other programs are
// ignored; spans and metrics are rejected.
//
// A record of any program with the event name agent.status or agent.heartbeat is a report of an
// agent. Its gen_ai.agent.id (or agent.id, or their name) names the agent. Its state is in
// agent.status, agent.margin, agent.health, agent.coherence, agent.risk (0 to 1) and
// agent.void_active.
package otlplogs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/anyvalue"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// Format returns the format of OTLP JSON logs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "otlplogs",
		Title:   "OpenTelemetry logs (OTLP JSON) of Claude Code",
		Framing: adapter.Documents,
		Score:   adapter.CertainWith("resourceLogs"),
		New:     newReader,
		// Results are never logged, and callers neither; a use is logged when it is over.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Never, Caller: adapter.Never, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Never},
	}
}

// reader is an adapter for one goroutine. Nothing is held back; the pairing remembers calls
// and work.
type reader struct {
	pair *pairing.Pairer
	// Options.Source, which goes before the name of the service.
	source string
}

// newReader trusts explicit names most, and the trace least.
func newReader(o adapter.Options) adapter.Adapter {
	return &reader{pairing.New(o, "otlp-logs", events.CorrelationExplicit, events.CorrelationBaggage, events.CorrelationPrompt,
		events.CorrelationSession, events.CorrelationTrace), o.Source}
}

// Decode reads one export batch. A batch that is not well-formed is refused as a
// whole. Records without a usable time are left out and reported after the others
// were read.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// All records are read first, so that a batch with a broken end emits nothing.
	var read []*line
	// other is what a document of another kind has in place of logs, for the message.
	other, isBatch, refused := "", false, 0
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		// The error names spans and metrics so that the sender sees them.
		if string(c.Key()) != "resourceLogs" {
			other = adapter.Word(c.Key(), 40)
			c.Skip()
			continue
		}
		isBatch = true
		for c.Array(); c.Element(); {
			if read = append(read, resource(c)...); len(read) > adapter.MaxItems {
				c.Fail(adapter.TooMany("records"))
			}
		}
	}
	c.End()
	if !isBatch && other != "" {
		c.Fail(events.CodeMissingField, "resourceLogs", fmt.Sprintf("found %q: want a batch of logs", other))
	}
	if err := c.Err(); err != nil {
		return err
	}
	var first *events.DecodeError
	// Reports of agents need an agent; everything else is Claude Code's.
	for _, l := range read {
		switch {
		// Records of other programs count in the batch but emit no event.
		case l.what == nothing:
		case l.at == 0:
			refused++
			first = cmp.Or(first, adapter.Missing("timeUnixNano", "want a time in ns since 1970"))
		case l.what == heartbeat && l.reporter().IsZero():
			refused++
			first = cmp.Or(first, adapter.Missing("gen_ai.agent.id", "want the id of the agent that reports"))
		default:
			r.line(l, emit)
		}
	}
	if refused > 0 {
		return &adapter.PartError{First: first, LeftOut: refused, Of: len(read), What: "records"}
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// line is one log record.
// It starts as a copy of what its resource says.
// text and rank are indexed by field, see aliases; rank has a bit for the record's own.
type line struct {
	what what
	at   events.Stamp
	// Trace and span are those within which the record was written, if any.
	trace string
	span  string
	text  [fields][]byte
	rank  [fields]uint8
}

// word returns a text as an event may carry it.
func (l *line) word(f field) string { return adapter.Word(l.text[f], events.MaxID) }

// id is a text from which ids of events are made. It leaves room for what is put around it.
func (l *line) id(f field) string { return adapter.Word(l.text[f], events.MaxID/2-16) }

// number returns a count; what is none or negative is 0.
func (l *line) number(f field) int64 {
	v, err := strconv.ParseInt(string(l.text[f]), 10, 64)
	if err != nil || v < 0 || v > events.MaxNumber {
		return 0
	}
	return v
}

// attributes reads those that are of use. What a record says of itself goes before
// what its resource says.
func (l *line) attributes(c *jsonwalk.Cursor, own bool) {
	anyvalue.Attributes(c, func(key []byte) bool { _, ok := places[string(key)]; return ok }, func(key, text []byte) {
		p := places[string(key)]
		// The bit lifts the record's own attributes above those of the resource, whatever
		// their rank.
		if own {
			p.Rank |= 0x80
		}
		if len(text) > 0 && (len(l.text[p.Field]) == 0 || p.Rank > l.rank[p.Field]) {
			l.text[p.Field], l.rank[p.Field] = text, p.Rank
		}
	})
}

// resource reads the records of one program, which share what the resource says.
func resource(c *jsonwalk.Cursor) (out []*line) {
	var shared line
	var late []byte
	// named says that the resource was read, so that records may be.
	named := false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "resource":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "attributes" {
					shared.attributes(c, false)
				}
			}
			named = true
		// The resource may come behind its records; these wait for it then.
		case "scopeLogs", "instrumentationLibraryLogs":
			if !named {
				late = c.Raw()
				continue
			}
			out = append(out, scopes(c, &shared)...)
		}
	}
	// They were kept as they stood until the names were known.
	if late != nil {
		inner := jsonwalk.New(late)
		out = append(out, scopes(inner, &shared)...)
		if err := inner.Err(); err != nil {
			c.Fail(events.CodeSyntax, "scopeLogs", err.Error())
		}
	}
	return out
}

// scopes reads the records of all libraries; which library it is does not matter.
func scopes(c *jsonwalk.Cursor, shared *line) (out []*line) {
	for c.Array(); c.Element(); {
		for c.Object(); c.Member(); {
			if string(c.Key()) != "logRecords" {
				continue
			}
			for c.Array(); c.Element(); {
				l := *shared
				l.read(c)
				if out = append(out, &l); len(out) > adapter.MaxItems {
					c.Fail(adapter.TooMany("records"))
				}
			}
		}
	}
	return out
}

// read reads one record into a copy of what its resource says.
func (l *line) read(c *jsonwalk.Cursor) {
	// Some exporters have the name of the event in the body or among the attributes.
	var name, body []byte
	var observed events.Stamp
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "timeUnixNano":
			l.at, _ = c.Stamp()
		// A collector sets it where the record came without a time.
		case "observedTimeUnixNano":
			observed, _ = c.Stamp()
		case "eventName":
			name = c.Text()
		case "body":
			body = anyvalue.Text(c)
		case "traceId":
			l.trace = hexID(c.Text(), 32)
		case "spanId":
			l.span = hexID(c.Text(), 16)
		case "attributes":
			l.attributes(c, true)
		}
	}
	// Who observes a record knows when; the record itself may not.
	l.at = cmp.Or(l.at, observed)
	// The name goes first where it should stand, then among the attributes, then in the body.
	for _, said := range [...][]byte{name, l.text[eventName], body} {
		if w, ok := whats[strings.TrimPrefix(string(said), "claude_code.")]; ok && len(said) > 0 {
			l.what = w
			return
		}
	}
}

// hexID returns n hex digits in lower case, or nothing.
//
// One of zeros only is none, as OpenTelemetry has it.
func hexID(p []byte, n int) string {
	text := strings.ToLower(string(p))
	if len(text) != n || strings.Trim(text, "0123456789abcdef") != "" || strings.Trim(text, "0") == "" {
		return ""
	}
	return text
}

// begin fills what all events of a record share.
func (r *reader) begin(l *line, phase string, kind events.Kind) *events.Event {
	names := adapter.Names{
		events.CorrelationExplicit: l.word(correlationID), events.CorrelationBaggage: l.word(baggageID), events.CorrelationPrompt: l.word(promptID),
		events.CorrelationSession: l.word(sessionID), events.CorrelationTrace: l.trace,
	}
	e := r.pair.Begin(l.key()+phase, kind, l.at, &names)
	// The operator chose the source of the options, so it has priority.
	if service := l.word(serviceName); r.source == "" && service != "" {
		e.Source = service
	}
	e.ConversationID, e.Sequence = l.word(sessionID), l.number(sequence)
	e.TraceID, e.SpanID = l.trace, l.span
	return e
}

// key returns a key that is unique to a record.
// The id of a use stays the same when a batch is sent again. Without it, the number of the event
// in its session is the key. Without that, the time is.
func (l *line) key() string {
	if use := l.id(callID); use != "" {
		return use
	}
	id := l.id(sessionID) + "/" + strconv.FormatInt(int64(l.at), 10)
	if n := l.text[sequence]; len(n) > 0 {
		return l.id(sessionID) + "/" + adapter.Word(n, 20)
	}
	return id
}

// actor is the agent of which a record speaks.
// Only Claude Code logs without a name.
func (l *line) actor() events.Party {
	if name := l.word(agentName); name != "" {
		return events.Party{Agent: name}
	}
	return events.Party{Session: l.word(sessionID), Agent: "claude-code"}
}

// line emits the events of a record.
func (r *reader) line(l *line, emit func(*events.Event)) {
	switch l.what {
	case userPrompt:
		e := r.begin(l, "/prompt", events.AgentCall)
		e.Origin, e.To = events.OriginUser, events.Party{Session: l.word(sessionID), Agent: "claude-code"}
		pairing.Said(e, l.text[prompt])
		r.pair.Pair(e, emit)
	case toolResult:
		r.tool(l, emit)
	case apiRequest, apiError:
		r.request(l, emit)
	case heartbeat:
		r.heartbeat(l, emit)
	}
}

// heartbeat emits the state of an agent. It belongs to a flow only when it names one.
// It may name a flow only by the explicit id: a session or a trace does not identify the work of
// the agent.
func (r *reader) heartbeat(l *line, emit func(*events.Event)) {
	who := l.reporter()
	e := r.begin(l, "/status/"+adapter.Word([]byte(who.ID()), events.MaxID/2-32), events.AgentStatus)
	// An empty id means that it is in no flow.
	e.From, e.CorrelationID, e.CorrelationSource = who, l.word(correlationID), events.CorrelationExplicit
	s := &events.AgentState{Status: adapter.Word(l.text[agentStatus], events.MaxStatusText), Margin: adapter.Word(l.text[agentMargin], events.MaxLevel),
		Health: adapter.Word(l.text[agentHealth], events.MaxLevel), VoidActive: string(l.text[agentVoid]) == "true"}
	s.Coherence, s.HasCoherence = l.share(agentCoherence)
	s.Risk, s.HasRisk = l.share(agentRisk)
	e.AgentState = s
	r.pair.Pair(e, emit)
}

// reporter is the agent that reports: a program that names none is one itself.
func (l *line) reporter() events.Party {
	return events.Party{Agent: cmp.Or(l.word(agentName), l.word(serviceName))}
}

// share reads a number from 0 to 1.
// The condition is written so that NaN fails it.
func (l *line) share(f field) (float64, bool) {
	v, err := strconv.ParseFloat(string(l.text[f]), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, false
	}
	return v, true
}

// tool emits the end of a tool use; the pairing emits the call before it.
func (r *reader) tool(l *line, emit func(*events.Event)) {
	e := r.begin(l, "/result", events.ToolResult)
	e.From = l.actor()
	// Without an id of the use, that of the record serves.
	e.Tool = events.Tool{Name: cmp.Or(l.word(toolName), "tool"), CallID: adapter.Word([]byte(l.key()), events.MaxID), Type: "function", Server: l.word(toolServer)}
	if e.Tool.Server != "" {
		e.Tool.Type = "mcp"
	}
	if args := l.text[toolArgs]; len(args) > 0 {
		r.pair.Args(e, args)
	}
	// The pairing takes it from the time of the end to place the call.
	e.DurationMS = float64(l.number(duration))
	// What does not say that it failed went well.
	if success := string(l.text[succeeded]); success != "" && success != "true" {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(l.text[failure]), "error")
	}
	// The log has the size of a result and not its text. An empty result is a known one.
	if e.Tool.ResultSize = l.number(resultSize); string(l.text[resultSize]) == "0" {
		e.Tool.ResultSize = 1
	}
	r.pair.Pair(e, emit)
}

// request emits a request to the model, or its failure.
func (r *reader) request(l *line, emit func(*events.Event)) {
	e := r.begin(l, "/llm", events.LLMCall)
	e.From, e.Model, e.Provider = l.actor(), l.word(model), "anthropic"
	e.DurationMS = float64(l.number(duration))
	if l.what == apiError {
		// A request that failed has no counts.
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(l.text[failure]), "error")
	} else {
		e.Usage = events.Usage{Known: true, Input: l.number(inputTokens), Output: l.number(outputTokens),
			CacheRead: l.number(cacheRead), CacheCreation: l.number(cacheCreation)}
		e.Usage.CostMicroUSD, _ = usage.Dollars(l.text[costUSD])
	}
	r.pair.Pair(e, emit)
}
