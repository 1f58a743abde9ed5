// Package cline reads sessions of Cline's command line (from 3.0 on):
// ~/.cline/data/sessions/ID/ID.messages.json, one document for each session, and one beside it
// for each agent that was given a task.
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

const program = "cline"

// Format returns the format of sessions.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "cline",
		Title:   "Cline sessions (ID.messages.json), one document per session",
		Framing: adapter.Documents,
		Score:   score,
		New: func(o adapter.Options) adapter.Adapter {
			return &reader{log: transcript.New(o, program), tasks: adapter.NewRecent[*transcript.Use](o.HeldOr(1024))}
		},
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always},
	}
}

// score looks for what stands before the messages.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		if top.Has("version") && top.Has("agent") && top.Has("sessionId") && top.Has("messages") {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

type reader struct {
	log   *transcript.Log
	tasks *adapter.Recent[*transcript.Use] // given to other agents, by call
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// Decode reads one session.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	var session, parent string
	var messages []byte
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "sessionId":
			session = adapter.ID(c.Text())
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
	if parent == "" {
		turn.Root = session
	} else {
		turn.By.Agent = "subagent"
	}
	list := jsonwalk.New(messages)
	for list.MaybeArray(); list.Element(); {
		m := read(list)
		if list.Err() == nil && m.id != "" && m.at != 0 {
			r.message(&turn, m, parent, emit)
		}
	}
	return list.Err()
}

// message is one of a session, as far as it is of use.
type message struct {
	id, role, model, provider string
	at                        events.Stamp
	text                      []byte
	calls, results            []transcript.Use
	used                      events.Usage
}

func (r *reader) message(t *transcript.Turn, m *message, parent string, emit func(*events.Event)) {
	switch {
	case m.role == "assistant":
		r.log.Inference(t, m.id, m.at, m.model, m.provider, m.used, emit)
		for i := range m.calls {
			r.call(t, m, &m.calls[i], emit)
		}
		if len(m.calls) == 0 && len(m.text) > 0 {
			r.log.Answer(t, m.id, m.at, events.StatusOK, m.text, emit)
		}
	case len(m.results) > 0:
		for i := range m.results {
			u := m.results[i]
			if given, ok := r.tasks.Get(t.Session + "/" + u.ID); ok {
				said := u.Said
				u = *given
				u.Said = said
			}
			u.Ended = m.at
			r.log.Result(t, &u, emit)
		}
	case m.role == "user" && len(m.text) > 0 && parent != "":
		r.log.Asked(t, events.Party{Session: parent, Agent: program}, m.at, m.text, emit)
	case m.role == "user" && len(m.text) > 0:
		t.Prompt = m.id
		r.log.Prompt(t, m.id, m.at, m.text, emit)
	}
}

// call tells the use of a tool, or that a task is given to another agent. Ids of calls are
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
			u.Elsewhere = true
			r.tasks.Put(t.Session+"/"+u.ID, &transcript.Use{ID: u.ID, To: u.To, Elsewhere: true, At: u.At})
		}
	}
	r.log.Call(t, u, emit)
}

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
		case "modelInfo":
			for c.MaybeObject(); c.Member(); {
				switch string(c.Key()) {
				case "id":
					m.model = adapter.Word(c.Text(), events.MaxID)
				case "provider":
					m.provider = adapter.Word(c.Text(), events.MaxProvider)
				}
			}
		case "metrics":
			m.used = counts.Read(c)
		}
	}
	return m
}

// readPart reads a text, the use of a tool or its result.
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
		m.text = append(m.text, text...)
	case "tool_use":
		if u.ID != "" && u.Tool != "" {
			m.calls = append(m.calls, u)
		}
	case "tool_result":
		if u.Said = content; u.ID != "" {
			if failed || bytes.Contains(content, []byte(`"success":false`)) || bytes.Contains(content, []byte(`"success": false`)) {
				u.Status = events.StatusError
			}
			m.results = append(m.results, u)
		}
	}
}

var counts = usage.Names{
	"inputTokens":      usage.Input,
	"outputTokens":     usage.Output,
	"cacheReadTokens":  usage.CacheRead,
	"cacheWriteTokens": usage.CacheCreation,
}
