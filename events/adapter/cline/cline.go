// Package cline reads sessions of Cline's command line (3.0 and later).
//
// Read are the prompts of the user, the uses of tools and their results, tasks given to other
// agents, the tokens of the model's answers and the answers that end a turn. One flow is one
// prompt of the user, and a task that an agent was given. What hooks of Cline cancel is a call
// without a result.
package cline

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// program is the source of events and the name of the main agent.
const program = "cline"

// Format returns the format of sessions.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "cline",
		Title:   "Cline sessions (ID.messages.json), one document per session",
		Framing: adapter.Documents,
		Score:   adapter.CertainWith("version", "agent", "sessionId", "messages"), // they stand in front of what is large
		New: func(o adapter.Options) adapter.Adapter {
			return &reader{log: transcript.New(o, program), tasks: adapter.NewRecent[*transcript.Use](o.HeldOr(1024))}
		},
		// Starts are never reported: the document is written when an answer is complete.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always},
	}
}

// reader joins tasks with their results within one document; log knows what was emitted from
// earlier writings of it.
type reader struct {
	log *transcript.Log
	// tasks is by session and call, as ids of calls may begin anew in each session.
	tasks *adapter.Recent[*transcript.Use] // given to other agents, by call
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// Decode reads one session.
//
// It is rewritten with each message, so most of it was emitted before.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// The messages are read when all else is known, since the session may stand behind them.
	var session, parent string
	var messages []byte
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "sessionId":
			session = adapter.ID(c.Text())
		// origin names who gave the task, if it is the session of one.
		case "origin":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "parentThreadId" {
					parent = adapter.ID(c.Text())
				}
			}
		case "messages":
			messages = c.Raw()
		}
	}
	c.End()
	switch {
	case c.Err() != nil:
		return c.Err()
	case session == "":
		return adapter.Missing("sessionId", "want the sessionId of a session")
	}
	turn := transcript.Turn{Session: session, By: events.Party{Session: session, Agent: program}, Parent: parent}
	// A session of the user's is the root of what it opens.
	if parent == "" {
		turn.Root = session
	} else {
		// The document does not say what kind of agent it is.
		turn.By.Agent = "subagent"
	}
	list := jsonwalk.New(messages)
	for list.MaybeArray(); list.Element(); {
		// It is read to its end in any case, so that the next one begins where it should.
		m := read(list)
		// A message without id or time cannot be emitted exactly once.
		if list.Err() == nil && m.id != "" && m.at != 0 {
			r.message(&turn, m, parent, emit)
		}
	}
	return list.Err()
}

// message is one of a session, as far as it is of use.
//
// args and texts alias the record.
type message struct {
	id, role, model, provider string
	at                        events.Stamp
	text                      []byte
	calls, results            []transcript.Use
	// used is of one answer.
	used events.Usage
}

// message emits the content of one message: an answer of the model, results, or the prompt.
func (r *reader) message(t *transcript.Turn, m *message, parent string, emit func(*events.Event)) {
	switch {
	case m.role == "assistant":
		// Tokens come first: they were used before anything that the model asked for.
		r.log.Inference(t, m.id, m.at, m.model, m.provider, m.used, emit)
		for i := range m.calls {
			r.call(t, m, &m.calls[i], emit)
		}
		// With calls the turn goes on.
		if len(m.calls) == 0 && len(m.text) > 0 {
			r.log.Answer(t, m.id, m.at, events.StatusOK, m.text, emit)
		}
	case len(m.results) > 0:
		for i := range m.results {
			u := m.results[i]
			// The result does not repeat what the call was.
			if given, ok := r.tasks.Get(t.Session + "/" + u.ID); ok {
				said := u.Said
				u = *given
				u.Said = said
			}
			// A result has no time but that of its message.
			u.Ended = m.at
			r.log.Result(t, &u, emit)
		}
	// An agent was asked by another one, whatever the role says.
	case m.role == "user" && len(m.text) > 0 && parent != "":
		r.log.Asked(t, events.Party{Session: parent, Agent: program}, m.at, m.text, emit)
	// What the user says begins a flow.
	case m.role == "user" && len(m.text) > 0:
		// The turn is that of all messages that follow, until the next prompt.
		t.Prompt = m.id
		r.log.Prompt(t, m.id, m.at, m.text, emit)
	}
}

