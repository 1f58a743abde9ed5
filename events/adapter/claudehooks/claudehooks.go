// Package claudehooks reads the JSON that Claude Code passes to its hooks.
//
// It reads the user's prompts, the uses of tools before and after they happen, child agents (the tools
// Agent and Task) and the ends of turns. One flow is one prompt (prompt_id), or the session if a version
// does not distinguish prompts. The main agent is the session; a child agent is the use that runs it.
//
// A hook's input has no time. A member time or timestamp that the hook adds is used; otherwise the lines
// are two seconds apart. Hooks receive no tokens: a member model_calls that the hook adds is used (package
// lastcalls). The log lacks everything that a hook is not registered for. A hook's input does not name the opener of the session either: a member
// parent_correlation_id that the hook adds is used. A session without one is the root of its tree.
package claudehooks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/lastcalls"
	"weir/events/adapter/outcome"
	"weir/events/adapter/pairing"
	"weir/events/adapter/polling"
	"weir/events/adapter/printed"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// Format returns the format of hook inputs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "claudehooks",
		Title:   "inputs of Claude Code hooks, one per line",
		Framing: adapter.Lines,
		Score:   adapter.CertainWith("hook_event_name", "session_id"),
		New:     newReader,
		// Results are there if PostToolUse is registered, times and tokens if the hook adds them.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Sometimes, Starts: adapter.Always, Work: adapter.Always},
	}
}

// maxRemembered bounds sessions and open uses of tools, each.
const maxRemembered = 4096

// reader keeps what hooks do not report on each input.
type reader struct {
	pair *pairing.Pairer
	// The clock serves all sessions, as their lines stand in one file.
	clock    adapter.Clock
	sessions *adapter.Recent[*session]
	// Uses of tools that run agents only; the pairing knows the others.
	uses *adapter.Recent[*use]
	// machine are prompts that a program wrote in the place of the user, by prompt_id.
	machine *adapter.Recent[struct{}]
	echoes  *adapter.Echoes
	// children are the uses that run them, by session and agent_id.
	children *adapter.Recent[*use]
	// looks are at what runs on.
	looks *polling.Looks
	// counted are the model calls that were emitted last, by session and agent_id.
	counted *adapter.Recent[counted]
}

// counted is the model call of an agent that was emitted last.
type counted struct {
	id    string
	usage events.Usage // of the events so far
	parts int          // events
}

// session is what is remembered of one.
//
// Without ids of prompts and of uses it counts them, so that ids of events differ.
type session struct {
	prompt  string // the last one's id
	prompts int    // that came without an id
	uses    int    // of tools, that came without an id
	// open joins PreToolUse with PostToolUse in versions without tool_use_id, as if one tool
	// ran at a time.
	open string // the last of them, until its result is there
	// worked keeps an end that came of work from being a repetition.
	worked bool   // a tool was used since the last end of a turn
	ended  string // the turn that ended last, and how often, which Stop hooks bring about
	ends   int
	// content and sim are what a Stop hook may not accept.
	content events.Hash // of what the agent said then
	sim     events.Fingerprint
	// started are uses that run an agent of which no input has come yet, the oldest first.
	started []*use
}

// maxStarted bounds session.started.
const maxStarted = 32

// use is a use of a tool that runs an agent.
//
// It is kept by the id of the use, and by the child while that runs on by itself.
type use struct {
	from, to events.Party
	kind     string // of the child, as its inputs name it
}

// newReader says that hooks see all work, as they do if they are registered for tools.
func newReader(o adapter.Options) adapter.Adapter {
	r := &reader{
		pair:     pairing.New(o, "claude-code-hooks", events.CorrelationExplicit, events.CorrelationPrompt, events.CorrelationSession),
		sessions: adapter.NewRecent[*session](o.HeldOr(maxRemembered)), uses: adapter.NewRecent[*use](o.HeldOr(maxRemembered)),
		children: adapter.NewRecent[*use](o.HeldOr(maxRemembered)), machine: adapter.NewRecent[struct{}](o.HeldOr(maxRemembered)),
		echoes:  adapter.NewEchoes(o.HeldOr(maxRemembered)),
		looks:   polling.New(o.HeldOr(maxRemembered)),
		counted: adapter.NewRecent[counted](o.HeldOr(maxRemembered)),
	}
	r.pair.Work = true
	return r
}

