// Package claudecode reads session transcripts of Claude Code, one file per session and per subagent. The lines of a
// session's files may come one file after the other or mixed.
//
// It reads the prompts, the uses of tools and their results, and the tokens of the model's answers.
// One flow is one prompt of the user (promptId), or the session if a version does not distinguish prompts.
// The main agent is the session, a child agent sessionId/agentId. A child is linked with the tool
// call that made it by the text of its prompt, or by the agentId in the result.
//
// Children with the same prompt cannot be distinguished by it: they are linked in the order of their calls.
// A child without a transcript appears only as its parent's tool use.
package claudecode

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/outcome"
	"weir/events/adapter/polling"
	"weir/events/adapter/usage"
)

// Format returns the transcript format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "claudecode",
		Title:   "Claude Code transcripts (sessions and their child agents), JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Turn is never reported: a prompt is a flow, and has no turns within it.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score looks at the first lines. Qwen Code writes lines of the same names, so what messages
// are made of decides.
func score(head *adapter.Head) adapter.Match {
	match := adapter.NoMatch
	for top := range head.Tops() {
		switch {
		case top.Has("type", "sessionId", "uuid", "parentUuid"):
			if isOthers(head.Bytes) {
				return adapter.NoMatch
			}
			return adapter.Certain
		// Lines that carry no message may stand first, and are much the same in other
		// programs.
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
//
// A Recent forgets what was touched longest ago: a result whose use is forgotten is lost.
const maxRemembered = 16384

// reader is one log, of one goroutine but for Parse, which only reads ignore.
type reader struct {
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	agents      *adapter.Recent[*agent] // by session, or session/agentId
	uses        *adapter.Recent[*use]   // by tool use id
	messages    *adapter.Recent[*message]
	lines       *adapter.Recent[string]   // agent of a line, by uuid: for side chains without agentId
	looks       *polling.Looks            // at what runs on
	machine     *adapter.Recent[struct{}] // prompts that a program wrote, by promptId
	echoes      *adapter.Echoes
	// event is the one that emit is given; it is good until the next.
	event events.Event
}

// use is a tool use and, when its tool runs an agent, the call of that agent.
//
// It is kept until it is forgotten and not only until its result, since a forked session
// writes it again.
type use struct {
	id, tool string
	server   string
	args     events.Hash
	at       events.Stamp
	// by is the agent that made it, and under whose name the result is emitted.
	by *agent

	delegates bool
	// prompt and sim are what an agent is asked to do, by which its transcript is found.
	prompt events.Hash
	sim    events.Fingerprint
	kind   string // of the agent that is called
	behind bool   // its caller does not wait for it
	// hadWork is whether the caller used a tool before this call, of which the child may be
	// found later.
	hadWork events.Tri
	child   *agent // once it is known
	// done distinguishes a result that was seen from one that comes again.
	done   bool
	intent outcome.Intent
}

// message is an answer of the model, which comes as several lines.
//
// Each line has the usage of the message so far, so the usage emitted before is subtracted.
type message struct {
	counted events.Usage // what the inferences emitted so far add up to
	// parts counts the events that report its usage, to give each an id of its own.
	parts    int
	returned bool
	called   bool // it has used a tool
}

func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "claude-code"), ignore: o.IgnoreArgs,
		correlation: o.CorrelationOr(events.CorrelationPrompt, events.CorrelationSession),
		agents:      adapter.NewRecent[*agent](most), uses: adapter.NewRecent[*use](most),
		messages: adapter.NewRecent[*message](most), lines: adapter.NewRecent[string](most), looks: polling.New(most), machine: adapter.NewRecent[struct{}](most), echoes: adapter.NewEchoes(most),
	}
}

// Decode reads one line, which may be two if an agent and its child write at the same time.
// It skips lines that do not concern agents and tools.
//
// A line that cannot be read is an error, but the others in the record are still emitted.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	deliver, err := r.Parse(record)
	if deliver != nil {
		deliver(emit)
	}
	return err
}

// Parse reads one line.
//
// It does not change the reader, so lines may be parsed concurrently. deliver changes it, and is
// called in the order of the lines.
func (r *reader) Parse(record []byte) (deliver func(emit func(*events.Event)), first error) {
	if err := adapter.CheckSize(record); err != nil {
		return nil, err
	}
	var lines []*line
	for len(record) > 0 {
		l, n, err := read(record, r.ignore)
		if err != nil && first == nil {
			first = err
		}
		// Behind a fault the next value of the record is looked for, since two processes that
		// write at one time end up on one line.
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
			r.echo(l)
			if l.kind == "user" {
				r.user(l, r.agent(l), emit)
			} else {
				r.assistant(l, r.agent(l), emit)
			}
		}
	}, first
}

