// Package autogen reads the log autogen_core.events of AutoGen.
//
// It reads the messages that are sent, if their payload is JSON, and the calls of tools and models.
// The teams of AgentChat never send from agent to agent, but through a manager and by topics.
// So one agent has called another if the manager asks that one to speak next, or if it sent a HandoffMessage.
// Tool calls are read from the messages about them, which have ids and times.
// Records of ToolCall count only for programs on the core alone.
//
// One flow is one team, or one key of agent ids (type/key): a conversation.
//
// The records have no times of their own. A record without a time in its payload or before it gets
// the time of the latest record of its flow that had one.
// A payload that AutoGen could not serialize shows only that it was sent.
package autogen

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/fingerprint"
)

// Format returns the format of AutoGen's core events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "autogen",
		Title:   "AutoGen core events (logger autogen_core.events), JSON lines or a plain log",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// The payload of most messages has times. Only some clients report tokens.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Sometimes, Starts: adapter.Sometimes, Work: adapter.Always},
	}
}

// score cuts lines by itself, because a plain log is not JSON to its first byte.
func score(head *adapter.Head) adapter.Match {
	isRecord := func(top adapter.Top) bool {
		return top["type"] == "Message" && top.Has("payload", "delivery_stage") ||
			top["type"] == "ToolCall" && top.Has("tool_name", "arguments") ||
			top["type"] == "LLMCall" && top.Has("prompt_tokens", "completion_tokens")
	}
	if head.Any(isRecord) {
		return adapter.Certain
	}
	left, looked := head.Bytes, len(slices.Collect(head.Tops())) // the values examined above, each on one line or more
	for n := range 16 {
		line, rest, more := bytes.Cut(left, []byte("\n"))
		// What may stand before the first record: a byte order mark, white space and the
		// bracket of an array.
		if _, record := split(bytes.TrimLeft(line, "\xef\xbb\xbf \t[,")); n >= looked && len(record) > 0 {
			for top := range adapter.Tops(record) {
				if isRecord(top) {
					return adapter.Certain
				}
			}
		}
		if left = rest; !more {
			break
		}
	}
	return adapter.NoMatch
}

// layout is how Python's logging writes %(asctime)s, without a zone.
const layout = "2006-01-02 15:04:05"

// split takes the record of a line of a plain log apart from the time before it. A
// line without a record gives none.
//
// at is 0 where the line begins with its record.
func split(line []byte) (at events.Stamp, record []byte) {
	if len(line) > 0 && (line[0] == '{' || len(line) < len(layout)) {
		return 0, line
	}
	if len(line) < len(layout) {
		return 0, nil
	}
	// The line names no zone, so its time is read as UTC.
	t, err := time.Parse(layout, string(line[:len(layout)]))
	if err != nil {
		return 0, line
	}
	at = events.Stamp(t.UnixMilli())
	// The fraction is three digits behind a comma or a point.
	if rest := line[len(layout):]; len(rest) > 4 && (rest[0] == ',' || rest[0] == '.') {
		if ms, err := strconv.ParseUint(string(rest[1:4]), 10, 16); err == nil {
			at += events.Stamp(ms)
		}
	}
	// Of other loggers only the time is read, so that the line counts as none.
	if n := bytes.IndexByte(line, '{'); n > 0 && bytes.Contains(line[:n], []byte("autogen_core")) {
		record = line[n:]
	}
	return max(at, 0), record
}

// Bounds of what is remembered, whatever the log says.
const (
	maxFlows = 1024
	maxSeen  = 16384
	maxOpen  = 256 // calls of one flow that wait
)

// reader is of one log, in which several teams may run at one time.
type reader struct {
	source string
	order  []events.CorrelationSource
	ignore adapter.IgnoreArgs
	flows  *adapter.Recent[*flow]
	seen   *adapter.Recent[struct{}] // messages: each is sent to several topics, and delivered to several agents
	// alone is the flow of agents that run outside of any team, of which nothing in the log
	// says where one run ends: all of them, called by the first record, so that those of
	// another log are another flow.
	alone string
	// count puts events of one time into order, for most have the time of the message before.
	count int64 // events
	event events.Event
}

