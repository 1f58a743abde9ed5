// Package caco reads logs of Caco: posted messages and session events.
//
// Read are messages of users, agents, schedulers and applets, uses of tools and tokens.
// One flow is the correlationId of a message; what a session does belongs to the flow
// that it was last called in. Without one the flow is the session's, which is marked as
// derived. An agent is its session.
//
// A session log does not name its session: its path does, in a member file beside the
// line, else the event that starts the session. In it the sender of a message stands
// only in front of the text. Messages have no times of their own: a member time or
// timestamp is taken, else lines are two seconds apart. Work is known of sessions whose
// logs are read; their uses of tools have a source of their own, because messages come
// from all sessions.
package caco

import (
	"bytes"
	"cmp"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/fingerprint"
)

// Format returns the format of Caco's logs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "caco",
		Title:   "Caco: messages posted to sessions, and events of session logs, one per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Sometimes, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Sometimes, Starts: adapter.Always, Work: adapter.Sometimes},
	}
}

// score is certain of what only Caco writes. Its sessions are those of Copilot's SDK, so that
// the log of one by itself may as well be of any other program that is made with it.
func score(head *adapter.Head) adapter.Match {
	match := adapter.NoMatch
	for top := range head.Tops() {
		switch {
		// A message that was posted, or a line of a session log beside the name of its file.
		case top["body"] == "{" && sessionIn(top["path"]) != "",
			top["line"] == "{" && strings.HasSuffix(top["file"], "events.jsonl"):
			return adapter.Certain
		// The shape of all logs of that SDK.
		case top.Has("id", "timestamp", "parentId", "type") && top["data"] == "{":
			match = adapter.Maybe
		}
	}
	return match
}

// reader joins messages with what sessions do, through the flow that each session is in.
type reader struct {
	pair *pairing.Pairer
	// Lines without a time follow each other at adapter.Pace.
	clock adapter.Clock
	flows *adapter.Recent[string] // by session: the one that it was last called in
	// at is for logs that do not say on each line whose they are.
	at   string                // session whose log is read
	logs *adapter.Recent[bool] // sessions whose work is seen
	// heard keeps a message from being emitted twice: when it is posted, and when its session
	// logs it.
	heard *adapter.Recent[bool] // messages that were emitted when they were posted, by session and text
}

// newReader trusts a correlationId most and what it makes up itself least.
func newReader(o adapter.Options) adapter.Adapter {
	const most = 4096
	r := &reader{pair: pairing.New(o, "caco", events.CorrelationExplicit, events.CorrelationSession, events.CorrelationDerived),
		flows: adapter.NewRecent[string](o.HeldOr(most)), logs: adapter.NewRecent[bool](o.HeldOr(most)), heard: adapter.NewRecent[bool](o.HeldOr(most))}
	return r
}

// line is a message, or an event of a session log.
//
// data aliases the record.
type line struct {
	id, kind, session string
	at                events.Stamp
	data              []byte // JSON
	// post says that it is a message, which begins a flow or goes on with one.
	post bool
}

// read reads a line, or the line within one that is wrapped with the name of its file.
func read(c *jsonwalk.Cursor) *line {
	l := &line{}
	var inner *line
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		// A log that was collected from several files wraps each line.
		case "line":
			if c.Peek() == '{' {
				inner = read(c)
			} else {
				c.Skip()
			}
		case "file":
			l.session = folder(string(c.Text()))
		case "path":
			if session := sessionIn(string(c.Text())); session != "" {
				l.session, l.post = session, true
			}
		// A message has a body, an event has data.
		case "body", "data":
			l.data = c.Raw()
		case "id":
			l.id = adapter.Word(c.Text(), events.MaxID/2)
		case "type":
			l.kind = string(c.Text())
		case "timestamp", "time":
			l.at, _ = c.Stamp()
		}
	}
	if inner != nil {
		// A name within the line goes before that of the file.
		inner.session = cmp.Or(inner.session, l.session)
		return inner
	}
	return l
}

// sessionIn returns the session that a message was posted to, as its path says.
//
// It is "" for any other path.
func sessionIn(path string) string {
	// What lies deeper is no message to the session itself.
	rest, ok := strings.CutPrefix(path, "/api/sessions/")
	session, isMessage := strings.CutSuffix(rest, "/messages")
	if !ok || !isMessage || strings.Contains(session, "/") {
		return ""
	}
	return adapter.ID([]byte(session))
}