// echo finds a prompt that a program sent again in the place of the user.
func (r *reader) echo(l *line) {
	switch {
	case l.kind == "user" && !l.meta && !l.sidechain && len(l.blocks) == 0 && !l.said.IsZero():
		if r.echoes.Prompt(l.session, l.echo, l.at) {
			l.machine, l.meta = true, true
		}
	case !l.sidechain:
		r.echoes.Passed(l.session, l.at)
	}
}

// Flush emits the calls of child agents that left no line.
//
// It is called when the files have ended. A child that was called and left no line still was a
// call.
func (r *reader) Flush(emit func(*events.Event)) error {
	var waiting []*use
	for _, u := range r.uses.All() {
		if u.delegates && u.child == nil {
			// They are collected first, because emitting them changes the reader's memory.
			waiting = append(waiting, u)
		}
	}
	for _, u := range waiting {
		r.start(u, r.child(u, u.id), u.at, emit)
	}
	return nil
}

// begin fills what all events of a line share.
//
// The event is the reader's own and is used again for the next, see adapter.Adapter.
func (r *reader) begin(id string, kind events.Kind, at events.Stamp, by *agent) *events.Event {
	r.event = events.Event{ID: adapter.Word([]byte(id), events.MaxID), Source: r.source, Time: at, Kind: kind,
		ConversationID: by.session, Origin: events.OriginAgent}
	e := &r.event
	// A child has no prompt of its own where the version does not write promptId on its lines.
	prompt := by.prompt
	if main, ok := r.agents.Get(by.session); ok && prompt == "" {
		prompt = main.prompt
	}
	// The first source of the options that has a value decides.
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
//
// l.meta lines are what the program says in the user's name (reminders, summaries), and are no
// prompt.
func (r *reader) user(l *line, by *agent, emit func(*events.Event)) {
	if l.compacted {
		r.looks.Forget(by.looker())
	}
	results := false
	for i := range l.blocks {
		if b := &l.blocks[i]; b.kind == "tool_result" {
			results = true
			r.result(l, b, emit)
		}
	}
	// A refusal counts for the main agent alone, whose turn it keeps from ending.
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
	// Versions without promptId distinguish prompts by their lines.
	id := cmp.Or(l.prompt, l.uuid)
	switch {
	case l.prompt != by.asked:
		by.asked, by.first = l.prompt, l.uuid
	case l.prompt != "" && l.uuid == by.first:
		return // the line is read again
	default:
		id = l.uuid // a further message under the same prompt
	}
	e := r.begin(id+"/prompt", events.AgentCall, l.at, by)
	// The user's word is the user's because the harness of the agent writes it, see decision
	// 59.
	e.Origin, e.To = events.OriginUser, by.party
	e.Content, e.Sim = l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// stopFeedback begins what a hook of the Stop moment says that does not let the turn end.
var stopFeedback = []byte("Stop hook feedback:")

// again emits that a hook calls the main agent once more when the agent wanted to end.
//
// A hook that never lets it end is a loop like any other, so the hook is emitted as an agent that
// calls.
func (r *reader) again(l *line, by *agent, emit func(*events.Event)) {
	e := r.begin(l.uuid+"/again", events.AgentCall, l.at, by)
	e.From, e.To, e.TransferMode, e.HadWork = events.Party{Agent: "stop-hook"}, by.party, events.ReturnToCaller, events.No
	e.Content, e.Sim = l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// result reads the result of a tool use. Without its use nothing is known of it.
func (r *reader) result(l *line, b *block, emit func(*events.Event)) {
	u, ok := r.uses.Get(b.id)
	if !ok || u.done {
		return
	}
	if u.delegates {
		// The child has no transcript that was read, or not yet; when it comes, it is the
		// party that was made up here if the result names it.
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
	// Lines have the times at which they were written, which may be out of order.
	e.DurationMS = max(0, float64(l.at-u.at))
	if e.Status = events.StatusOK; b.failed {
		e.Status, e.ErrorType = events.StatusError, b.failure
	}
	if !u.delegates {
		e.From = u.by.party
		e.Tool = events.Tool{Name: u.tool, CallID: u.id, Server: u.server, ArgsHash: u.args, ResultSize: b.size}
		// A call that was not made says nothing of its tool: its text is that of the program.
		if b.notMade {
			e.Status, e.ErrorType, e.Content, e.Sim = events.StatusCancelled, "", events.Hash{}, events.Fingerprint{}
		}
		// What tools only acknowledge by proves nothing when it comes again.
		adapter.Acknowledge(e, b.rejected)
		outcome.Set(e, u.intent, b.came)
		if o := e.Tool.Outcome; o != nil && o.Effect == events.EffectChanged && !l.state.IsZero() {
			o.State = l.state
		}
		r.looks.Result(u.by.looker(), u.id, b.looked, b.failed, b.said)
		emit(e)
		return
	}
	e.Kind, e.From, e.To = events.AgentReturn, u.child.party, u.by.party
	// Either the child was seen to use tools, or the result counts them.
	worked := u.child.worked || l.resultTools > 0
	e.HadWork = adapter.YesNo(worked)
	// An answer that took work is work of who asked for it (decision 4).
	u.by.worked = u.by.worked || worked
	emit(e)
}

// assistant reads a line of the model: texts, tool uses, tokens.
//
// A message comes as a line for each of its blocks.
func (r *reader) assistant(l *line, by *agent, emit func(*events.Event)) {
	id := cmp.Or(l.message, l.uuid)
	// A message that is met first here may have begun before the file was read; its usage then
	// counts from 0.
	m, ok := r.messages.Get(id)
	if !ok {
		m = &message{}
		r.messages.Put(id, m)
	}
	r.tokens(l, id, m, by, emit)
	for i := range l.blocks {
		if b := &l.blocks[i]; b.kind == "tool_use" && b.id != "" && b.name != "" {
			r.use(l, b, by, m.called, emit)
			m.called = true
		}
	}
	// Children answer by the result of their tool use, so only the main agent returns to the
	// user.
	if main := by.party.Session == by.session; main && l.ended && !m.returned {
		m.returned = true
		e := r.begin(id+"/return", events.AgentReturn, l.at, by)
		e.From, e.Content, e.Sim, e.Status = by.party, l.said, l.sim, events.StatusOK
		e.HadWork = adapter.YesNo(by.worked)
		emit(e)
	}
}

// use reads a tool use. A use that runs an agent is emitted as a call of that agent when the agent
// is known: by its own transcript, by its result, or by Flush.
//
// beside is set if the message used a tool before. The lines alone do not show it, because the
// result of that tool may be between them.
func (r *reader) use(l *line, b *block, by *agent, beside bool, emit func(*events.Event)) {
	if _, again := r.uses.Get(b.id); again {
		return // a forked session repeats what it was forked from
	}
	u := &use{id: b.id, tool: b.name, at: l.at, by: by}
	r.uses.Put(b.id, u)
	if delegates(b) {
		u.delegates, u.kind = true, cmp.Or(b.agentKind, "general-purpose")
		u.prompt, u.sim, u.behind = b.said, b.sim, b.background
		u.hadWork = adapter.YesNo(by.worked)
		by.worked = false
		// The transcript of the child may have been read before.
		r.meet(u)
		return
	}
	by.worked = true
	u.args, u.intent = b.args, b.intent
	e := r.begin(b.id+"/call", events.ToolCall, l.at, by)
	e.From = by.party
	e.Tool = events.Tool{Name: b.name, CallID: b.id, ArgsHash: u.args, ArgsSize: b.argsSize, ArgsSim: b.sim, Type: "function", Beside: beside,
		RetryOf: r.looks.Call(by.looker(), b.id, l.at, b.subject)}
	// Tools of MCP servers are named mcp__SERVER__TOOL.
	if server, _, ok := strings.Cut(strings.TrimPrefix(b.name, "mcp__"), "__"); ok && strings.HasPrefix(b.name, "mcp__") {
		u.server = server
		e.Tool.Type, e.Tool.Server = "mcp", server
	}
	emit(e)
}

// tokens emits what the lines of a message add to earlier ones. Each line repeats
// the same figures, and they grow while the message is written.
//
// Failed requests are emitted as well, each line as one.
func (r *reader) tokens(l *line, id string, m *message, by *agent, emit func(*events.Event)) {
	if l.failed == "" && !l.usage.Known {
		return
	}
	e := r.begin(id+"/llm", events.LLMCall, l.at, by)
	e.From, e.Model, e.Provider = by.party, l.model, "anthropic"
	if l.failed != "" {
		// Several failures may have one message id, or none.
		e.ID, e.Status, e.ErrorType = adapter.Word([]byte(cmp.Or(l.uuid, id)+"/llm"), events.MaxID), events.StatusError, l.failed
		emit(e)
		return
	}
	e.Status = events.StatusOK
	grown := false
	if e.Usage, grown = usage.More(&m.counted, &l.usage); !grown {
		return
	}
	// Only further ones are numbered: most messages are emitted at once.
	if m.parts++; m.parts > 1 {
		e.ID += "/" + strconv.Itoa(m.parts)
	}
	emit(e)
}
