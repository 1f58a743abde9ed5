// Package llamaindex reads events of LlamaIndex agent workflows.
//
// It reads inputs and outputs of agents, and calls of tools with their results. The tool handoff passes
// control to the agent that its to_agent names. The events name neither run nor time. One flow is what
// follows from one message of the user, marked as derived, and lines are two seconds apart.
// LlamaIndex's OpenTelemetry spans have more detail, see package otlp.
//
// Tokens are not reported. Two runs that begin with the same message cannot be distinguished.
package llamaindex

import (
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/fingerprint"
)

// Format returns the format of LlamaIndex workflow events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "llamaindex",
		Title:   "events streamed by LlamaIndex agent workflows, one per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Work is known, because all uses of tools are among the events.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Never, Time: adapter.Never, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score asks for the class of the event; ToolCall alone is too common a word.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		if top["data"] != "{" {
			continue
		}
		switch top["event"] {
		case "AgentInput", "AgentOutput", "AgentSetup", "ToolCallResult":
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader follows one run after the other: events do not say which one they are of.
type reader struct {
	// The pairing knows which parties worked, and that all work is reported.
	pair *pairing.Pairer
	// Lines have no times, so they follow each other at adapter.Pace.
	clock   adapter.Clock
	repeats *adapter.Repeats
	// flow is the key of the line that the run began with.
	flow  string
	agent string // at work
	// The next input of that agent is no call of its own.
	called string // handed over to, and not yet at work
}

// newReader has one way to name a flow, which is derived.
func newReader(o adapter.Options) adapter.Adapter {
	r := &reader{pair: pairing.New(o, "llamaindex", events.CorrelationDerived), repeats: adapter.NewRepeats(o)}
	r.pair.Work = true
	return r
}

// line is one event of a workflow.
//
// args and said alias the record.
type line struct {
	// agent is who was at work when the event was made, whatever its class.
	event, agent   string
	role           string // of the last message of an input
	said           []byte
	tool, call, to string
	args           []byte // JSON
	// uses distinguishes a step on the way to an answer from the answer.
	uses   bool // the output calls tools
	failed bool
}

// read reads the class of an event and what its data has.
func read(record []byte) (*line, error) {
	l := &line{}
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "event":
			l.event = string(c.Text())
		case "data":
			l.data(c)
		}
	}
	c.End()
	if c.Err() == nil && l.event == "" {
		return nil, adapter.Missing("event", "want the class of the event in event")
	}
	return l, c.Err()
}

// data reads the members of any class.
func (l *line) data(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "current_agent_name":
			l.agent = adapter.Word(c.Text(), events.MaxID)
		// The last message of an input is what the turn begins with.
		case "input":
			for c.MaybeArray(); c.Element(); {
				l.message(c)
			}
		case "response":
			l.message(c)
		case "tool_name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "tool_id":
			l.call = adapter.ID(c.Text())
		case "tool_kwargs":
			l.args = c.Raw()
			// Only the handoff has to_agent.
			l.to = adapter.Word(jsonwalk.New(l.args).TextOf("to_agent"), events.MaxID)
		case "tool_calls":
			for c.MaybeArray(); c.Element(); {
				c.Skip()
				l.uses = true
			}
		// What the tool returned in Python is beside its blocks, and is left out.
		case "tool_output":
			l.output(c)
		}
	}
}

// message reads a message: its role and its last text.
func (l *line) message(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "role":
			l.role = string(c.Text())
		case "blocks":
			for c.MaybeArray(); c.Element(); {
				if text := c.TextOf("text"); text != nil {
					l.said = text
				}
			}
		}
	}
}