// flow is one team, or one key of agents.
//
// Teams run one agent at a time, so who speaks is known by order alone.
type flow struct {
	key      string
	guessed  bool // nothing names it
	explicit string
	// clock is the time of the latest record, and only goes forward.
	clock   events.Stamp
	timed   bool     // by messages, not by the log
	asked   *message // the user's message, until its addressee is known
	speaker string   // the agent that speaks now, or spoke last
	reply   *message // the speaker's message, until another agent is asked
	worked  adapter.Work
	// calls wait until it is known whether one of them was a handoff, see release.
	calls []*use
	// people are agents that asked a person for input, whose words theirs are then. Whether an
	// agent is one shows with the first that it does; passed waits for that.
	people, agents map[string]bool
	passed         *passed
	// asks keeps a ToolCall of the core from being reported twice.
	asks    map[string]bool // agents whose messages report their tools
	unnamed int64           // records without an id
}

// passed is the speaker's last message before the manager asked an agent that was not seen yet.
type passed struct {
	by *message
	to string
}

func newReader(o adapter.Options) adapter.Adapter {
	return &reader{source: cmp.Or(o.Source, "autogen"), ignore: o.IgnoreArgs,
		order: o.CorrelationOr(events.CorrelationExplicit, events.CorrelationConversation),
		flows: adapter.NewRecent[*flow](o.HeldOr(maxFlows)),
		seen:  adapter.NewRecent[struct{}](o.HeldOr(maxSeen))}
}

// Decode reads one record. It skips lines of other loggers in a plain log.
//
// The log's own time counts only until a message of the flow has a time.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	line := record // with the time before it, which distinguishes logs that begin alike
	at, record := split(record)
	if record == nil && at != 0 {
		return nil
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	if r.alone == "" {
		r.alone = fmt.Sprintf("autogen:%016x", xxhash.Sum64(line))
	}
	// A message is logged when it is sent, and again for each receiver when it is delivered.
	if l.kind != "Message" && l.kind != "ToolCall" && l.kind != "LLMCall" || l.kind == "Message" && !l.sent {
		return nil
	}
	f := r.flow(l)
	// Once a message has a time, the clock of the log is ignored: the two may differ by hours.
	if logged := l.payload.at(); logged != 0 || f.timed {
		f.clock, f.timed = max(f.clock, logged), true
	} else {
		f.clock = max(f.clock, at) // which may be in another time zone
	}
	if f.clock == 0 {
		return adapter.Missing("created_at", "nothing tells when it happened; let the log's format begin with %(asctime)s %(name)s")
	}
	switch l.kind {
	case "ToolCall":
		r.tool(f, l, emit)
	case "LLMCall":
		r.inference(f, l, emit)
	default:
		r.message(f, l, emit)
	}
	return nil
}

// Flush emits the calls that wait.
//
// It is called at the end of the log, when no call can turn out to be a handoff.
func (r *reader) Flush(emit func(*events.Event)) error {
	for _, f := range r.flows.All() {
		r.follow(f, "", emit)
		r.release(f, "", nil, emit)
	}
	return nil
}

// flow finds the flow of a record by the key of the agent that it names.
func (r *reader) flow(l *line) *flow {
	key := cmp.Or(l.agent.key, l.from.key, l.to.key)
	guessed := key == ""
	if guessed {
		key = r.alone
	}
	f, ok := r.flows.Get(key)
	if !ok {
		f = &flow{key: key, guessed: guessed, worked: adapter.NewWork(maxOpen), asks: map[string]bool{}, people: map[string]bool{}, agents: map[string]bool{}}
		r.flows.Put(key, f)
	}
	// A correlation id that any message of it names is that of the flow.
	for _, m := range l.payload.messages {
		f.explicit = cmp.Or(f.explicit, m.correlation)
	}
	return f
}

// begin fills what all events share.
//
// Sequence keeps the order of the log among events of one time.
func (r *reader) begin(f *flow, id string, kind events.Kind, at events.Stamp) *events.Event {
	r.count++
	r.event = events.Event{ID: id, Source: r.source, Kind: kind, Time: at, Sequence: r.count, Origin: events.OriginAgent, ConversationID: f.key}
	if f.guessed {
		r.event.ConversationID = ""
		names := adapter.Names{events.CorrelationExplicit: f.explicit, events.CorrelationDerived: f.key}
		names.Name(&r.event, []events.CorrelationSource{events.CorrelationExplicit, events.CorrelationDerived})
		return &r.event
	}
	names := adapter.Names{events.CorrelationExplicit: f.explicit, events.CorrelationConversation: f.key}
	names.Name(&r.event, r.order)
	return &r.event
}

