// Package managedagents reads session events of Anthropic's managed agents.
//
// It reads the user's messages, answers, uses of tools and their results, messages between threads, and
// the tokens of requests to models. An event does not name its session. A member session_id is used if
// the program that saves the stream adds it. Otherwise one flow is what follows from one message of the
// user, by the id of that message, which is marked as derived. An agent is its name, if threads have it.
//
// Several sessions in one file cannot be distinguished without session_id. The work of threads beside
// the main one is present only if their streams are saved, too.
package managedagents

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

// Format returns the format of managed agents' events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "managedagents",
		Title:   "Anthropic managed agents: events of a session, one per line, or a page of them",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Everything is reported as it happens, in the thread that the stream belongs to.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score looks into the first event, whatever it is wrapped in.
func score(head *adapter.Head) adapter.Match {
	for c := range adapter.Heads(stream(head.Bytes)) {
		// One event is enough: no other format names its ids so.
		if looksLike(c) {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// stream returns the data of the first server-sent event, or the head as it is.
// It is for the head of a file, where lines without data may stand before the first event.
func stream(head []byte) []byte {
	for line := range bytes.Lines(head) {
		switch data, isData := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); {
		case isData:
			return data
		case len(bytes.TrimSpace(line)) > 0 && !isField(line):
			return head
		}
	}
	return head
}

// isField reports whether a line is one of those around the data of server-sent events.
func isField(line []byte) bool {
	return bytes.HasPrefix(line, []byte("event:")) || bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte(":"))
}

// looksLike reports whether an object is an event, or a page of them. Ids of events begin with
// sevt_, which no other format has.
func looksLike(c *jsonwalk.Cursor) (is bool) {
	var id, kind string
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			id = string(c.Text())
		case "type":
			kind = string(c.Text())
		case "data":
			for c.MaybeArray(); c.Element(); {
				if c.Peek() == '{' {
					is = looksLike(c) || is
				}
			}
		}
	}
	// A page is one as soon as it holds an event.
	area, _, _ := strings.Cut(kind, ".")
	return is || strings.HasPrefix(id, "sevt_") && (area == "user" || area == "agent" || area == "session" || area == "span")
}

// reader holds what later events need of earlier ones; each memory forgets what was used least
// recently.
type reader struct {
	pair    *pairing.Pairer
	repeats *adapter.Repeats
	// It names the flow where there is no session_id.
	// last is the id of that message, which begins a flow of its own.
	last  string       // the user's last message
	clock events.Stamp // of the event before
	// names and primary identify the thread's owner if an event does not.
	names   *adapter.Recent[string]       // of agents, by thread
	primary *adapter.Recent[string]       // names of the agents that users talk to, by session
	created *adapter.Recent[bool]         // threads that agents made
	said    *adapter.Recent[answer]       // by session: what may be the answer to the user
	started *adapter.Recent[events.Stamp] // of requests to models
}

// answer is a message that its agent may end with.
//
// It is kept as hashes, since only these are emitted.
type answer struct {
	said events.Hash
	sim  events.Fingerprint
}

// newReader says that all work is seen, as the stream has all uses of tools.
func newReader(o adapter.Options) adapter.Adapter {
	const most = 4096
	r := &reader{pair: pairing.New(o, "managed-agents", events.CorrelationExplicit, events.CorrelationSession, events.CorrelationDerived),
		repeats: adapter.NewRepeats(o),
		names:   adapter.NewRecent[string](o.HeldOr(most)), primary: adapter.NewRecent[string](o.HeldOr(most)), created: adapter.NewRecent[bool](o.HeldOr(most)),
		said: adapter.NewRecent[answer](o.HeldOr(most)), started: adapter.NewRecent[events.Stamp](o.HeldOr(most))}
	r.pair.Work = true
	return r
}

