// Package copilot reads logs of sessions of GitHub Copilot CLI and of programs that are made
// with its SDK: session-state/ID/events.jsonl, one event per line, the first of which is
// session.start.
//
// Read are the messages of the user, the uses of tools and their results, tasks given to other
// agents and what these do, the tokens of the model's answers. One flow is one message of the
// user (interactionId), or the session where a version does not tell interactions apart.
//
// Versions that tell no tokens per answer leave all but those of the output out.
package copilot

import (
	"bytes"
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

const program = "copilot-cli"

// Format returns the format of the logs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "copilot",
		Title:   "Copilot CLI sessions (events.jsonl), one event per line",
		Framing: adapter.Lines,
		Score:   score,
		Apart:   true,
		New:     func(o adapter.Options) adapter.Adapter { return newReader(o) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score looks for the start of a session that names its producer: others write events of this
// shape, too.
func score(head *adapter.Head) adapter.Match {
	for c := range adapter.Heads(head.Bytes) {
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

type reader struct {
	options adapter.Options
	log     *transcript.Log
	session string
	prompt  string
	agents  *adapter.Recent[events.Party] // by the use of a tool that they work for, or by their ids
}

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
type line struct {
	id, kind, agent string
	at              events.Stamp
	data            []byte

	session, interaction, parentUse string
	call, tool, server              string
	content, message, args          []byte
	exit                            int64
	failed, exited                  bool
	asks                            bool   // for the use of tools
	code                            string // of an error
	api, model                      string
	used                            events.Usage
	output                          int64
}

// Decode reads one event. Those that tell nothing of agents and tools are passed over.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	if l.kind == "session.start" && l.session != "" {
		r.session, r.prompt = l.session, ""
		return nil
	}
	if r.session == "" {
		return adapter.Missing("session.start", "want the event that says what session this is before all others")
	}
	if l.interaction != "" {
		r.prompt = l.interaction
	}
	turn := r.turn(l)
	switch l.kind {
	case "user.message":
		if l.agent == "" && l.parentUse == "" {
			r.log.Prompt(turn, l.id, l.at, l.content, emit)
		}
	case "assistant.message":
		r.said(l, turn, emit)
	case "session.usage_record", "assistant.usage":
		r.log.Inference(turn, cmp.Or(l.api, l.id), l.at, l.model, "", l.used, emit)
	case "tool.execution_start":
		r.use(l, turn, emit)
	case "tool.execution_complete":
		r.result(l, turn, emit)
	case "subagent.started":
		if by, ok := r.agents.Get(l.call); ok && l.agent != "" {
			r.agents.Put(l.agent, by)
		}
	case "abort":
		r.log.Answer(turn, l.id, l.at, events.StatusCancelled, nil, emit)
	}
	return nil
}

// turn finds out who acts: the agent of the session, or one that works for it.
func (r *reader) turn(l *line) *transcript.Turn {
	t := &transcript.Turn{Session: r.session, Prompt: r.prompt, By: events.Party{Session: r.session, Agent: program}}
	for _, key := range [...]string{l.agent, l.parentUse} {
		if by, ok := r.agents.Get(key); ok && key != "" && l.kind != "subagent.started" {
			t.By = by
		}
	}
	return t
}

// said reads an answer of the model. One that asks for no tool is the last.
func (r *reader) said(l *line, t *transcript.Turn, emit func(*events.Event)) {
	if l.output > 0 && l.api != "" {
		r.log.Inference(t, l.api, l.at, l.model, "", events.Usage{Known: true, Output: l.output}, emit)
	}
	if t.By.Session == r.session && !l.asks && len(l.content) > 0 {
		r.log.Answer(t, l.id, l.at, events.StatusOK, l.content, emit)
	}
}

// use tells the use of a tool, or that a task is given to an agent of its own.
func (r *reader) use(l *line, t *transcript.Turn, emit func(*events.Event)) {
	u := transcript.Use{ID: l.call, Tool: l.tool, Server: l.server, Args: l.args, At: l.at}
	if l.call == "" || l.tool == "" {
		return
	}
	if kind, asked := task(l.args); l.tool == "task" && len(asked) > 0 {
		u.To, u.Asked = events.Party{Session: adapter.Word([]byte(r.session+"/"+l.call), events.MaxID), Agent: cmp.Or(kind, "task")}, asked
		r.agents.Put(l.call, u.To)
	}
	r.log.Call(t, &u, emit)
}

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

func (r *reader) result(l *line, t *transcript.Turn, emit func(*events.Event)) {
	u := transcript.Use{ID: l.call, Ended: l.at, Said: l.content}
	u.To, _ = r.agents.Get(l.call)
	switch {
	case l.code == "denied" || l.code == "rejected":
		u.Status, u.Said = events.StatusDenied, l.message
	case l.failed && len(l.message) > 0:
		u.Status, u.Said = events.StatusError, l.message
	case l.failed:
		u.Status = events.StatusError
	case l.exited && l.exit != 0, failedShell(l.content):
		u.Status = events.StatusError
	}
	r.log.Result(t, &u, emit)
}

// failedShell tells whether a command ended with another code than 0: its output ends with
// "<exited with exit code 1>", in newer versions "<shellId: 1 completed with exit code 1>".
func failedShell(said []byte) bool {
	said = bytes.TrimSpace(said)
	i := bytes.LastIndexByte(said, '<')
	if i < 0 || !bytes.HasSuffix(said, []byte(">")) {
		return false
	}
	_, code, ok := bytes.Cut(said[i:], []byte(" exit code "))
	return ok && string(code) != "0>"
}