// name makes an id for a record that has none: its number within the flow.
//
// It counts from the beginning of what was read, so the ids of such records are stable only
// for a log that is read from its beginning.
func (f *flow) name() string {
	f.unnamed++
	return f.key + "/" + strconv.FormatInt(f.unnamed, 10)
}

func party(agent string) events.Party { return events.Party{Agent: agent} }

// once is true for a message that was not seen before.
//
// Messages without an id are never known again.
func (r *reader) once(id string) bool {
	if id == "" {
		return true
	}
	_, again := r.seen.Get(id)
	r.seen.Put(id, struct{}{})
	return !again
}

// message determines what a message is by its form and its sender, because the log does not name
// AgentChat's types.
func (r *reader) message(f *flow, l *line, emit func(*events.Event)) {
	p := &l.payload
	switch {
	// The user's message to a team, which comes without a sender.
	case p.starts && l.from.name == "":
		if n := len(p.messages); n > 0 && r.once(p.messages[n-1].id) {
			f.asked, f.reply = p.messages[n-1], nil
		}
	case p.starts:
		// the manager hands on what the user said
	// An empty payload from the manager is its request to speak.
	case p.request && l.from.isManager():
		r.next(f, l.to.name, emit)
	// A message that an agent puts to its group while it works.
	case p.inner != nil:
		if r.once(p.inner.id) {
			r.said(f, p.inner, emit)
		}
	// The response of an agent in its turn.
	case p.reply != nil:
		if f.reply = p.reply; r.once(p.reply.id) {
			r.said(f, p.reply, emit)
		}
	// What the manager publishes at the end cannot be serialized; that is how the end is
	// known.
	case p.opaque && l.from.isManager() && l.publishes:
		r.end(f, emit)
	// From agent to agent, as only programs on the core do.
	case l.direct && l.to.name != "" && !l.to.isManager():
		r.direct(f, l, emit)
	}
}

// next records that the manager asked an agent to speak.
//
// It is the only sign in a team that an agent was called.
func (r *reader) next(f *flow, agent string, emit func(*events.Event)) {
	if agent == "" {
		return
	}
	r.follow(f, "", emit)
	r.release(f, "", nil, emit)
	// What the user said goes to the first speaker.
	switch asked, reply := f.asked, f.reply; {
	case asked != nil:
		f.asked = nil
		r.user(f, asked, agent, emit)
	// What a person says is said by no agent.
	case reply != nil && f.people[f.speaker]:
		r.user(f, reply, agent, emit)
	// A team that asks a person has answered.
	case reply != nil && f.people[agent]:
		r.answer(f, reply, emit)
	// An agent that speaks again after itself was not called.
	case reply != nil && f.speaker != agent && f.speaker != "":
		if f.passed = (&passed{reply, agent}); f.agents[agent] {
			r.follow(f, agent, emit)
		}
	}
	f.speaker, f.reply = agent, nil
}

// follow emits the handover once it is known that an agent received it. by names what showed it;
// it is empty if nothing can show it any more.
func (r *reader) follow(f *flow, by string, emit func(*events.Event)) {
	p := f.passed
	if p == nil || by != "" && by != p.to {
		return
	}
	f.passed = nil
	if len(f.agents) < maxOpen {
		f.agents[p.to] = true
	}
	r.call(f, p.by, p.to, emit)
}

// user emits a person's message and the agent that it addresses.
func (r *reader) user(f *flow, m *message, to string, emit func(*events.Event)) {
	e := r.begin(f, m.id+"/call", events.AgentCall, cmp.Or(m.at, f.clock))
	e.Origin, e.To, e.Content, e.Sim = events.OriginUser, party(to), m.said, m.sim
	f.worked.Spend(to)
	emit(e)
}

// call emits that the speaker passed the word to another agent.
//
// Both lose their work, as with every hop (decision 4).
func (r *reader) call(f *flow, m *message, to string, emit func(*events.Event)) {
	e := r.begin(f, m.id+"/call", events.AgentCall, cmp.Or(m.at, f.clock))
	e.From, e.To, e.TransferMode, e.Content, e.Sim = party(m.source), party(to), events.PassControl, m.said, m.sim
	f.worked.Set(e, m.source)
	f.worked.Spend(m.source)
	f.worked.Spend(to)
	emit(e)
}