// call emits the use of a tool, or that a task is given to another agent. Ids of calls are
// those of the model's service, which may count them in each session anew.
func (r *reader) call(t *transcript.Turn, m *message, u *transcript.Use, emit func(*events.Event)) {
	u.At, u.Server = m.at, transcript.Server(u.Tool)
	if u.Tool == "spawn_agent" {
		c := jsonwalk.New(u.Args)
		for c.MaybeObject(); c.Member(); {
			if string(c.Key()) == "task" {
				u.Asked = c.Text()
			}
		}
		if len(u.Asked) > 0 {
			u.To = events.Party{Session: adapter.Word([]byte(t.Session+"/"+u.ID), events.MaxID), Agent: "subagent"}
			// Its own document reports its work.
			u.Elsewhere = true
			r.tasks.Put(t.Session+"/"+u.ID, &transcript.Use{ID: u.ID, To: u.To, Elsewhere: true, At: u.At})
		}
	}
	r.log.Call(t, u, emit)
}

// read reads a message. Members come in any order, so its parts are gathered.
func read(c *jsonwalk.Cursor) *message {
	m := &message{}
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			m.id = adapter.ID(c.Text())
		case "role":
			m.role = string(c.Text())
		case "ts":
			m.at, _ = c.Stamp()
		case "content":
			for c.MaybeArray(); c.Element(); {
				m.readPart(c)
			}
		// Answers name the model that gave them, since it may change within a session.
		case "modelInfo":
			for c.MaybeObject(); c.Member(); {
				switch string(c.Key()) {
				case "id":
					m.model = adapter.Word(c.Text(), events.MaxID)
				case "provider":
					m.provider = adapter.Word(c.Text(), events.MaxProvider)
				}
			}
		// Only answers have them.
		case "metrics":
			m.used = counts.Read(c)
		}
	}
	return m
}

// readPart reads a text, the use of a tool or its result.
//
// Thoughts and images have kinds of their own and are passed over.
func (m *message) readPart(c *jsonwalk.Cursor) {
	var kind string
	var text, content []byte
	var u transcript.Use
	failed := false
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			kind = string(c.Text())
		case "text":
			text = c.Text()
		// A use has an id of its own, a result that of its use.
		case "id", "tool_use_id":
			u.ID = adapter.ID(c.Text())
		case "name":
			u.Tool = adapter.Word(c.Text(), events.MaxID)
		case "input":
			u.Args = c.Raw()
		case "content":
			content = c.Raw()
		case "is_error":
			failed = c.Bool()
		}
	}
	switch kind {
	case "text":
		// Texts of one message are parts of what was said at once.
		m.text = append(m.text, text...)
	case "tool_use":
		// Without an id its result would not find it.
		if u.ID != "" && u.Tool != "" {
			m.calls = append(m.calls, u)
		}
	case "tool_result":
		if u.Said = content; u.ID != "" {
			// Results say in their text that they failed, in JSON of the tool's own.
			if failed || bytes.Contains(content, []byte(`"success":false`)) || bytes.Contains(content, []byte(`"success": false`)) {
				u.Status = events.StatusError
			}
			m.results = append(m.results, u)
		}
	}
}

// counts are Cline's names of metrics.
var counts = usage.Names{
	"inputTokens":      usage.Input,
	"outputTokens":     usage.Output,
	"cacheReadTokens":  usage.CacheRead,
	"cacheWriteTokens": usage.CacheCreation,
}
