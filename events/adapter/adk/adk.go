// Package adk reads sessions of Google's Agent Development Kit.
//
// It reads the author, branch and time of an event, its texts, its calls of functions and their
// responses, and its tokens. One flow is one invocation, that is, one message of the user.
// An agent hands over to another by transfer_to_agent. If the author changes without that, a workflow
// agent passed control on, which leaves no event. Agents in parallel branches do not call each other:
// their branch names the workflow agent that did.
//
// Events do not mark the text that is the answer. Only the text that no agent took up goes to the user,
// so the last text is held back until it is known. Events do not show when a workflow agent began or
// ended either. Parts of a streamed text are left out, since the whole text follows.
package adk

import (
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
)

// Format returns the format of ADK sessions and events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "adk",
		Title:   "Google ADK events, one per line, or sessions as documents",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Caller is known but for workflow agents, and starts but for texts: an event is
		// written when the model has answered.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Sometimes, Turn: adapter.Always,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Sometimes, Work: adapter.Always},
	}
}

// score recognizes events by author and invocation, and sessions by their events beside the names
// of app and user.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		isEvent := top.Has("author") && (top.Has("invocationId") || top.Has("invocation_id"))
		isSession := top["events"] == "[" && (top.Has("appName", "userId") || top.Has("app_name", "user_id"))
		if isEvent || isSession {
			return adapter.Certain
		}
		if top["events"] == "[" && top.Has("id") && (top.Has("context") || top.Has("state")) {
			return adapter.Maybe // sessions of 2024
		}
	}
	return adapter.NoMatch
}

const (
	maxRemembered = 1024 // invocations
	maxOpen       = 64   // open calls, parallel branches and agents of one invocation, each
)

// reader holds what is known of the last invocations. The events of a session come in order,
// but those of parallel branches in between each other.
type reader struct {
	// source and correlation are those of the options, or ADK's own.
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	repeats     *adapter.Repeats
	invocations *adapter.Recent[*invocation]
	sessions    *adapter.Recent[*invocation] // the last one of each
	event       events.Event
}

// invocation is what follows from one message of the user.
//
// What is remembered of it is bounded by maxOpen, whatever its events say.
type invocation struct {
	id, session string
	// asked is kept because the message does not say which agent gets it.
	asked    *message         // the user's, until it is known who gets it
	branches map[string]*turn // by branch; the main one is ""
	worked   adapter.Work     // agents that used tools since they were called, or since they called an agent
	// open are calls in the order in which they were made; the oldest goes for a new one.
	open []call
}

// turn is who is at work in a branch.
//
// There is one for each branch; agents of different branches do not hand over to each other.
type turn struct {
	agent string
	at    events.Stamp // of its last event
	next  string       // who was handed over to and did not show up yet
	said  *message     // what may be the answer to the user
	from  string       // the workflow agent of a parallel branch
}

// call is a tool call without its result.
//
// id is the model's. Some models leave it empty; then the name identifies the call.
type call struct {
	id, by, target string
	at             events.Stamp
	tool           events.Tool
}

func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "adk"), ignore: o.IgnoreArgs,
		correlation: o.CorrelationOr(events.CorrelationPrompt, events.CorrelationConversation),
		repeats:     adapter.NewRepeats(o),
		invocations: adapter.NewRecent[*invocation](most), sessions: adapter.NewRecent[*invocation](most),
	}
}

// Decode reads one event or one session.
//
// A record that came before is passed over as a whole, see adapter.Repeats. A broken event in
// a session refuses the session.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	read, err := read(record, r.ignore)
	if err != nil {
		return err
	}
	// Only what could be read counts as having come.
	if r.repeats.Again(record) {
		return nil
	}
	for _, m := range read {
		r.take(m, emit)
	}
	return nil
}

// Flush emits the answers that were held back.
//
// Invocations stay known: a later event continues them.
func (r *reader) Flush(emit func(*events.Event)) error {
	for _, v := range r.invocations.All() {
		r.end(v, emit)
	}
	return nil
}

// end emits the remaining output of an invocation that has ended.
//
// Only the main branch answers to the user; the others answer to the agent that runs them, as they speak.
func (r *reader) end(v *invocation, emit func(*events.Event)) {
	if main := v.branches[""]; main != nil && main.said != nil {
		r.answer(v, main.said, "", emit)
		main.said = nil
	}
}