// line is one input of a hook, as far as it is of use.
//
// input and said alias the record, or were copied out of it.
type line struct {
	event, session, prompt, correlation string
	parent, root                        string // flows: who opened the session, and whose budget it shares
	agent, kind                         string // of a child
	tool, call                          string
	input                               []byte // JSON
	said                                []byte // prompt, answer or result
	answer                              []byte // of an agent that a tool ran, out of its result
	failed                              bool
	async                               bool
	prompted                            bool   // it says of which prompt it is, which may be none
	again                               bool   // a Stop hook did not let the last turn end
	child                               string // agent that a tool ran
	at                                  events.Stamp
	model                               string           // Codex names it
	calls                               []lastcalls.Call // the last model calls of the agent, the oldest first
}

// read reads one input. Names are those of Claude Code's hooks; the program that writes the inputs
// down adds the time.
func read(record []byte) (*line, error) {
	l := &line{}
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "hook_event_name":
			l.event = string(c.Text())
		case "session_id":
			l.session = id(c)
		case "prompt_id":
			// An input without prompt_id leaves the prompt as it was, one with an empty id
			// ends it.
			l.prompt, l.prompted = id(c), true
		case "correlation_id":
			l.correlation = id(c)
		case "parent_correlation_id":
			l.parent = id(c)
		case "root_correlation_id":
			l.root = id(c)
		case "agent_id":
			l.agent = id(c)
		case "agent_type":
			l.kind = adapter.Word(c.Text(), events.MaxID)
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case lastcalls.Member:
			l.calls = lastcalls.Decode(c)
		case "tool_name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "tool_use_id":
			l.call = id(c)
		case "tool_input":
			l.input = c.Raw()
		case "tool_response":
			l.readResponse(c)
		// It is true in a turn that a Stop hook made go on.
		case "stop_hook_active":
			l.again = c.Bool()
		case "prompt", "last_assistant_message", "error":
			l.said = c.Text()
		case "time", "timestamp", "ts":
			l.at, _ = c.Stamp()
		}
	}
	c.End()
	switch {
	case c.Err() != nil:
		return nil, c.Err()
	case l.event == "":
		return nil, adapter.Missing("hook_event_name", "want hook_event_name on every input of a hook")
	case l.session == "":
		return nil, adapter.Missing("session_id", "want session_id on every input of a hook")
	}
	return l, nil
}

// id leaves room for what is put behind it.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2-16) }

// readResponse reads what a tool gave back: a text, a list of blocks, or an object of
// the tool's own.
func (l *line) readResponse(c *jsonwalk.Cursor) {
	raw := c.Raw()
	l.said = raw
	// The object is read for how it went; as the result it counts whole.
	inner := jsonwalk.New(raw)
	// A text, or an object of the tool's own, which counts as it is.
	switch inner.Peek() {
	case '"':
		l.said = inner.Text()
	case '{':
		for inner.Object(); inner.Member(); {
			switch string(inner.Key()) {
			case "is_error", "isError":
				l.failed = inner.Bool()
			case "status":
				l.async = string(inner.Text()) == "async_launched"
			case "agentId":
				l.child = id(inner)
			case "content":
				l.answer = inner.Texts()
			}
		}
	}
}

// Decode reads one input of a hook. It skips inputs that do not concern agents and tools.
//
// Inputs come in the order in which hooks ran; those of several sessions may be interleaved.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	s, ok := r.sessions.Get(l.session)
	if !ok {
		s = &session{}
		r.sessions.Put(l.session, s)
	}
	l.at = r.clock.At(l.at)
	if l.event != "UserPromptSubmit" {
		r.echoes.Passed(l.session, l.at)
	}
	r.spent(l, s, emit) // before what the model then did: a check counts it
	switch l.event {
	case "UserPromptSubmit":
		again := r.echoes.Prompt(l.session, adapter.EchoOf(l.said), l.at)
		if (again || adapter.MachinePrompt(l.said)) && (s.prompt != "" || s.prompts > 0) {
			if l.prompt != "" {
				r.machine.Put(l.prompt, struct{}{}) // it belongs to what the user asked for
			}
			return nil
		}
		r.prompt(l, s, emit)
	case "PreToolUse":
		s.worked = true
		r.before(l, s, emit)
	case "PostToolUse", "PostToolUseFailure":
		s.worked = true
		// A failure has a hook of its own in newer versions, and a member of the result in
		// older ones.
		l.failed = l.failed || l.event == "PostToolUseFailure"
		r.after(l, s, emit)
	case "SubagentStart":
		r.actor(l, s)
	case "SubagentStop":
		r.childStop(l, s, emit)
	case "Stop":
		r.stop(l, s, emit)
	}
	return nil
}

