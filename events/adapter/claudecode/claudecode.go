// Package claudecode reads transcripts of Claude Code: JSON lines, one file per
// session and one per child agent. The lines of a session's files may come one
// file after the other or mixed.
//
// Read are the prompts, the uses of tools and their results, and the tokens of the
// model's answers. One flow is one prompt of the user (promptId), or the session where
// a version does not tell prompts apart. The main agent is the session, a child agent
// sessionId/agentId. A child is linked with the tool call that made it by the text
// of its prompt, or by the agentId in the result.
//
// Children that were given the same prompt cannot be told apart by it: they are linked
// in the order of their calls. A child whose transcript is missing is told by its
// parent's tool use alone.
package claudecode

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
)

// Format returns the transcript format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "claudecode",
		Title:   "Claude Code transcripts (sessions and their child agents), JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

func score(head *adapter.Head) adapter.Match {
	match := adapter.NoMatch
	for top := range head.Tops() {
		switch {
		case top.Has("type", "sessionId", "uuid", "parentUuid"):
			if isOthers(head.Bytes) {
				return adapter.NoMatch
			}
			return adapter.Certain
		case top.Has("type", "sessionId"), top["type"] == "summary" && top.Has("leafUuid"), top["type"] == "file-history-snapshot":
			match = adapter.Maybe
		}
	}
	return match
}

// isOthers reports whether messages are made of parts and not of content, as in the chats of
// Qwen Code, whose lines are alike else.
func isOthers(head []byte) bool {
	for c := range adapter.Heads(head) {
		for c.Object(); c.Member(); {
			if string(c.Key()) != "message" {
				continue
			}
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "parts" {
					return true
				}
				c.Skip()
			}
		}
	}
	return false
}

// maxRemembered bounds agents, open tool calls and messages, each.
const maxRemembered = 16384

type reader struct {
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	agents      *adapter.Recent[*agent] // by session, or session/agentId
	uses        *adapter.Recent[*use]   // by tool use id
	messages    *adapter.Recent[*message]
	lines       *adapter.Recent[string] // agent of a line, by uuid: for side chains without agentId
	event       events.Event
}

// agent is one running agent: a session, or a child of one.
type agent struct {
	party   events.Party
	session string
	prompt  string       // promptId
	parent  events.Party // who called it last
	told    events.Hash  // the prompt, while its parent was not seen
	asked   string       // promptId of the user's last message
	called  bool
	worked  bool // used a tool, or got an answer that took work, since it was called or called somebody
}

// use is a tool use and, when its tool runs an agent, the call of that agent.
type use struct {
	id, tool string
	server   string
	args     events.Hash
	at       events.Stamp
	by       *agent

	delegates bool
	prompt    events.Hash
	sim       events.Fingerprint
	kind      string // of the agent that is called
	hadWork   events.Tri
	child     *agent // once it is known
	done      bool
}

// message is an answer of the model, which comes as several lines.
type message struct {
	told     events.Usage // what the inferences told so far add up to
	parts    int
	returned bool
}

func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "claude-code"), ignore: o.IgnoreArgs,
		correlation: o.CorrelationOr(events.CorrelationPrompt, events.CorrelationSession),
		agents:      adapter.NewRecent[*agent](most), uses: adapter.NewRecent[*use](most),
		messages: adapter.NewRecent[*message](most), lines: adapter.NewRecent[string](most),
	}
}

// Decode reads one line, which may be two when an agent and its child write at one time. Lines
// that tell nothing of agents and tools are passed over.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	tell, err := r.Parse(record)
	if tell != nil {
		tell(emit)
	}
	return err
}