// take reads one event: who speaks, what was used up, the calls and results, and then the
// text.
func (r *reader) take(m *message, emit func(*events.Event)) {
	v, ok := r.invocations.Get(m.invocation)
	if !ok {
		v = &invocation{id: m.invocation, branches: map[string]*turn{}, worked: adapter.NewWork(maxOpen)}
		// An invocation that is forgotten has ended, as far as is known.
		if old, full := r.invocations.Put(m.invocation, v); full {
			r.end(old, emit)
		}
	}
	// Only sessions as documents name the session.
	v.session = cmp.Or(m.session, v.session)
	// Results of tools may come in the user's name, and are none of the user's words.
	if m.author == "user" && !m.hasResults() {
		r.user(v, m, emit)
		return
	}
	if m.author != "user" {
		r.arrive(v, m, emit)
		r.tokens(v, m, emit)
	}
	for i := range m.parts {
		switch p := &m.parts[i]; p.kind {
		case functionCall:
			r.call(v, m, p, i, emit)
		case functionResponse:
			r.result(v, m, p, emit)
		}
	}
	if m.author != "user" {
		r.say(v, m, emit)
	}
}

// user keeps the user's message until the first agent shows up.
//
// A new message ends what the last invocation of the session left open.
func (r *reader) user(v *invocation, m *message, emit func(*events.Event)) {
	if before, ok := r.sessions.Get(v.session); ok {
		r.end(before, emit)
	}
	r.sessions.Put(v.session, v)
	// The same invocation may be gone on with by a further message; nothing of before counts
	// then.
	clear(v.branches)
	v.worked = adapter.NewWork(maxOpen)
	v.open, v.asked = v.open[:0], m
}

// arrive determines how control came to the author of an event.
//
// It runs before anything else of the event is emitted, so that the call precedes the agent's
// actions.
func (r *reader) arrive(v *invocation, m *message, emit func(*events.Event)) {
	// The user's message goes to the first agent that appears.
	if v.asked != nil {
		e := r.begin(v, v.asked, "call", events.AgentCall)
		// Of branches the first agent is the one that all of them have in common.
		first, _, _ := strings.Cut(m.branch, ".") // the agent that runs the branches
		e.Origin, e.To, e.Content, e.Sim = events.OriginUser, agent(cmp.Or(first, m.author)), v.asked.said, v.asked.sim
		v.asked = nil
		emit(e)
	}
	b := v.branches[m.branch]
	switch {
	case b == nil:
		b = v.enter(m)
	// Times are compared within one branch only.
	case m.at < b.at:
		return // it comes late, or again
	}
	from := b.agent
	b.agent, b.at = m.author, m.at
	switch {
	// The first of a branch, or the same agent going on.
	case from == "" || from == m.author:
	case b.next == m.author: // it was emitted when control was handed over
	default:
		e := r.begin(v, m, "call", events.AgentCall)
		e.From, e.To, e.TransferMode = agent(from), agent(m.author), events.PassControl
		if b.said != nil {
			e.Content, e.Sim = b.said.said, b.said.sim
		}
		// An agent that a workflow agent runs in a branch answers to it.
		if b.from == from {
			e.TransferMode = events.ReturnToCaller
		}
		// Leaving uses up what was worked, see decision 4.
		v.leave(from, e)
		emit(e)
	}
	// Earlier text was emitted by then, as the message of the handover.
	b.next, b.said = "", nil
}

// enter begins a branch.
//
// It may begin by a handover from a branch above, or because a workflow agent runs it.
func (v *invocation) enter(m *message) *turn {
	// Bounded; what is forgotten is who was at work.
	if len(v.branches) >= maxOpen {
		clear(v.branches)
	}
	b := &turn{}
	above := ""
	// The innermost branch above counts, since its name is the longest.
	for branch, t := range v.branches {
		if t.next == m.author && strings.HasPrefix(m.branch, branch) && len(branch) >= len(above) {
			above, b.agent, b.next = branch, t.agent, m.author // handed over from there
		}
	}
	if parent := parentOf(m.branch, m.author); b.next == "" && parent != "" {
		b.agent, b.from = parent, parent
	}
	v.branches[m.branch] = b
	return b
}

// parentOf names the workflow agent that runs a parallel branch: a branch is the
// names of the agents from the outermost to its own.
func parentOf(branch, author string) string {
	before, ok := strings.CutSuffix(branch, "."+author)
	if !ok {
		return ""
	}
	return before[strings.LastIndexByte(before, '.')+1:]
}

// leave records whether an agent did work before it handed over.
func (v *invocation) leave(agent string, e *events.Event) {
	v.worked.Set(e, agent)
	v.worked.Spend(agent)
}

// say keeps what may be the answer, and gives that of a parallel branch to its
// workflow agent.
//
// Only a text without calls can be an answer; a failure is one without a text.
func (r *reader) say(v *invocation, m *message, emit func(*events.Event)) {
	if m.hasCalls() || m.hasResults() || m.said.IsZero() && m.failure == "" {
		return
	}
	b := v.branches[m.branch]
	// An event that came late, see arrive.
	if m.at < b.at {
		return
	}
	if b.from != "" {
		r.answer(v, m, b.from, emit)
		// The workflow agent has the word again.
		b.agent = b.from
		return
	}
	b.said = m
}