// spent emits the model calls since the last input of the agent. A call of which more tokens were reported
// since is emitted again with the difference.
//
// Of an agent without an earlier input only the last call is emitted: the others may belong to an earlier
// run. A prompt emits the calls of the turn before it, and none when it begins the session.
func (r *reader) spent(l *line, s *session, emit func(*events.Event)) {
	key := l.session + "/" + l.agent
	last, known := r.counted.Get(key)
	calls := l.calls
	switch i := slices.IndexFunc(calls, func(c lastcalls.Call) bool { return c.ID == last.id }); {
	case !known && l.event == "UserPromptSubmit":
		last = counted{}
		if n := len(calls); n > 0 {
			last = counted{id: calls[n-1].ID, usage: calls[n-1].Usage, parts: 1}
		}
		r.counted.Put(key, last)
		return
	case len(calls) == 0:
		return
	case !known:
		calls = calls[len(calls)-1:]
	case i >= 0:
		calls = calls[i:]
	}
	prompt := l.prompt
	if l.event == "UserPromptSubmit" {
		l.prompt, l.prompted = s.prompt, false // of the turn before
	}
	for i := range calls {
		if calls[i].ID != last.id {
			last = counted{id: calls[i].ID}
		}
		r.call(l, s, &calls[i], &last, emit)
	}
	if l.event == "UserPromptSubmit" {
		l.prompt, l.prompted = prompt, prompt != ""
	}
	r.counted.Put(key, last)
}

