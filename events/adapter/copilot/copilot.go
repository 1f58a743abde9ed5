// Package copilot reads session logs of GitHub Copilot CLI and of programs built with its SDK.
//
// It reads the messages of the user, the uses of tools and their results, tasks given to other agents
// and what these do, and the tokens of the model's answers. One flow is one message of the user
// (interactionId), or the session if a version does not distinguish interactions.
//
// Versions that report no tokens per answer leave out all but the output tokens.
package copilot

import (
	"bytes"
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// program is the source of events and the name of the main agent.
const program = "copilot-cli"

// Format returns the format of the logs.
//
// Apart, because each file is one session with all of its agents.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "copilot",
		Title:   "Copilot CLI sessions (events.jsonl), one event per line",
		Framing: adapter.Lines,
		Score:   score,
		Apart:   true,
		New:     func(o adapter.Options) adapter.Adapter { return newReader(o) },
		// Tokens of older versions are those of the output alone.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score looks for the start of a session that names its producer: others write events of this
// shape, too.
func score(head *adapter.Head) adapter.Match {
	if !head.Any(func(top adapter.Top) bool { return top["type"] == "session.start" }) {
		return adapter.NoMatch
	}
	for c := range adapter.Heads(head.Bytes) {
		// Both stand in the first line, in either order.
		kind, producer := "", ""
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "type":
				kind = string(c.Text())
			case "data":
				producer = string(c.TextOf("producer"))
			}
		}
		if kind == "session.start" && producer == "copilot-agent" {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader reads one file, that of a session.
type reader struct {
	options adapter.Options
	log     *transcript.Log
	session string
	// prompt is the interaction that is going on; "" before the first.
	prompt string
	// agents finds whose line it is; it is asked for both keys, since only some lines have the
	// agent's own.
	agents *adapter.Recent[events.Party] // by the use of a tool that they work for, or by their ids
}

// newReader leaves the descriptions of commands out of their hashes.
func newReader(o adapter.Options) *reader {
	for _, tool := range []string{"bash", "powershell", "shell"} {
		o = transcript.Ignoring(o, tool, "description") // the model's word on it
	}
	return &reader{options: o, log: transcript.New(o, program), agents: adapter.NewRecent[events.Party](o.HeldOr(1024))}
}

// Branch returns an adapter for one more file: the first line of each says what session it is.
func (r *reader) Branch() adapter.Adapter { return newReader(r.options) }

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// line is one event, as far as it is of use.
//
// data is read into the other fields only for kinds that are of use.
type line struct {
	id, kind, agent string
	at              events.Stamp
	data            []byte

	// What follows is of data.
	session, interaction, parentUse string
	call, tool, server              string
	content, message, args          []byte
	// exit counts only if exited says that it was reported.
	exit           int64
	failed, exited bool
	// asks distinguishes an answer that goes on from one that ends a turn.
	asks       bool   // for the use of tools
	code       string // of an error
	api, model string
	used       events.Usage
	output     int64
}

// Decode reads one event. It skips events that do not concern agents and tools.
//
// A file that begins in the middle cannot be read, for its session is not known.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	if l.kind == "session.start" && l.session != "" {
		// A file may go on with another session.
		r.session, r.prompt = l.session, ""
		return nil
	}
	if r.session == "" {
		return adapter.Missing("session.start", "want the event that says what session this is before all others")
	}
	// Lines without an interaction are of the one before.
	if l.interaction != "" {
		r.prompt = l.interaction
	}
	// The acting agent is determined before the line is read, as the line may make another agent known.
	turn := r.turn(l)
	switch l.kind {
	case "user.message":
		// An agent's prompt has the same form as a user's message, and was emitted with the task.
		if l.agent == "" && l.parentUse == "" {
			r.log.Prompt(turn, l.id, l.at, l.content, emit)
		}
	case "assistant.message":
		r.said(l, turn, emit)
	// Two kinds of records report the same in different versions. The call of the API is their id.
	case "session.usage_record", "assistant.usage":
		r.log.Inference(turn, cmp.Or(l.api, l.id), l.at, l.model, "", l.used, emit)
	case "tool.execution_start":
		r.use(l, turn, emit)
	case "tool.execution_complete":
		r.result(l, turn, emit)
	case "subagent.started":
		// The agent of a task gets an id of its own when it starts.
		if by, ok := r.agents.Get(l.call); ok && l.agent != "" {
			r.agents.Put(l.agent, by)
		}
	// The user broke the turn off.
	case "abort":
		r.log.Answer(turn, l.id, l.at, events.StatusCancelled, nil, emit)
	}
	return nil
}