// folder returns the name of the folder that a session log lies in.
//
// A session log is session-state/ID/events.jsonl.
func folder(path string) string {
	dir, _, ok := cutLast(strings.TrimSuffix(path, "/"), "/")
	if !ok {
		return ""
	}
	if _, name, ok := cutLast(dir, "/"); ok {
		dir = name
	}
	return adapter.ID([]byte(dir))
}

// cutLast is strings.Cut at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Decode reads one line. It skips lines that do not concern agents and tools.
//
// The id of a line without one is made of its text, see Key.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	c := jsonwalk.New(record)
	l := read(c)
	c.End()
	switch {
	case c.Err() != nil:
		return c.Err()
	case !l.post && l.kind == "":
		return nil
	}
	// Whether the line has a time of its own, before the clock gives it one.
	timed := l.at != 0
	l.at = r.clock.At(l.at)
	l.id = cmp.Or(l.id, r.pair.Key(record, timed))
	if l.post {
		r.post(l, emit)
	} else {
		r.entry(l, emit)
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// begin fills what all events of a line share. The flow is the one that its session is in.
func (r *reader) begin(l *line, phase string, kind events.Kind, explicit string) *events.Event {
	names := adapter.Names{events.CorrelationExplicit: explicit, events.CorrelationDerived: "caco:" + l.session}
	if f, ok := r.flows.Get(l.session); ok {
		names[events.CorrelationSession] = f
	}
	e := r.pair.Begin(l.id+phase, kind, l.at, &names)
	// Each session is a conversation, whatever flow it is in.
	e.ConversationID = l.session
	return e
}

// party is a session, which is how Caco knows its agents.
func party(session string) events.Party { return events.Party{Session: session} }

// post reads a message.
func (r *reader) post(l *line, emit func(*events.Event)) {
	var prompt []byte
	var origin, from, correlation string
	// The frame was read by read; this is the body.
	c := jsonwalk.New(l.data)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "prompt":
			prompt = c.Text()
		case "source":
			origin = string(c.Text())
		case "fromSession":
			from = adapter.ID(c.Text())
		case "correlationId":
			correlation = adapter.Word(c.Text(), events.MaxID)
		}
	}
	// A user's message begins a flow of its own; the server makes its id and logs it
	// with what follows only.
	// Without a correlation id a message of another session is of that one's flow.
	if correlation == "" && from == "" {
		r.flows.Delete(l.session)
	} else if f, ok := r.flows.Get(from); ok && correlation == "" {
		r.flows.Put(l.session, f)
	}
	if correlation != "" {
		r.flows.Put(l.session, correlation)
	}
	// The session will log the same text, with its sender in front.
	r.heard.Put(heardAs(l.session, prompt), true)
	r.call(l, origin, from, correlation, prompt, emit)
}

// heardAs is by the text without its sender.
func heardAs(session string, text []byte) string {
	return session + " " + fingerprint.Content(text).String()
}

// origins are the words of source; others leave the origin to Event.By.
var origins = map[string]events.Origin{"user": events.OriginUser, "agent": events.OriginAgent, "scheduler": events.OriginScheduler, "applet": events.OriginApplet}

// call emits a message to a session.
func (r *reader) call(l *line, origin, from, correlation string, prompt []byte, emit func(*events.Event)) {
	e := r.begin(l, "/call", events.AgentCall, correlation)
	e.To = party(l.session)
	if e.Origin = origins[origin]; from != "" {
		e.Origin, e.From = events.OriginAgent, party(from)
	}
	// Whether its caller worked is known only if that one's log is read.
	r.pair.Work, _ = r.logs.Get(from)
	if e.Origin == events.OriginAgent && from == "" {
		e.From = events.Party{Agent: "caco"} // some session, it does not say which
	}
	pairing.Said(e, prompt)
	r.pair.Pair(e, emit)
}