// Decode reads one event, or a page of them. It skips events that do not concern agents and tools.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// Lines of server-sent events that hold no data are passed over.
	record = bytes.TrimSpace(record)
	if data, ok := bytes.CutPrefix(record, []byte("data:")); ok {
		record = bytes.TrimSpace(data)
	} else if isField(record) {
		return nil
	}
	c := jsonwalk.New(record)
	read := read(c)
	c.End()
	if err := c.Err(); err != nil {
		return err
	}
	// An event that cannot be read ends the page; those before it were emitted.
	for i := range read {
		if err := r.entry(&read[i], emit); err != nil {
			return err
		}
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// entry emits one event, or remembers what it says about others.
func (r *reader) entry(n *entry, emit func(*events.Event)) error {
	switch {
	case n.kind == "":
		return adapter.Missing("type", "want type on every event")
	case n.id == "":
		return nil // what was sent, and comes again with an id; or a part of an answer
	case n.at == 0 && r.clock == 0:
		return adapter.Missing("processed_at", "want an RFC 3339 time in processed_at")
	}
	// A stream that was saved twice, or a page and a stream, hold the same events.
	if r.repeats.Again([]byte(n.id)) {
		return nil
	}
	// An event that waits to be processed has no time yet.
	r.clock = cmp.Or(n.at, r.clock)
	n.at = r.clock
	r.meet(n)
	switch n.kind {
	// A message begins a flow where no session is named.
	case "user.message":
		r.last = n.id
		// What was said before the message cannot be the answer to it.
		r.said.Delete(n.session)
		e := r.begin(n, "/call", events.AgentCall)
		e.Origin, e.To = events.OriginUser, r.actor(n)
		pairing.Said(e, n.text())
		r.pair.Pair(e, emit)
	// An answer of another thread is a message to the one that asked.
	case "agent.message":
		if n.thread == "" || r.isPrimary(n) {
			// Whether it is the answer shows when the session is idle.
			text := n.text()
			r.said.Put(n.session, answer{fingerprint.Content(text), fingerprint.Text(text)})
		}
	// The session is idle at the end of a turn, and when it waits for a person or a client.
	case "session.status_idle":
		// When it waits for input it will continue its turn.
		if a, ok := r.said.Get(n.session); ok && n.stop != "requires_action" {
			r.said.Delete(n.session)
			e := r.begin(n, "/return", events.AgentReturn)
			e.From, e.Content, e.Sim = r.party(n, "", ""), a.said, a.sim
			r.pair.Pair(e, emit)
		}
	case "agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use":
		r.use(n, emit)
	case "agent.tool_result", "agent.mcp_tool_result", "user.custom_tool_result":
		r.result(n, emit)
	case "agent.thread_message_sent", "agent.thread_message_received":
		r.message(n, emit)
	// Only its time is of use, for how long the request took.
	case "span.model_request_start":
		r.started.Put(n.id, n.at)
	case "span.model_request_end":
		r.request(n, emit)
	case "session.error":
		// An error ends the turn, and nothing else answers.
		r.said.Delete(n.session)
		e := r.begin(n, "/return", events.AgentReturn)
		e.From, e.Status, e.ErrorType = r.actor(n), events.StatusError, cmp.Or(fingerprint.Error(n.failure), "error")
		r.pair.Pair(e, emit)
	}
	return nil
}

// result emits what a use of a tool brought.
func (r *reader) result(n *entry, emit func(*events.Event)) {
	e := r.begin(n, "", events.ToolResult)
	// The result has the id of its use, so that both are one call.
	// The name of the tool is left to the pairing, which saw the use.
	e.ID, e.Tool.CallID = n.use+"/result", n.use
	said := append([]byte{}, n.text()...) // the stream has all results, so one without texts is empty
	if n.failed {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(said), "error")
	}
	pairing.Returned(e, said)
	r.pair.Pair(e, func(e *events.Event) {
		deed.Returned(e, said)
		emit(e)
	})
}

