// Package qwencode reads chats of Qwen Code.
//
// Read are the prompts of the user, the uses of tools and their results, tasks given to other
// agents, the tokens of the model's answers and the answers that end a turn. One flow is one
// prompt of the user. What an agent does that was given a task does not stand in the chat.
package qwencode

import (
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

const (
	// program is the source of events and the name of the main agent; shell is the tool whose
	// description is the model's word on it.
	program = "qwen-code"
	shell   = "run_shell_command"
)

// Format returns the format of chats.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "qwencode",
		Title:   "Qwen Code chats, JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		// Not Apart, as lines of several sessions may stand in one file.
		New: func(o adapter.Options) adapter.Adapter { return newReader(o) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score looks for messages that are made of parts: those of Claude Code, whose lines are alike
// else, have content.
func score(head *adapter.Head) adapter.Match {
	for c := range adapter.Heads(head.Bytes) {
		// All four members and parts: any one of them other logs have as well.
		named, parts := 0, false
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "uuid", "parentUuid", "sessionId", "type":
				// Their values do not matter.
				named++
				c.Skip()
			case "message":
				for c.MaybeObject(); c.Member(); {
					parts = parts || string(c.Key()) == "parts"
					c.Skip()
				}
			}
		}
		if named == 4 && parts {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader keeps for each session which prompt it is at.
type reader struct {
	log *transcript.Log
	// A result belongs to the prompt that came last in its session.
	turns *adapter.Recent[string]          // id of the prompt, by session
	tasks *adapter.Recent[*transcript.Use] // given to other agents, by call
}

// newReader leaves the descriptions of commands out of their hashes.
//
// Its memories are of what is open; a chat of days needs no more than a few.
func newReader(o adapter.Options) *reader {
	return &reader{log: transcript.New(transcript.Ignoring(o, shell, "description"), program),
		turns: adapter.NewRecent[string](o.HeldOr(1024)), tasks: adapter.NewRecent[*transcript.Use](o.HeldOr(1024))}
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// record is one line, as far as it is of use.
//
// args and texts alias the line.
type record struct {
	uuid, session, kind, model string
	at                         events.Stamp
	// text is all that was said, without thoughts.
	text []byte
	// Calls and results are in the order of the parts.
	calls   []transcript.Use
	results []transcript.Use
	// A record has one result, though the list may hold several.
	status, errorType string // of the result
	used              events.Usage
}

// Decode reads one line. It skips lines that do not concern agents and tools.
//
// A chat that is read again from its beginning gives nothing new.
func (r *reader) Decode(line []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(line); err != nil {
		return err
	}
	l, err := read(line)
	if err != nil {
		return err
	}
	turn := transcript.Turn{Session: l.session, By: events.Party{Session: l.session, Agent: program}}
	// Without a prompt the session is the flow.
	// The prompt is that of the session's last user record.
	turn.Prompt, _ = r.turns.Get(l.session)
	switch l.kind {
	case "user":
		// A prompt that is read again begins nothing anew.
		if len(l.text) > 0 && !r.log.Again(l.uuid) {
			r.turns.Put(l.session, l.uuid)
			turn.Prompt = l.uuid
			r.log.Prompt(&turn, l.uuid, l.at, l.text, emit)
		}
	// Tokens come first: they were used before anything that the model asked for.
	case "assistant":
		r.log.Inference(&turn, l.uuid, l.at, l.model, "", l.used, emit)
		for i := range l.calls {
			r.call(l, &turn, &l.calls[i], emit)
		}
		// With calls the turn goes on.
		if len(l.calls) == 0 && len(l.text) > 0 {
			r.log.Answer(&turn, l.uuid, l.at, events.StatusOK, l.text, emit)
		}
	// Results are records of their own.
	case "tool_result":
		for i := range l.results {
			// Its status is the record's.
			r.result(l, &turn, &l.results[i], emit)
		}
	}
	return nil
}

// call emits the use of a tool, or that a task is given to another agent.
//
// A task without a prompt is emitted as the use of a tool.
func (r *reader) call(l *record, t *transcript.Turn, u *transcript.Use, emit func(*events.Event)) {
	u.At, u.Server = l.at, transcript.Server(u.Tool)
	// Both names are those of the tool that runs an agent.
	if u.Tool == "task" || u.Tool == "agent" {
		c := jsonwalk.New(u.Args)
		kind := ""
		for c.MaybeObject(); c.Member(); {
			switch string(c.Key()) {
			case "subagent_type":
				kind = adapter.Word(c.Text(), events.MaxID)
			case "prompt":
				u.Asked = c.Text()
			}
		}
		if len(u.Asked) > 0 {
			// The agent has no session of its own in the log, so one is made of the call.
			u.To = events.Party{Session: adapter.Word([]byte(l.session+"/"+u.ID), events.MaxID), Agent: cmp.Or(kind, "task")}
			u.Elsewhere = true
			// The result does not repeat what the call was.
			r.tasks.Put(u.ID, &transcript.Use{ID: u.ID, To: u.To, Elsewhere: true, At: u.At})
		}
	}
	r.log.Call(t, u, emit)
}

// result emits the result of a call. A cancelled call has no result that could be compared.
func (r *reader) result(l *record, t *transcript.Turn, u *transcript.Use, emit func(*events.Event)) {
	// The party comes from the call, the text from the result.
	if given, ok := r.tasks.Get(u.ID); ok {
		said := u.Said
		*u = *given
		u.Said = said
	}
	u.Ended = l.at
	switch {
	// A refusal by a hook or a person is no fault of the tool.
	case l.errorType == "execution_denied":
		u.Status = events.StatusDenied
	case l.status == "cancelled":
		u.Status, u.Said = events.StatusCancelled, nil
	// A command that failed is a success to the program.
	case l.status == "error", transcript.ShellFailed(u.Said):
		u.Status = events.StatusError
	}
	r.log.Result(t, u, emit)
}

// read reads a line of any type; fields that a type does not have stay empty.
func read(line []byte) (*record, error) {
	l := &record{}
	c := jsonwalk.New(line)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "uuid":
			l.uuid = adapter.ID(c.Text())
		case "sessionId":
			l.session = adapter.ID(c.Text())
		case "type":
			l.kind = string(c.Text())
		case "timestamp":
			l.at, _ = c.Stamp()
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case "message":
			// The parts are read twice, for their texts and for calls and results.
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "parts" {
					parts := c.Raw()
					l.text = transcript.PartTexts(jsonwalk.New(parts))
					l.readParts(jsonwalk.New(parts))
				}
			}
		// Of an answer of the model; other records have none.
		case "usageMetadata":
			l.used = usage.Gemini.Read(c)
		case "toolCallResult":
			for c.MaybeObject(); c.Member(); {
				switch string(c.Key()) {
				case "status":
					l.status = string(c.Text())
				case "errorType":
					l.errorType = string(c.Text())
				}
			}
		}
	}
	c.End()
	// All four are on each line, whatever its type.
	missing := func(field string) error { return adapter.Missing(field, "want "+field+" on every line of a chat") }
	switch {
	case c.Err() != nil:
		return nil, c.Err()
	case l.kind == "":
		return nil, missing("type")
	case l.session == "":
		return nil, missing("sessionId")
	case l.uuid == "":
		return nil, missing("uuid")
	case l.at == 0:
		return nil, missing("timestamp")
	}
	return l, nil
}

// readParts reads the calls and results among the parts of a message.
func (l *record) readParts(c *jsonwalk.Cursor) {
	for c.MaybeArray(); c.Element(); {
		for c.MaybeObject(); c.Member(); {
			switch string(c.Key()) {
			case "functionCall":
				var u transcript.Use
				for c.MaybeObject(); c.Member(); {
					switch string(c.Key()) {
					case "id":
						u.ID = adapter.ID(c.Text())
					case "name":
						u.Tool = adapter.Word(c.Text(), events.MaxID)
					case "args":
						u.Args = c.Raw()
					}
				}
				// Without an id its result would not find it.
				if u.ID != "" && u.Tool != "" {
					l.calls = append(l.calls, u)
				}
			// The name of the tool is known by the call.
			case "functionResponse":
				var u transcript.Use
				if u.ID, u.Said = transcript.Response(c); u.ID != "" {
					l.results = append(l.results, u)
				}
			}
		}
	}
}
