// Package openhands reads events of OpenHands conversations.
//
// It reads messages, actions and their results, errors, and the sums of tokens in updates of the state.
// An event does not name its conversation (the folder does), but the event before it. One flow is such a
// chain, by the id of its first event. The agent of a conversation is its session; the agents that it
// gives tasks to have the names of their types.
//
// Events without a chain are counted to the conversation that was read last; if there are several, that is
// marked as derived. Times have no zone and are read as UTC. Nothing links the conversation of an agent
// that was given a task with the action that gave it, and tokens come as sums, not by request.
package openhands

import (
	"cmp"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/fingerprint"
)

// Format returns the format of OpenHands events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "openhands",
		Title:   "OpenHands conversation events, one per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score asks for the kind as well, since other logs have members of these names.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		// weir's own events have these four as well, and a correlation id.
		if !top.Has("id", "timestamp", "source", "kind") || top.Has("correlation_id") {
			continue
		}
		switch kind := top["kind"]; {
		case kind == "ActionEvent", kind == "ObservationEvent", kind == "SystemPromptEvent", kind == "MessageEvent",
			kind == "AgentErrorEvent", kind == "UserRejectObservation", strings.HasPrefix(kind, "Conversation"):
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// maxRemembered bounds the events whose conversation is known and the open actions,
// each.
const maxRemembered = 16384

// reader holds what lasts from event to event. The memories forget what was used least
// recently.
type reader struct {
	// source is that of the options, for events name none of their own.
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	chain       *adapter.Recent[*conversation] // by the id of an event
	// actions wait for their results, which may never come.
	actions *adapter.Recent[*action] // by the id of an event
	calls   *adapter.Recent[string]  // id of the event, by tool call
	// For events without a chain.
	last *conversation
	// With it begin decides whether the conversation is the only one.
	started int // conversations seen
	event   events.Event
}

// conversation is one agent at work for a user, or for another agent.
// It goes on for as long as events name one of its own.
type conversation struct {
	id    string
	party events.Party
	// A derived one may be a part of another, so limits only warn about it.
	derived bool // its first event was not seen
	worked  bool // since it was called, or called an agent
}

// action is what an agent did and has no answer to yet.
type action struct {
	by   *conversation
	tool events.Tool
	at   events.Stamp
	to   events.Party // the agent that was given a task
}

// newReader calls flows by conversations where events are linked, and by a guess where they
// are not.
func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "openhands"), ignore: o.IgnoreArgs,
		correlation: o.CorrelationOr(events.CorrelationConversation, events.CorrelationDerived),
		chain:       adapter.NewRecent[*conversation](most), actions: adapter.NewRecent[*action](most), calls: adapter.NewRecent[string](most),
	}
}