// begin fills what all events of an entry share. Without a session the last message of the
// user names the flow.
func (r *reader) begin(n *entry, phase string, kind events.Kind) *events.Event {
	names := adapter.Names{events.CorrelationExplicit: n.correlation, events.CorrelationSession: n.session, events.CorrelationDerived: cmp.Or(r.last, n.id)}
	e := r.pair.Begin(n.id+phase, kind, n.at, &names)
	e.ConversationID = n.session
	return e
}

// meet remembers the owner of each thread.
// It is called for each event before the event is emitted.
func (r *reader) meet(n *entry) {
	// Most events name neither.
	if n.thread == "" || n.agent == "" {
		return
	}
	r.names.Put(n.thread, n.agent)
	if n.kind == "session.thread_created" {
		r.created.Put(n.thread, true)
	}
	if _, known := r.primary.Get(n.session); !known && r.isPrimary(n) {
		r.primary.Put(n.session, n.agent)
	}
}

// isPrimary reports whether an event happened in the thread that users talk to.
// A thread that no agent made is the user's.
func (r *reader) isPrimary(n *entry) bool {
	_, created := r.created.Get(n.thread)
	return !created
}

// actor is the agent of the thread in which an event happened.
func (r *reader) actor(n *entry) events.Party { return r.party(n, n.thread, n.agent) }

// unnamed is the agent of a session in which no thread has a name.
const unnamed = "agent"

// party is the agent of a thread, or the one that users talk to.
func (r *reader) party(n *entry, thread, agent string) events.Party {
	// The event itself goes before what was learned of its thread, and that before the agent
	// of the session.
	if agent == "" && thread != "" {
		agent, _ = r.names.Get(thread)
	}
	if agent == "" {
		agent, _ = r.primary.Get(n.session)
	}
	return events.Party{Agent: cmp.Or(agent, unnamed)}
}

// use emits a use of a tool. The three kinds differ in the party that runs it.
func (r *reader) use(n *entry, emit func(*events.Event)) {
	if n.name == "" {
		return
	}
	e := r.begin(n, "/call", events.ToolCall)
	e.From = r.actor(n)
	e.Tool = events.Tool{Name: n.name, CallID: n.id, Server: n.server, Type: "function"}
	if n.server != "" {
		e.Tool.Type = "mcp"
	}
	r.pair.Args(e, n.input)
	r.pair.Pair(e, emit)
}

// message is what one agent sends to another: the coordinator gives work away, and the message
// that it receives is the answer. On the stream of the other thread the same two come the
// other way round.
func (r *reader) message(n *entry, emit func(*events.Event)) {
	own := r.actor(n)
	sent := n.kind == "agent.thread_message_sent"
	if sent == (n.toAgent != "") && (n.toAgent != "" || n.fromAgent != "") {
		// With a name on the other end it is the coordinator's.
		other := r.party(n, cmp.Or(n.toThread, n.fromThread), cmp.Or(n.toAgent, n.fromAgent))
		kind, from, to := events.AgentCall, own, other
		// A message that the coordinator receives is emitted as the answer of the other agent.
		if !sent {
			kind, from, to = events.AgentReturn, other, own
		}
		e := r.begin(n, "/message", kind)
		if e.From, e.To = from, to; kind == events.AgentCall {
			e.Origin, e.TransferMode = events.OriginAgent, events.ReturnToCaller
		}
		pairing.Said(e, n.text())
		r.pair.Pair(e, emit)
	}
}

// request emits the usage of a request to the model, or that it failed.
func (r *reader) request(n *entry, emit func(*events.Event)) {
	// Nothing that a rule could count.
	if !n.usage.Known && !n.failed {
		return
	}
	e := r.begin(n, "/llm", events.LLMCall)
	e.From, e.Usage, e.Model, e.Provider = r.actor(n), n.usage, n.model, "anthropic"
	if began, ok := r.started.Get(n.request); ok {
		e.DurationMS = float64(max(0, n.at-began))
	}
	if n.failed {
		e.Status, e.ErrorType = events.StatusError, "error"
	}
	r.pair.Pair(e, emit)
}