// output reads what a tool brought, in blocks as messages have them.
func (l *line) output(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "blocks":
			l.said = append([]byte{}, c.Texts()...) // blocks without texts are an empty result
		// LlamaIndex catches what a tool raises, and says so here.
		case "is_error":
			l.failed = c.Bool()
		}
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
	// Equal lines are one event: two calls of a tool differ by their ids.
	if r.repeats.Again(record) {
		return nil
	}
	at := r.clock.At(0)
	key := r.pair.Key(record, true)
	switch l.event {
	case "AgentInput":
		r.input(l, key, at, emit)
	case "AgentOutput":
		// An output that calls tools is no answer.
		if l.agent == "" || l.uses {
			return nil
		}
		e := r.begin(key+"/return", events.AgentReturn, at)
		e.From = events.Party{Agent: l.agent}
		pairing.Said(e, l.said)
		r.pair.Pair(e, emit)
	case "ToolCall":
		r.use(l, cmp.Or(l.call, key), at, emit)
	case "ToolCallResult":
		r.result(l, cmp.Or(l.call, key), at, emit)
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// begin fills what all events of a line share.
func (r *reader) begin(id string, kind events.Kind, at events.Stamp) *events.Event {
	// A log that begins in the middle of a run has no line to name the flow by.
	names := adapter.Names{events.CorrelationDerived: "llamaindex:" + cmp.Or(r.flow, "run")}
	e := r.pair.Begin(id, kind, at, &names)
	if kind == events.AgentCall {
		e.Origin = events.OriginAgent
	}
	return e
}

// input is what an agent begins a turn with.
//
// An agent that takes over without a handoff is called by the one before.
func (r *reader) input(l *line, key string, at events.Stamp, emit func(*events.Event)) {
	switch {
	// An input without an agent is skipped.
	case l.agent == "":
		return
	// A run begins with the user's message, or where the log does.
	case l.role == "user" || r.flow == "":
		r.flow = key
		e := r.begin(key+"/call", events.AgentCall, at)
		e.Origin, e.To = events.OriginUser, events.Party{Agent: l.agent}
		pairing.Said(e, l.said)
		r.pair.Pair(e, emit)
	// The call of the agent that was handed over to was already emitted.
	case l.agent != r.agent && l.agent != r.called:
		e := r.begin(key+"/call", events.AgentCall, at)
		e.From, e.To, e.TransferMode = events.Party{Agent: r.agent}, events.Party{Agent: l.agent}, events.PassControl
		r.pair.Pair(e, emit)
	}
	r.agent, r.called = l.agent, ""
}

// use emits a call of a tool, or a handoff.
func (r *reader) use(l *line, call string, at events.Stamp, emit func(*events.Event)) {
	from := events.Party{Agent: cmp.Or(r.agent, "agent")}
	// A tool of a program may be called handoff, too; it has no to_agent.
	if l.tool == "handoff" && l.to != "" {
		e := r.begin(call+"/call", events.AgentCall, at)
		e.From, e.To, e.TransferMode = from, events.Party{Agent: l.to}, events.PassControl
		// The reason is what the agent says to the other one.
		pairing.Said(e, jsonwalk.New(l.args).TextOf("reason"))
		r.pair.Pair(e, emit)
		r.called = l.to
		return
	}
	if l.tool == "" {
		return
	}
	e := r.begin(call+"/call", events.ToolCall, at)
	e.From, e.Tool = from, events.Tool{Name: l.tool, CallID: call, Type: "function"}
	r.pair.Args(e, l.args)
	r.pair.Pair(e, emit)
}

// result emits the result of a tool; a handoff has none.
func (r *reader) result(l *line, call string, at events.Stamp, emit func(*events.Event)) {
	// See use: what is not emitted as a call of a tool has no result either.
	if l.tool == "handoff" && l.to != "" || l.tool == "" {
		return
	}
	e := r.begin(call+"/result", events.ToolResult, at)
	e.From, e.Tool = events.Party{Agent: cmp.Or(r.agent, "agent")}, events.Tool{Name: l.tool, CallID: call, Type: "function"}
	r.pair.Args(e, l.args)
	if l.failed {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(l.said), "error")
	}
	pairing.Returned(e, l.said)
	r.pair.Pair(e, func(e *events.Event) {
		deed.Returned(e, l.said)
		emit(e)
	})
}