// Decode reads one event. It skips events that do not concern agents and tools.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	// It is called for each event, even for those that are skipped: their ids link others.
	by := r.conversation(l)
	switch l.kind {
	case "MessageEvent":
		r.message(l, by, emit)
	case "ActionEvent":
		r.action(l, by, emit)
	case "ObservationEvent", "AgentErrorEvent", "UserRejectObservation":
		// An error or a rejection of an action is its result.
		r.observation(l, by, emit)
	case "ConversationErrorEvent":
		// A conversation that broke off has no other answer.
		r.answer(l, by, events.StatusError, emit)
	case "ConversationStateUpdateEvent":
		r.tokens(l, by, emit)
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// conversation finds out what conversation an event is part of.
// A parent that is not known begins a conversation under the parent's id, so that all its
// children find it.
func (r *reader) conversation(l *line) *conversation {
	// Each event names the one before it.
	c, ok := r.chain.Get(l.parent)
	switch {
	// A link that is known goes before all else.
	case ok && l.parent != "":
	// The log begins in the middle of the conversation.
	case l.parent != "":
		c = r.start(l.parent, true)
	// A conversation begins with the prompt of the system, or with the log.
	case l.kind == "SystemPromptEvent" || r.last == nil:
		if c, ok = r.chain.Get(l.id); !ok { // else it is read again
			c = r.start(l.id, l.kind != "SystemPromptEvent")
		}
	default:
		c = r.last
	}
	r.chain.Put(l.id, c)
	r.last = c
	return c
}

// start begins a conversation, whose first event may not have been seen.
func (r *reader) start(id string, derived bool) *conversation {
	r.started++
	return &conversation{id: id, party: events.Party{Session: id, Agent: "openhands"}, derived: derived}
}

// begin fills what all events of a line share.
func (r *reader) begin(id string, kind events.Kind, l *line, by *conversation) *events.Event {
	r.event = events.Event{ID: id, Source: r.source, Time: l.at, Kind: kind, Origin: events.OriginAgent, ConversationID: by.id}
	e := &r.event
	// Without a link the event is in the last conversation by guess, unless there is only one.
	linked := !by.derived && (l.parent != "" || l.id == by.id || r.started == 1)
	for _, source := range r.correlation {
		if source == events.CorrelationConversation && linked || source == events.CorrelationDerived {
			e.CorrelationID, e.CorrelationSource = by.id, source
			break
		}
	}
	return e
}

// message emits a message of the user, of another agent, or of the agent of the conversation.
func (r *reader) message(l *line, by *conversation, emit func(*events.Event)) {
	switch l.source {
	case "user":
		e := r.begin(l.id+"/call", events.AgentCall, l, by)
		e.To, e.Content, e.Sim = by.party, l.said, l.sim
		// A sender is another agent that speaks in the user's place.
		if e.Origin = events.OriginUser; l.sender != "" {
			e.Origin, e.From = events.OriginAgent, events.Party{Agent: l.sender}
		}
		by.worked = false
		emit(e)
	// A message of the agent ends its turn.
	case "agent":
		r.answer(l, by, events.StatusOK, emit)
	}
}

// answer emits that the agent of a conversation has nothing more to do.
func (r *reader) answer(l *line, by *conversation, status events.Status, emit func(*events.Event)) {
	e := r.begin(l.id+"/return", events.AgentReturn, l, by)
	e.From, e.Content, e.Sim, e.Status, e.ErrorType = by.party, l.said, l.sim, status, l.failure
	// All tools of the agent are in the log, so none means no work.
	e.HadWork = adapter.YesNo(by.worked)
	emit(e)
}

// action emits a use of a tool, a task, or the end.
func (r *reader) action(l *line, by *conversation, emit func(*events.Event)) {
	// An action without a tool did nothing.
	if l.tool == "" {
		return
	}
	// The end of a conversation is an action of it, too.
	if l.action == "FinishAction" {
		r.answer(l, by, events.StatusOK, emit)
		return
	}
	// Kept of the action is only what its result does not report.
	a := &action{by: by, at: l.at}
	a.tool = events.Tool{Name: l.tool, CallID: cmp.Or(l.call, l.id), Type: "function"}
	// Results name the action, or, in some events, the call of the model.
	r.actions.Put(l.id, a)
	if l.call != "" {
		r.calls.Put(l.call, l.id)
	}
	if l.action == "TaskAction" || l.action == "DelegateAction" {
		a.to = events.Party{Agent: cmp.Or(l.child, "subagent")}
		e := r.begin(l.id+"/call", events.AgentCall, l, by)
		e.From, e.To, e.Content, e.Sim = by.party, a.to, l.said, l.sim
		e.TransferMode, e.HadWork = events.ReturnToCaller, adapter.YesNo(by.worked)
		// The task is a hop, and what the agent did before it is used up.
		by.worked = false
		emit(e)
		return
	}
	by.worked = true
	a.tool.ArgsHash = fingerprint.Args(l.args, r.ignored(l.tool))
	e := r.begin(l.id+"/call", events.ToolCall, l, by)
	e.From, e.Tool = by.party, a.tool
	e.Tool.ArgsSize, e.Tool.ArgsSim = int64(len(l.args)), fingerprint.ArgsText(l.args)
	emit(e)
}

// asides are what the SDK has the model say about a call, as arguments of every
// tool. The words change from call to call and hide that the calls are the same.
var asides = [...]string{"security_risk", "summary"}

// ignored adds the asides to what the user leaves out.
func (r *reader) ignored(tool string) []string {
	more := r.ignore.Of(tool)
	return append(asides[:len(asides):len(asides)], more...)
}

// observation reads the result of an action. Without its action nothing is known of
// it.
// A result that comes twice counts once: its action is forgotten.
func (r *reader) observation(l *line, by *conversation, emit func(*events.Event)) {
	id := l.actionID
	if id == "" {
		id, _ = r.calls.Get(l.call)
	}
	// Both ways of naming it lead to the id of the action's event.
	a, ok := r.actions.Get(id)
	if !ok {
		return
	}
	r.actions.Delete(id)
	e := r.begin(id+"/result", events.ToolResult, l, by)
	// A result is never before its action.
	e.Time = max(l.at, a.at)
	e.DurationMS = float64(e.Time - a.at)
	e.Status, e.ErrorType, e.Content, e.Sim = l.status, l.failure, l.said, l.sim
	if a.to.IsZero() {
		e.From, e.Tool, e.Content, e.Sim = a.by.party, a.tool, l.came.Content, l.came.Sim
		e.Tool.ResultSize = int64(max(1, len(l.text))) // an empty result is a known one
	} else {
		// What the other agent did stands in a conversation of its own.
		e.Kind, e.From, e.To = events.AgentReturn, a.to, a.by.party
	}
	emit(e)
}

// tokens emits the usage of the models of a conversation since it began.
// The sums grow from line to line, which their scope says.
func (r *reader) tokens(l *line, by *conversation, emit func(*events.Event)) {
	if !l.usage.Known {
		return
	}
	e := r.begin(l.id+"/llm", events.LLMCall, l, by)
	e.From, e.Usage, e.Status = by.party, l.usage, events.StatusOK
	// The fold counts what each of them is more than the one before.
	e.Usage.Scope = events.UsageCumulative
	emit(e)
}