// call emits what a model call has used more than was emitted of it.
func (r *reader) call(l *line, s *session, c *lastcalls.Call, last *counted, emit func(*events.Event)) {
	more, grown := usage.More(&last.usage, &c.Usage)
	if !grown {
		return
	}
	last.parts++
	what := l.session + "/" + c.ID + "/llm"
	if last.parts > 1 {
		what += "/" + strconv.Itoa(last.parts)
	}
	e := r.begin(what, events.LLMCall, l, s)
	e.From, e.Status, e.Usage = r.actor(l, s), events.StatusOK, more
	e.Model, e.Provider = cmp.Or(c.Model, l.model), c.Provider
	r.pair.Pair(e, emit)
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// begin fills what all events of an input share.
func (r *reader) begin(what string, kind events.Kind, l *line, s *session) *events.Event {
	if _, machine := r.machine.Get(l.prompt); l.prompted && !machine {
		// The prompt stays that of the session until another comes.
		s.prompt = l.prompt
	}
	names := adapter.Names{events.CorrelationExplicit: l.correlation, events.CorrelationPrompt: s.prompt, events.CorrelationSession: l.session}
	e := r.pair.Begin(what, kind, l.at, &names)
	e.ConversationID = l.session
	e.ParentCorrelationID, e.RootCorrelationID = l.parent, l.root
	if l.parent == "" && l.root == "" {
		// A session that no other one opened is the root of a tree. Its prompts count against it, and so
		// do the sessions that it opens, which know only its id.
		e.RootCorrelationID = l.session
	}
	if kind == events.AgentCall {
		e.Origin = events.OriginAgent
	}
	return e
}

// mainAgent is the main agent, which is the session.
func mainAgent(l *line) events.Party { return events.Party{Session: l.session, Agent: "claude-code"} }

// actor is the agent in which the hook ran.
//
// A child is known by agent_id, which the main agent does not have. Its first input binds it to
// the use that runs it: the oldest of its kind without a child.
func (r *reader) actor(l *line, s *session) events.Party {
	if l.agent == "" {
		return mainAgent(l)
	}
	key := l.session + "/" + l.agent
	if u, ok := r.children.Get(key); ok {
		return u.to
	}
	i := slices.IndexFunc(s.started, func(u *use) bool { return u.kind == kindOf(l.kind) })
	if i < 0 {
		return events.Party{Agent: kindOf(l.kind)}
	}
	u := s.started[i]
	s.started = slices.Delete(s.started, i, i+1)
	r.children.Put(key, u)
	return u.to
}

// kindOf is the kind of an agent.
func kindOf(kind string) string { return cmp.Or(kind, "general-purpose") }

// child is the agent that a use runs. Each use runs another one, also where kind and brief are the same.
func child(session, kind, call string) events.Party {
	return events.Party{Agent: kindOf(kind), Session: adapter.Word([]byte(session+"/"+kindOf(kind)+"/"+call), events.MaxID)}
}

// prompt emits the user's message. Hooks are run by the harness, so the message is the user's own.
func (r *reader) prompt(l *line, s *session, emit func(*events.Event)) {
	what := l.prompt
	if what == "" {
		s.prompts++
		what = l.session + "/" + strconv.Itoa(s.prompts)
	}
	e := r.begin(what+"/prompt", events.AgentCall, l, s)
	e.Origin, e.To = adapter.OriginOf(l.said), mainAgent(l)
	pairing.Said(e, l.said)
	r.pair.Pair(e, emit)
}

// callID is the id of a use of a tool: what the hook says, else a number that counts
// the uses of the session.
func (l *line) callID(s *session) string {
	if l.call != "" {
		return l.call
	}
	// Whatever comes after a use belongs to the one that is open.
	if l.event != "PreToolUse" && s.open != "" {
		open := s.open
		s.open = ""
		return open
	}
	s.uses++
	s.open = l.session + "/use/" + strconv.Itoa(s.uses)
	return s.open
}

// delegates reports whether a tool runs an agent, by its current and its former name.
func delegates(tool string) bool { return tool == "Agent" || tool == "Task" }

// before emits that a tool is about to be used.
func (r *reader) before(l *line, s *session, emit func(*events.Event)) {
	if l.tool == "" {
		return
	}
	r.use(l, s, l.callID(s), emit)
}

// use emits a call of a tool or of an agent.
func (r *reader) use(l *line, s *session, call string, emit func(*events.Event)) {
	if delegates(l.tool) {
		// An agent that is run by a tool is emitted as a call of an agent, not of the tool.
		kind, prompt, background := readTask(l.input)
		u := &use{from: r.actor(l, s), to: child(l.session, kind, call), kind: kindOf(kind)}
		r.uses.Put(call, u)
		if len(s.started) == maxStarted {
			s.started = s.started[1:]
		}
		s.started = append(s.started, u)
		e := r.begin(call+"/call", events.AgentCall, l, s)
		e.From, e.To, e.TransferMode = u.from, u.to, events.ReturnToCaller
		e.Background = background
		pairing.Said(e, prompt)
		r.pair.Pair(e, emit)
		return
	}
	e := r.begin(call+"/call", events.ToolCall, l, s)
	e.From = r.actor(l, s)
	e.Tool = tool(l.tool, call)
	r.pair.Args(e, l.input)
	e.Tool.ArgsSim = fingerprint.ArgsText(l.input)
	e.Tool.RetryOf = r.looks.Call(looker(l), call, e.Time, polling.Of(l.tool, l.input, e.Tool.ArgsHash))
	r.pair.Pair(e, emit)
}

// tool is the tool of that name. Tools of MCP servers are named mcp__SERVER__TOOL.
func tool(name, call string) events.Tool {
	t := events.Tool{Name: name, CallID: call, Type: "function"}
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		if server, _, ok := strings.Cut(rest, "__"); ok {
			t.Type, t.Server = "mcp", server
		}
	}
	return t
}