// Parse reads one line.
func (r *reader) Parse(record []byte) (tell func(emit func(*events.Event)), first error) {
	if err := adapter.CheckSize(record); err != nil {
		return nil, err
	}
	var lines []*line
	for len(record) > 0 {
		l, n, err := read(record, r.ignore)
		if err != nil && first == nil {
			first = err
		}
		if err != nil {
			n = adapter.ValueEnd(record)
		}
		if l != nil && err == nil {
			lines = append(lines, l)
		}
		record = bytes.TrimLeft(record[n:], " \t\r\n")
	}
	if len(lines) == 0 {
		return nil, first
	}
	return func(emit func(*events.Event)) {
		for _, l := range lines {
			if l.kind == "user" {
				r.user(l, r.agent(l), emit)
			} else {
				r.assistant(l, r.agent(l), emit)
			}
		}
	}, first
}

// Flush tells the calls of child agents of which nothing was seen.
func (r *reader) Flush(emit func(*events.Event)) error {
	var waiting []*use
	for _, u := range r.uses.All() {
		if u.delegates && u.child == nil {
			waiting = append(waiting, u)
		}
	}
	for _, u := range waiting {
		r.start(u, r.child(u, u.id), u.at, emit)
	}
	return nil
}

// agent finds out whose line it is.
func (r *reader) agent(l *line) *agent {
	key := l.session
	switch {
	case l.agent != "":
		key += "/" + l.agent
	case l.sidechain:
		// Old versions wrote child agents into the file of the session, each as a
		// chain of lines that begins without a parent.
		if parent, ok := r.lines.Get(l.parent); ok {
			key = parent
		} else {
			key += "/" + l.uuid
		}
	}
	if l.sidechain && l.agent == "" && l.uuid != "" {
		r.lines.Put(l.uuid, key)
	}
	a, ok := r.agents.Get(key)
	if !ok {
		a = &agent{session: l.session, party: events.Party{Session: adapter.Word([]byte(key), events.MaxID)}}
		if key == l.session {
			a.party.Agent = "claude-code"
		}
		r.agents.Put(key, a)
	}
	if l.prompt != "" && (!a.called || key == l.session) {
		a.prompt = l.prompt
	}
	return a
}

// begin fills what all events of a line share.
func (r *reader) begin(id string, kind events.Kind, at events.Stamp, by *agent) *events.Event {
	r.event = events.Event{ID: adapter.Word([]byte(id), events.MaxID), Source: r.source, Time: at, Kind: kind,
		ConversationID: by.session, Origin: events.OriginAgent}
	e := &r.event
	prompt := by.prompt
	if main, ok := r.agents.Get(by.session); ok && prompt == "" {
		prompt = main.prompt
	}
	for _, source := range r.correlation {
		switch {
		case source == events.CorrelationPrompt && prompt != "":
			e.CorrelationID = prompt
		case source == events.CorrelationSession || source == events.CorrelationConversation:
			e.CorrelationID = by.session
		default:
			continue
		}
		e.CorrelationSource = source
		break
	}
	return e
}