// entry reads an event of a session log.
//
// Lines without a session are of the one that was read last.
func (r *reader) entry(l *line, emit func(*events.Event)) {
	d := readData(l.data)
	if l.kind == "session.start" && l.session == "" {
		l.session = d.session
	}
	if l.session == "" {
		l.session = r.at
	}
	// The log begins in the middle of a session without a name.
	if l.session == "" {
		l.session = "session"
	}
	r.at = l.session
	switch l.kind {
	case "user.message":
		// In a log the sender stands in front of the text.
		origin, from, text := sender(d.content)
		// It was emitted when it was posted, with more detail about its sender.
		if _, echoed := r.heard.Get(heardAs(l.session, text)); echoed {
			r.heard.Delete(heardAs(l.session, text))
			return
		}
		r.call(l, cmp.Or(origin, "user"), from, "", text, emit)
	case "tool.execution_start":
		// Seeing one use of a tool means that the session's log is read, and so all its work.
		r.pair.Work = true
		r.logs.Put(l.session, true)
		e := r.begin(l, "/call", events.ToolCall, "")
		e.From, e.Tool = party(l.session), events.Tool{Name: cmp.Or(d.tool, "tool"), CallID: d.call, Type: "function"}
		// Messages come from all sessions and uses of tools only from those whose logs are
		// read, so the two have a source each.
		e.Source += "/log"
		r.pair.Args(e, d.args)
		r.pair.Pair(e, emit)
	case "tool.execution_complete":
		r.pair.Work = true
		r.logs.Put(l.session, true)
		e := r.begin(l, "/result", events.ToolResult, "")
		e.From, e.Tool = party(l.session), events.Tool{Name: cmp.Or(d.tool, "tool"), CallID: d.call, Type: "function"}
		e.Source += "/log"
		if d.failed {
			e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(d.result), "error")
		}
		pairing.Returned(e, d.result)
		r.pair.Pair(e, func(e *events.Event) {
			deed.Returned(e, d.result)
			emit(e)
		})
	// Tokens come as an event of their own, beside the answer.
	case "assistant.usage":
		e := r.begin(l, "/llm", events.LLMCall, "")
		e.From, e.Usage, e.Model = party(l.session), d.usage, d.model
		r.pair.Pair(e, emit)
	case "assistant.message":
		if len(d.content) == 0 {
			return // it only calls tools
		}
		r.pair.Work, _ = r.logs.Get(l.session)
		e := r.begin(l, "/return", events.AgentReturn, "")
		e.From = party(l.session)
		pairing.Said(e, d.content)
		r.pair.Pair(e, emit)
	}
}

// sender takes the sender off the front of a message: "[agent:session-1] ...".
//
// A text that begins with a bracket and no known word is left as it is.
func sender(text []byte) (origin, from string, rest []byte) {
	inner, rest, ok := bytes.Cut(text, []byte("]"))
	if !ok || !bytes.HasPrefix(inner, []byte("[")) {
		return "", "", text
	}
	kind, name, ok := bytes.Cut(inner[1:], []byte(":"))
	if _, known := origins[string(kind)]; !ok || !known {
		return "", "", text
	}
	if string(kind) == "agent" {
		from = adapter.ID(name)
	}
	return string(kind), from, bytes.TrimSpace(rest)
}

// data holds the contents of the events of a session log.
//
// One struct serves all kinds, as their members do not clash.
type data struct {
	session, call, tool, model string
	content, args, result      []byte
	failed                     bool
	usage                      events.Usage
}

// readData reads what an event has of these. Counts are of the model's answer.
func readData(raw []byte) (d data) {
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		count := func(to *int64) {
			if v, ok := c.Count(); ok {
				*to, d.usage.Known = v, true
			}
		}
		switch string(c.Key()) {
		case "sessionId":
			d.session = adapter.ID(c.Text())
		case "toolCallId":
			d.call = adapter.ID(c.Text())
		case "toolName":
			d.tool = adapter.Word(c.Text(), events.MaxID)
		case "arguments":
			d.args = c.Raw()
		case "content":
			d.content = c.Text()
		// A result is an object, and what it says is in content.
		case "result":
			d.result = c.TextOf("content")
		case "success":
			d.failed = !c.Bool()
		case "model":
			d.model = adapter.Word(c.Text(), events.MaxID)
		case "inputTokens":
			count(&d.usage.Input)
		case "outputTokens":
			count(&d.usage.Output)
		case "cacheReadTokens":
			count(&d.usage.CacheRead)
		}
	}
	return d
}