// answer emits a return; to is "" for the user.
func (r *reader) answer(v *invocation, m *message, to string, emit func(*events.Event)) {
	e := r.begin(v, m, "return", events.AgentReturn)
	e.From, e.Content, e.Sim = agent(m.author), m.said, m.sim
	if to != "" {
		e.To = agent(to)
	}
	if e.Status = events.StatusOK; m.failure != "" {
		e.Status, e.ErrorType = events.StatusError, m.failure
	}
	v.leave(m.author, e)
	emit(e)
}

// call emits a use of a tool. Its arguments were hashed when the event was read.
func (r *reader) call(v *invocation, m *message, p *part, i int, emit func(*events.Event)) {
	if len(v.open) >= maxOpen {
		v.open = v.open[1:]
	}
	// Without an id of the model's the place in the event names the call.
	id := cmp.Or(p.id, m.id+"/"+strconv.Itoa(i))
	// id stays the model's own, by which the result finds it.
	c := call{id: p.id, by: m.author, target: p.target, at: m.at, tool: events.Tool{Name: p.name, CallID: id, Type: "function", ArgsHash: p.args}}
	v.open = append(v.open, c)
	if isTransfer(p.name) {
		return // it is emitted when the transfer is confirmed
	}
	v.worked.Note(m.author, events.Yes)
	e := r.begin(v, m, strconv.Itoa(i)+"/call", events.ToolCall)
	e.From, e.Tool = agent(m.author), c.tool
	e.Tool.ArgsSize = p.size
	emit(e)
}

// isTransfer reports whether a tool hands over to another agent, by its current names
// and those of 2024.
func isTransfer(tool string) bool {
	return tool == "transfer_to_agent" || tool == "transfer_to_other_agent"
}

// result reads the response to a call. Without its call nothing is known of it.
// The first that fits, since equal calls are answered in order.
func (r *reader) result(v *invocation, m *message, p *part, emit func(*events.Event)) {
	for i := range v.open {
		c := v.open[i]
		if c.tool.Name != p.name || c.id != p.id {
			continue
		}
		v.open = append(v.open[:i], v.open[i+1:]...)
		if isTransfer(c.tool.Name) {
			// The event's action is what was done, the argument what was asked for.
			r.transfer(v, m, cmp.Or(m.transfer, c.target), emit)
			return
		}
		e := r.begin(v, m, strconv.Itoa(p.index)+"/result", events.ToolResult)
		// A result is never before its call.
		e.Time = max(m.at, c.at)
		e.DurationMS = float64(e.Time - c.at)
		e.From, e.Tool = agent(c.by), c.tool
		e.Content, e.Sim = p.said, p.sim
		if e.Status = events.StatusOK; p.failure != "" {
			e.Status, e.ErrorType = events.StatusError, p.failure
		}
		new(deed.Call).End(nil, e, "", "", &p.came)
		emit(e)
		return
	}
}

// transfer emits that an agent handed over to another.
//
// The agent appears with its first event, whose call was then already emitted.
func (r *reader) transfer(v *invocation, m *message, to string, emit func(*events.Event)) {
	b := v.branches[m.branch]
	// The response may come in the user's name, in a branch without a known agent.
	if to == "" || b == nil {
		return
	}
	b.next = to
	e := r.begin(v, m, "transfer", events.AgentCall)
	e.From, e.To, e.TransferMode = agent(m.author), agent(to), events.PassControl
	v.leave(m.author, e)
	emit(e)
}

// tokens emits the usage of one answer of the model.
func (r *reader) tokens(v *invocation, m *message, emit func(*events.Event)) {
	if !m.usage.Known {
		return
	}
	e := r.begin(v, m, "llm", events.LLMCall)
	e.From, e.Model, e.Usage, e.Status = agent(m.author), m.model, m.usage, events.StatusOK
	emit(e)
}

// agent is a party: ADK knows its agents by name.
func agent(name string) events.Party { return events.Party{Agent: name} }

// begin fills what all events of a message share.
//
// TurnID is the invocation in any case, and the flow the first name in the order that there
// is.
func (r *reader) begin(v *invocation, m *message, what string, kind events.Kind) *events.Event {
	r.event = events.Event{ID: v.id + "/" + m.id + "/" + what, Source: r.source, Time: m.at, Kind: kind,
		Origin: events.OriginAgent, ConversationID: v.session, TurnID: v.id}
	e := &r.event
	for _, source := range r.correlation {
		switch source {
		case events.CorrelationPrompt:
			e.CorrelationID = v.id
		case events.CorrelationConversation, events.CorrelationSession:
			e.CorrelationID = v.session
		}
		if e.CorrelationID != "" {
			e.CorrelationSource = source
			break
		}
	}
	return e
}