// user reads a line of the user's side: a prompt, or the results of tools.
func (r *reader) user(l *line, by *agent, emit func(*events.Event)) {
	results := false
	for i := range l.blocks {
		if b := &l.blocks[i]; b.kind == "tool_result" {
			results = true
			r.result(l, b, emit)
		}
	}
	if l.refused && by.party.Session == by.session {
		r.again(l, by, emit)
	}
	if results || l.meta {
		return
	}
	if by.party.Session != by.session {
		r.childPrompt(l, by, emit)
		return
	}
	id := cmp.Or(l.prompt, l.uuid)
	if l.prompt == by.asked {
		id = l.uuid // a further message under the same prompt
	}
	by.asked = l.prompt
	e := r.begin(id+"/prompt", events.AgentCall, l.at, by)
	e.Origin, e.To = events.OriginUser, by.party
	e.Content, e.Sim = l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// stopFeedback begins what a hook of the Stop moment says that does not let the turn end.
var stopFeedback = []byte("Stop hook feedback:")

// again tells that a hook calls the main agent once more that wanted to end.
func (r *reader) again(l *line, by *agent, emit func(*events.Event)) {
	e := r.begin(l.uuid+"/again", events.AgentCall, l.at, by)
	e.From, e.To, e.TransferMode, e.HadWork = events.Party{Agent: "stop-hook"}, by.party, events.ReturnToCaller, events.No
	e.Content, e.Sim = l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// childPrompt is what a child agent is told to do.
func (r *reader) childPrompt(l *line, by *agent, emit func(*events.Event)) {
	if !by.called {
		if u := r.waiting(by.session, l.said); u != nil {
			r.adopt(u, by)
			r.start(u, by, u.at, emit)
			return
		}
		// Its parent was not seen. All children are called by somebody of the session.
		by.parent, by.told = events.Party{Session: by.session, Agent: "claude-code"}, l.said
	}
	e := r.begin(by.party.Session+"/prompt", events.AgentCall, l.at, by)
	if by.called {
		e.ID = adapter.Word([]byte(l.uuid+"/prompt"), events.MaxID)
	}
	e.From, e.To, e.Content, e.Sim = by.parent, by.party, l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// waiting finds the tool use that calls an agent with this prompt and has no child
// yet: the first one, for equal calls are made in order.
func (r *reader) waiting(session string, prompt events.Hash) *use {
	for _, u := range r.uses.All() {
		if u.delegates && u.child == nil && u.by.session == session && u.prompt == prompt && !prompt.IsZero() {
			return u
		}
	}
	return nil
}

// adopt makes a the child of a tool use. It belongs to the flow of its parent.
func (r *reader) adopt(u *use, a *agent) {
	u.child = a
	a.parent, a.prompt = u.by.party, u.by.prompt
	if a.party.Agent == "" {
		a.party.Agent = u.kind
	}
}

// child makes up the agent of a tool use whose transcript was not seen.
func (r *reader) child(u *use, id string) *agent {
	key := u.by.session + "/" + id
	a, ok := r.agents.Get(key)
	if !ok {
		a = &agent{session: u.by.session, party: events.Party{Session: adapter.Word([]byte(key), events.MaxID)}}
		r.agents.Put(key, a)
	}
	r.adopt(u, a)
	return a
}

// start tells that a child was called.
func (r *reader) start(u *use, a *agent, at events.Stamp, emit func(*events.Event)) {
	if a.called {
		return
	}
	a.called, a.worked = true, false
	e := r.begin(u.id+"/call", events.AgentCall, at, u.by)
	e.From, e.To, e.Content, e.Sim = u.by.party, a.party, u.prompt, u.sim
	e.HadWork, e.TransferMode = u.hadWork, events.ReturnToCaller
	emit(e)
}

// result reads the result of a tool use. Without its use nothing is known of it.
func (r *reader) result(l *line, b *block, emit func(*events.Event)) {
	u, ok := r.uses.Get(b.id)
	if !ok || u.done {
		return
	}
	if u.delegates {
		if u.child == nil {
			r.start(u, r.child(u, cmp.Or(l.resultAgent, u.id)), u.at, emit)
		}
		if l.launched {
			return // it runs on, and its answer comes as a message
		}
	}
	u.done = true
	e := r.begin(u.id+"/result", events.ToolResult, l.at, u.by)
	e.Content, e.Sim = b.said, b.sim
	e.DurationMS = max(0, float64(l.at-u.at))
	if e.Status = events.StatusOK; b.failed {
		e.Status, e.ErrorType = events.StatusError, b.failure
	}
	if !u.delegates {
		e.From = u.by.party
		e.Tool = events.Tool{Name: u.tool, CallID: u.id, Server: u.server, ArgsHash: u.args, ResultSize: b.size}
		if b.notMade {
			e.Status, e.ErrorType, e.Content, e.Sim = events.StatusCancelled, "", events.Hash{}, events.Fingerprint{}
		}
		adapter.Acknowledge(e)
		emit(e)
		return
	}
	e.Kind, e.From, e.To = events.AgentReturn, u.child.party, u.by.party
	worked := u.child.worked || l.resultTools > 0
	e.HadWork = adapter.YesNo(worked)
	u.by.worked = u.by.worked || worked
	emit(e)
}

// assistant reads a line of the model: texts, tool uses, tokens.
func (r *reader) assistant(l *line, by *agent, emit func(*events.Event)) {
	id := cmp.Or(l.message, l.uuid)
	m, ok := r.messages.Get(id)
	if !ok {
		m = &message{}
		r.messages.Put(id, m)
	}
	r.tokens(l, id, m, by, emit)
	for i := range l.blocks {
		if b := &l.blocks[i]; b.kind == "tool_use" && b.id != "" && b.name != "" {
			r.use(l, b, by, emit)
		}
	}
	if main := by.party.Session == by.session; main && l.ended && !m.returned {
		m.returned = true
		e := r.begin(id+"/return", events.AgentReturn, l.at, by)
		e.From, e.Content, e.Sim, e.Status = by.party, l.said, l.sim, events.StatusOK
		e.HadWork = adapter.YesNo(by.worked)
		emit(e)
	}
}

func (r *reader) use(l *line, b *block, by *agent, emit func(*events.Event)) {
	if _, again := r.uses.Get(b.id); again {
		return // a forked session repeats what it was forked from
	}
	u := &use{id: b.id, tool: b.name, at: l.at, by: by}
	r.uses.Put(b.id, u)
	if delegates(b) {
		u.delegates, u.kind = true, cmp.Or(b.agentKind, "general-purpose")
		u.prompt, u.sim = b.said, b.sim
		u.hadWork = adapter.YesNo(by.worked)
		by.worked = false
		r.meet(u)
		return
	}
	by.worked = true
	u.args = b.args
	e := r.begin(b.id+"/call", events.ToolCall, l.at, by)
	e.From = by.party
	e.Tool = events.Tool{Name: b.name, CallID: b.id, ArgsHash: u.args, ArgsSize: b.argsSize, ArgsSim: b.sim, Type: "function"}
	if server, _, ok := strings.Cut(strings.TrimPrefix(b.name, "mcp__"), "__"); ok && strings.HasPrefix(b.name, "mcp__") {
		u.server = server
		e.Tool.Type, e.Tool.Server = "mcp", server
	}
	emit(e)
}

// meet links a tool use with a child whose transcript was read before.
func (r *reader) meet(u *use) {
	for _, a := range r.agents.All() {
		if a.session == u.by.session && a.told == u.prompt && !a.told.IsZero() {
			a.told = events.Hash{}
			r.adopt(u, a)
			return
		}
	}
}

// delegates tells whether a tool runs an agent.
func delegates(b *block) bool {
	return (b.name == "Agent" || b.name == "Task") && !b.said.IsZero()
}

// tokens tells what the lines of a message add to those read before: the same
// figures come with each of them, and grow while the message is written.
func (r *reader) tokens(l *line, id string, m *message, by *agent, emit func(*events.Event)) {
	if l.failed == "" && !l.usage.Known {
		return
	}
	e := r.begin(id+"/llm", events.LLMCall, l.at, by)
	e.From, e.Model, e.Provider = by.party, l.model, "anthropic"
	if l.failed != "" {
		e.ID, e.Status, e.ErrorType = adapter.Word([]byte(cmp.Or(l.uuid, id)+"/llm"), events.MaxID), events.StatusError, l.failed
		emit(e)
		return
	}
	e.Status = events.StatusOK
	grown := false
	add := func(told *int64, now int64) (more int64) {
		if now <= *told {
			return 0
		}
		more, *told, grown = now-*told, now, true
		return more
	}
	t, u := &m.told, &l.usage
	e.Usage = events.Usage{Known: true, Input: add(&t.Input, u.Input), Output: add(&t.Output, u.Output),
		CacheRead: add(&t.CacheRead, u.CacheRead), CacheCreation: add(&t.CacheCreation, u.CacheCreation)}
	if !grown {
		return
	}
	if m.parts++; m.parts > 1 {
		e.ID += "/" + strconv.Itoa(m.parts)
	}
	emit(e)
}