// after emits the result of a use.
func (r *reader) after(l *line, s *session, emit func(*events.Event)) {
	if l.tool == "" {
		return
	}
	call := l.callID(s)
	if delegates(l.tool) {
		u, ok := r.uses.Get(call)
		// Without a PreToolUse hook the call is emitted with its result.
		if !ok { // no hook ran before it
			r.use(l, s, call, emit)
			u, _ = r.uses.Get(call)
		}
		r.uses.Delete(call)
		s.started = slices.DeleteFunc(s.started, func(other *use) bool { return other == u && !l.async })
		// The result only says that the child was started.
		if l.async && l.child != "" {
			r.uses.Put(l.session+"/"+l.child, u) // it runs on
			return
		}
		r.back(call+"/result", l, s, u, emit)
		return
	}
	e := r.begin(call+"/result", events.ToolResult, l, s)
	e.From, e.Tool = r.actor(l, s), tool(l.tool, call)
	r.pair.Args(e, l.input)
	if l.failed {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(l.said), "error")
	}
	said := l.text()
	pairing.Returned(e, said)
	// The hook of a failure is another one, so the status shows which results are errors.
	e.Tool.ResultSize = int64(max(1, len(said)))
	r.looks.Result(looker(l), call, polling.Read(said), l.failed, e.Content)
	came := outcome.Read(said)
	adapter.Acknowledge(e, adapter.Rejects(said) || came.Refuses())
	// Edits that only say that they were made are known by their outcome.
	outcome.Set(e, outcome.Of(l.tool, l.input), came)
	r.pair.Pair(e, emit)
}

// text returns what a result says: what a command printed, else all of it.
func (l *line) text() []byte {
	if o := printed.Of(l.said); o.Framed {
		return o.Text
	}
	return l.said
}

// looker is who looks at things: an agent of a session.
func looker(l *line) string { return l.session + "\x00" + l.agent }

// back emits that a child answered.
func (r *reader) back(what string, l *line, s *session, u *use, emit func(*events.Event)) {
	e := r.begin(what, events.AgentReturn, l, s)
	e.From, e.To = u.to, u.from
	// Beside the answer the result has figures and the id of the agent, which differ each time.
	if len(l.answer) == 0 {
		l.answer = l.said
	}
	pairing.Said(e, l.answer)
	if l.failed {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(l.said), "error")
	}
	r.pair.Pair(e, emit)
}

// childStop emits the answer of a child that ran on by itself.
//
// Without agent_id the child is unknown.
func (r *reader) childStop(l *line, s *session, emit func(*events.Event)) {
	key := l.session + "/" + l.agent
	if u, ok := r.uses.Get(key); ok && l.agent != "" {
		r.uses.Delete(key)
		r.back(l.agent+"/return", l, s, u, emit)
	}
}

// stop emits that the main agent ended its turn. A Stop hook may make it end several times.
func (r *reader) stop(l *line, s *session, emit func(*events.Event)) {
	what := cmp.Or(l.prompt, s.prompt)
	if what == "" {
		what = l.session + "/" + strconv.Itoa(s.prompts)
	}
	if s.ended != what {
		s.ended, s.ends = what, 0
	}
	// Each end of one turn has an id of its own.
	if s.ends++; s.ends > 1 {
		what += "/" + strconv.Itoa(s.ends)
	}
	// It had to go on, and did nothing.
	if l.again && !s.worked {
		r.again(what, l, s, emit)
	}
	s.worked = false
	e := r.begin(what+"/return", events.AgentReturn, l, s)
	e.From = mainAgent(l)
	pairing.Said(e, l.said)
	if s.content, s.sim = e.Content, e.Sim; len(l.said) == 0 {
		s.content, s.sim = events.Hash{}, events.Fingerprint{} // what is not reported is not the same again
	}
	r.pair.Pair(e, emit)
}

// stopHook is the caller that calls the main agent again when it wanted to end.
const stopHook = "stop-hook"

// again emits that a hook had called the main agent again, which then ended without any tool. If the
// agent used tools, their events show the outcome. Hooks do not report the hook's own text, so the event
// has the content that the hook did not accept.
func (r *reader) again(what string, l *line, s *session, emit func(*events.Event)) {
	e := r.begin(what+"/again", events.AgentCall, l, s)
	e.From, e.To, e.TransferMode = events.Party{Agent: stopHook}, mainAgent(l), events.ReturnToCaller
	e.Content, e.Sim = s.content, s.sim
	r.pair.Pair(e, emit)
}

// readTask reads which kind of agent is given what, and whether its caller goes on meanwhile.
func readTask(input []byte) (kind string, prompt []byte, background bool) {
	c := jsonwalk.New(input)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "subagent_type":
			kind = adapter.Word(c.Text(), events.MaxID)
		case "prompt":
			prompt = c.Text()
		case "run_in_background":
			background = c.Bool()
		}
	}
	return kind, prompt, background
}