// turn finds out who acts: the agent of the session, or one that works for it.
func (r *reader) turn(l *line) *transcript.Turn {
	t := &transcript.Turn{Session: r.session, Prompt: r.prompt, By: events.Party{Session: r.session, Agent: program}}
	// Either may be all that there is.
	for _, key := range [...]string{l.agent, l.parentUse} {
		// The start of an agent is reported by the agent that started it.
		if by, ok := r.agents.Get(key); ok && key != "" && l.kind != "subagent.started" {
			t.By = by
		}
	}
	return t
}

// said reads an answer of the model. One that asks for no tool is the last.
func (r *reader) said(l *line, t *transcript.Turn, emit func(*events.Event)) {
	// Older versions report only the output tokens with the answer.
	if l.output > 0 && l.api != "" {
		r.log.Inference(t, l.api, l.at, l.model, "", events.Usage{Known: true, Output: l.output}, emit)
	}
	// What another agent says last is the result of its task.
	if t.By.Session == r.session && !l.asks && len(l.content) > 0 {
		r.log.Answer(t, l.id, l.at, events.StatusOK, l.content, emit)
	}
}

// use emits the use of a tool, or that a task is given to an agent of its own.
func (r *reader) use(l *line, t *transcript.Turn, emit func(*events.Event)) {
	u := transcript.Use{ID: l.call, Tool: l.tool, Server: l.server, Args: l.args, At: l.at}
	// Nothing could be joined with it.
	if l.call == "" || l.tool == "" {
		return
	}
	// A task without a prompt is emitted as the use of a tool.
	if kind, asked := task(l.args); l.tool == "task" && len(asked) > 0 {
		// The use is the party, as the agent's id is not known yet.
		u.To, u.Asked = events.Party{Session: adapter.Word([]byte(r.session+"/"+l.call), events.MaxID), Agent: cmp.Or(kind, "task")}, asked
		r.agents.Put(l.call, u.To)
	}
	r.log.Call(t, &u, emit)
}

// task reads what kind of agent is asked what.
func task(args []byte) (kind string, asked []byte) {
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "agent_type":
			kind = adapter.Word(c.Text(), events.MaxID)
		case "prompt":
			asked = c.Text()
		}
	}
	return kind, asked
}

// result emits the result of a use. Status comes in several ways, of which the most reliable goes
// first.
func (r *reader) result(l *line, t *transcript.Turn, emit func(*events.Event)) {
	u := transcript.Use{ID: l.call, Ended: l.at, Said: l.content}
	// Of a task the result is the return of its agent.
	u.To, _ = r.agents.Get(l.call)
	switch {
	// Who refused says why, which goes to the model in the place of a result.
	case l.code == "denied" || l.code == "rejected":
		u.Status, u.Said = events.StatusDenied, l.message
	case l.failed && len(l.message) > 0:
		u.Status, u.Said = events.StatusError, l.message
	case l.failed:
		u.Status = events.StatusError
	// A command that failed is a success to the program.
	case l.exited && l.exit != 0, failedShell(l.content):
		u.Status = events.StatusError
	}
	r.log.Result(t, &u, emit)
}

// failedShell reports whether a command exited with another code than 0. Its output then ends with
// "<exited with exit code 1>", in newer versions "<shellId: 1 completed with exit code 1>".
//
// Only the last line says it, and only if it is one of those.
func failedShell(said []byte) bool {
	said = bytes.TrimSpace(said)
	// The line stands in angle brackets at the end.
	i := bytes.LastIndexByte(said, '<')
	if i < 0 || !bytes.HasSuffix(said, []byte(">")) {
		return false
	}
	_, code, ok := bytes.Cut(said[i:], []byte(" exit code "))
	return ok && string(code) != "0>"
}
