package geminicli

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// message is one message of a chat.
//
// text and args alias the record.
type message struct {
	id, kind, model string
	at              events.Stamp
	text            []byte
	used            events.Usage
	uses            []transcript.Use
}

// read reads one message. Those of the program itself are read and passed over by their kind.
func read(record []byte) (*message, *events.DecodeError) {
	m := &message{}
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			m.id = adapter.ID(c.Text())
		case "type":
			m.kind = string(c.Text())
		case "timestamp":
			m.at, _ = c.Stamp()
		case "model":
			m.model = adapter.Word(c.Text(), events.MaxID)
		// Documents have a text, lines a list of parts.
		case "content":
			if c.Peek() == '"' {
				m.text = c.Text()
			} else {
				m.text = transcript.PartTexts(c)
			}
		case "tokens":
			m.used = usage.GeminiCLI.Read(c)
		// They grow from line to line of the same message.
		case "toolCalls":
			for c.MaybeArray(); c.Element(); {
				m.readUse(c)
			}
		}
	}
	// A nil error must stay nil in the type that PartError wants.
	if err, _ := c.Err().(*events.DecodeError); err != nil {
		return nil, err
	}
	switch {
	case m.kind != "user" && m.kind != "gemini": // what the program says to the user
	case m.id == "":
		return nil, adapter.Missing("id", "want id of every message")
	case m.at == 0:
		return nil, adapter.Missing("timestamp", "want timestamp of every message")
	}
	for i := range m.uses {
		// A use has no time of its own but that of its end.
		u := &m.uses[i]
		u.At = m.at
		if u.Ended != 0 {
			u.Ended = max(u.Ended, m.at)
		}
	}
	return m, nil
}

// readUse reads a use of a tool and its result, as far as it is over.
func (m *message) readUse(c *jsonwalk.Cursor) {
	var u transcript.Use
	// at is when it ended; a use that runs has none.
	status, at := "", events.Stamp(0)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			u.ID = adapter.ID(c.Text())
		case "name":
			u.Tool = adapter.Word(c.Text(), events.MaxID)
		case "args":
			u.Args = c.Raw()
		// The result is a list of parts, of which the response is one.
		case "result":
			for c.MaybeArray(); c.Element(); {
				for c.MaybeObject(); c.Member(); {
					if string(c.Key()) == "functionResponse" {
						_, u.Said = transcript.Response(c)
					}
				}
			}
		case "status":
			status = string(c.Text())
		case "timestamp":
			at, _ = c.Stamp()
		}
	}
	// A use without either cannot be emitted exactly once.
	if u.ID == "" || u.Tool == "" {
		return
	}
	u.Server = transcript.Server(u.Tool)
	// While it runs or waits, it has another status and no end.
	switch status {
	case "success":
		// A command that failed is a success to the program.
		if u.Ended = at; u.Tool == shell && transcript.ShellFailed(u.Said) {
			u.Status = events.StatusError
		}
	// Only the program's wording shows that a hook refused the use.
	case "error":
		if u.Ended, u.Status = at, events.StatusError; bytes.HasPrefix(u.Said, []byte("Tool execution blocked")) {
			u.Status = events.StatusDenied
		}
	case "cancelled":
		// What was broken off has no result that could be compared.
		u.Ended, u.Status, u.Said = at, events.StatusCancelled, nil
	}
	m.uses = append(m.uses, u)
}