// said reads what an agent says in its turn.
//
// Requests and results of tools are messages as well.
func (r *reader) said(f *flow, m *message, emit func(*events.Event)) {
	if m.kind != "UserInputRequestedEvent" {
		r.follow(f, m.source, emit)
	}
	// Any other message of the agent shows that its calls were no handoffs, or that they were.
	if m.kind != "ToolCallExecutionEvent" {
		r.release(f, m.source, m, emit)
	}
	switch m.kind {
	case "UserInputRequestedEvent":
		if len(f.people) < maxOpen {
			f.people[m.source] = true
		}
		// A team that asks a person has answered.
		if p := f.passed; p != nil && p.to == m.source {
			f.passed = nil
			r.answer(f, p.by, emit)
		}
	case "ToolCallRequestEvent":
		if len(f.asks) < maxOpen {
			f.asks[m.source] = true
		}
		// Kept until the next message, see use.
		for _, c := range m.calls {
			if len(f.calls) >= maxOpen {
				r.release(f, "", nil, emit)
			}
			f.calls = append(f.calls, &use{id: c.id, tool: c.name, by: m.source, at: cmp.Or(m.at, f.clock),
				args: fingerprint.Args(c.args, r.ignore.Of(c.name)), size: int64(len(c.args))})
		}
	case "ToolCallExecutionEvent":
		for _, c := range m.calls {
			for _, u := range f.calls {
				if u.id == c.id && !u.done {
					u.done, u.end = true, cmp.Or(m.at, f.clock)
					u.result, u.near = fingerprint.Result(c.result)
					u.came = deed.ResultOf(c.result)
					if u.failed = c.failed; u.failed {
						u.failure = cmp.Or(fingerprint.Error(c.result), "error")
					}
					break
				}
			}
		}
	// The agent itself names the target of its handoff. The manager then asks that agent, which is no
	// second call.
	case "HandoffMessage":
		if m.target != "" && m.target != "user" {
			r.call(f, m, m.target, emit)
			f.speaker = m.target
		}
	}
}

// inference emits the usage of a request. An agent that asks the model again has not handed over.
func (r *reader) inference(f *flow, l *line, emit func(*events.Event)) {
	if l.agent.name != "" {
		r.follow(f, l.agent.name, emit)
		r.release(f, l.agent.name, nil, emit)
	}
	// A response that is logged twice has one id.
	if !l.usage.Known || l.response != "" && !r.once(l.response) {
		return
	}
	e := r.begin(f, cmp.Or(l.response, f.name())+"/llm", events.LLMCall, f.clock)
	e.From, e.Usage, e.Model, e.Status = party(cmp.Or(l.agent.name, r.source)), l.usage, l.model, events.StatusOK
	emit(e)
}

// end emits the answer of a team, which is its last message.
//
// It goes to the user. A team that ended with a handoff answered nothing.
func (r *reader) end(f *flow, emit func(*events.Event)) {
	r.follow(f, "", emit)
	r.release(f, "", nil, emit)
	m := f.reply
	f.reply, f.asked = nil, nil
	if m == nil || m.kind == "HandoffMessage" || f.people[m.source] {
		return
	}
	r.answer(f, m, emit)
}

// answer emits the team's answer to its user.
func (r *reader) answer(f *flow, m *message, emit func(*events.Event)) {
	e := r.begin(f, m.id+"/return", events.AgentReturn, cmp.Or(m.at, f.clock))
	e.From, e.Content, e.Sim, e.Status = party(m.source), m.said, m.sim, events.StatusOK
	f.worked.Set(e, m.source)
	emit(e)
}

// direct reads a message of a program on the core alone: from agent to agent.
//
// A response goes back to the sender of the request, so both are named in it.
func (r *reader) direct(f *flow, l *line, emit func(*events.Event)) {
	r.release(f, l.from.name, nil, emit)
	id := f.name()
	if l.responds {
		if l.from.name == "" {
			return
		}
		e := r.begin(f, id+"/return", events.AgentReturn, f.clock)
		e.From, e.To, e.Content, e.Sim, e.Status = party(l.from.name), party(l.to.name), l.payload.said, l.payload.sim, events.StatusOK
		f.worked.Set(e, l.from.name)
		emit(e)
		return
	}
	e := r.begin(f, id+"/call", events.AgentCall, f.clock)
	e.To, e.Content, e.Sim = party(l.to.name), l.payload.said, l.payload.sim
	// Without a sender it is the program's, and so the user's.
	if e.Origin = events.OriginUser; l.from.name != "" {
		e.Origin, e.From = events.OriginAgent, party(l.from.name)
		f.worked.Set(e, l.from.name)
		f.worked.Spend(l.from.name)
	}
	f.worked.Spend(l.to.name)
	emit(e)
}
