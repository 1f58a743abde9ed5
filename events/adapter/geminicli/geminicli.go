// Package geminicli reads chats of Gemini CLI.
//
// It reads the messages of the user, the uses of tools and their results, the tokens of the model's answers
// and the answers that end a turn. One flow is one message of the user.
//
// A message is written again whenever it grows: each of its lines adds what is new in it.
// Lines that begin with $set hold changes of the chat, among them messages. A message that asks for no
// tool may be the end of a turn, or one whose tools were not written down yet. It is emitted when the
// following lines show which.
package geminicli

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// program is the source of events and the name of the main agent.
const program = "gemini-cli"

// Format returns the format of chats.
//
// Starts are reported if a use is written down before its result is there.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "geminicli",
		Title:   "Gemini CLI chats, JSON lines, or one document per session",
		Framing: adapter.Lines,
		Score:   adapter.CertainWith("sessionId", "projectHash"), // a line of Claude Code has no projectHash
		Apart:   true,
		New:     func(o adapter.Options) adapter.Adapter { return newReader(o) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Sometimes, Work: adapter.Always},
	}
}

// reader reads one chat.
type reader struct {
	// options are kept for Branch.
	options adapter.Options
	log     *transcript.Log
	turn    transcript.Turn
	// ending is held back until it is known whether tools follow.
	ending *message // that may be the end of the turn
}

// newReader leaves the descriptions of commands out of their hashes.
func newReader(o adapter.Options) *reader {
	return &reader{options: o, log: transcript.New(transcript.Ignoring(o, shell, "description"), program)}
}

// shell is the tool whose description is the model's word on what it does.
const shell = "run_shell_command"

// Branch returns an adapter for one more file: the first line of each says what session it is.
func (r *reader) Branch() adapter.Adapter { return newReader(r.options) }

// Flush emits the end of the last turn.
func (r *reader) Flush(emit func(*events.Event)) error {
	r.end(emit)
	return nil
}

// Decode reads one line, or one document.
//
// A line is the head of a chat, a message, or changes; a document has head and messages in
// one.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// A line may be any of the three, so all members are read before it is known which.
	var session, kind string
	var messages [][]byte
	c := jsonwalk.New(record)
	isMessage := false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "sessionId":
			session = adapter.ID(c.Text())
		case "kind":
			kind = string(c.Text())
		case "messages":
			messages = elements(c)
		// A change may bring messages that were written before, which are emitted once.
		case "$set":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "messages" {
					messages = elements(c)
				}
			}
		// Only messages have a type.
		case "type":
			isMessage = true
			c.Skip()
		}
	}
	c.End()
	if c.Err() != nil {
		return c.Err()
	}
	// A line of another session begins that one.
	if session != "" && session != r.turn.Session {
		r.end(emit)
		r.turn = transcript.Turn{Session: session, By: events.Party{Session: session, Agent: program}}
		// Agents that run beside the main one have chats of their own kind.
		if kind != "" && kind != "main" {
			r.turn.By.Agent = adapter.Word([]byte(program+"-"+kind), events.MaxID)
		}
	}
	if isMessage {
		messages = append(messages, record)
	}
	// A message does not say what session it is of.
	if len(messages) > 0 && r.turn.Session == "" {
		return adapter.Missing("sessionId", "want the line that says what session this is before all others")
	}
	// One bad message of a document does not cost the others.
	left := &adapter.PartError{Of: len(messages), What: "messages"}
	for _, m := range messages {
		if err := r.message(m, emit); err != nil {
			left.LeftOut++
			if left.First == nil {
				left.First = err
			}
		}
	}
	switch {
	case left.First == nil:
		return nil
	// A single message that cannot be read is the record's own fault.
	case isMessage:
		return left.First
	}
	return left
}

// elements are the elements of an array as they stand.
func elements(c *jsonwalk.Cursor) (all [][]byte) {
	for c.MaybeArray(); c.Element(); {
		all = append(all, c.Raw())
	}
	return all
}

// message emits the new parts of a message.
func (r *reader) message(record []byte, emit func(*events.Event)) *events.DecodeError {
	m, err := read(record)
	if err != nil {
		return err
	}
	switch m.kind {
	// Results are sent to the model in the user's name.
	case "user":
		if len(m.text) == 0 || bytes.HasPrefix(m.text, []byte("<session_context>")) {
			return nil // the result of a tool, or what the program itself says
		}
		// A prompt that is written again ends nothing.
		if r.log.Again(m.id) {
			return nil
		}
		// What the user says shows that the turn before was over.
		r.end(emit)
		r.turn.Prompt = m.id
		r.log.Prompt(&r.turn, m.id, m.at, m.text, emit)
	case "gemini":
		r.log.Inference(&r.turn, m.id, m.at, m.model, "gemini", m.used, emit)
		// Uses grow with the message: each is emitted when it is there, once.
		r.log.Uses(&r.turn, m.uses, emit)
		switch came := r.log.Again(m.id); {
		// Nothing new: it was emitted, or went on.
		case came && (r.ending == nil || r.ending.id != m.id): // it is written again
		case len(m.uses) == 0 && len(m.text) > 0:
			// The text outlives the record.
			m.text = bytes.Clone(m.text)
			r.ending = m
		// It asks for tools, so the turn goes on.
		default:
			r.ending = nil
		}
	}
	return nil
}

// end emits the end of a turn, if it was one.
//
// It is called whenever a new turn begins and at the end of the log.
func (r *reader) end(emit func(*events.Event)) {
	if m := r.ending; m != nil {
		r.ending = nil
		r.log.Answer(&r.turn, m.id, m.at, events.StatusOK, m.text, emit)
	}
}
