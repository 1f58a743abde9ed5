package adk

import (
	"math"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// message is one event of a session, as far as it is of use.
//
// Its texts are hashed as soon as it was read.
type message struct {
	id, invocation, session, author string
	// branch is the names of agents from the outermost to its own, "" for the main one.
	branch, transfer, model string
	at                      events.Stamp
	parts                   []part
	// The text is gathered from the parts, and dropped once it is hashed.
	text    []byte
	said    events.Hash
	sim     events.Fingerprint
	failure string // normalised
	// partial is of a piece of a streamed text, whose whole follows.
	partial bool
	usage   events.Usage
}

// partKind distinguishes the two kinds of parts that are kept, of the many that exist.
type partKind uint8

const (
	functionCall partKind = iota + 1
	functionResponse
)

// part is a call of a tool or the response to one.
//
// index is its place among the parts that are kept, and makes ids of events.
type part struct {
	kind     partKind
	index    int
	id, name string
	args     events.Hash
	size     int64
	target   string // agent that is handed over to
	said     events.Hash
	sim      events.Fingerprint
	failure  string // normalised
	came     deed.Result
}

// has reports whether the event has a part of the kind.
func (m *message) has(kind partKind) bool {
	for i := range m.parts {
		if m.parts[i].kind == kind {
			return true
		}
	}
	return false
}

func (m *message) hasCalls() bool   { return m.has(functionCall) }
func (m *message) hasResults() bool { return m.has(functionResponse) }

// read reads one event, or the events of one session.
//
// A session gives its id to all of its events. One fault refuses the whole record.
func read(record []byte, ignore adapter.IgnoreArgs) ([]*message, error) {
	var all []*message
	m := &message{}
	isSession := false
	c := jsonwalk.New(record)
	// Members of the record itself are those of an event, or of the session.
	for c.Object(); c.Member(); {
		if string(c.Key()) != "events" || c.Peek() != '[' {
			m.member(c, ignore)
			continue
		}
		isSession = true
		for c.Array(); c.Element(); {
			// Each event is checked by itself, before the session's id is known.
			one := &message{}
			for c.Object(); c.Member(); {
				one.member(c, ignore)
			}
			if one.check(c) && !one.partial {
				all = append(all, one)
			}
		}
	}
	c.End()
	// The id of a session may come behind its events.
	if isSession {
		for _, one := range all {
			one.session = m.id
		}
	} else if c.Err() == nil && m.check(c) && !m.partial {
		all = append(all, m)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return all, nil
}

// check finishes an event that was read.
//
// All four are needed to put an event into its place.
func (m *message) check(c *jsonwalk.Cursor) bool {
	switch {
	case m.author == "":
		c.Fail(events.CodeMissingField, "author", "want the author of every event")
	case m.invocation == "":
		c.Fail(events.CodeMissingField, "invocation_id", "want the invocation of every event")
	case m.id == "":
		c.Fail(events.CodeMissingField, "id", "want the id of every event")
	case m.at == 0:
		c.Fail(events.CodeMissingField, "timestamp", "want the time of every event, in seconds since 1970")
	}
	m.said, m.sim = fingerprint.Content(m.text), fingerprint.Text(m.text)
	m.text = nil
	return c.Err() == nil
}

// id reads an id. Two of them and a word make the id of an event.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2-16) }

// word reads a name.
func word(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID) }

// member reads one member of an event, in camelCase or snake_case.
func (m *message) member(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) {
	switch string(c.Key()) {
	case "id":
		m.id = id(c)
	case "invocation_id", "invocationId":
		m.invocation = id(c)
	case "author":
		m.author = word(c)
	case "branch":
		m.branch = word(c)
	// A number of seconds with a fraction.
	case "timestamp":
		m.at = seconds(c.Scalar())
	case "partial":
		m.partial = c.Bool()
	case "model_version", "modelVersion":
		m.model = word(c)
	case "error_code", "errorCode", "error_message", "errorMessage":
		// Of code and message the one that comes last; both stand for the same.
		if t := c.Text(); len(t) > 0 {
			m.failure = fingerprint.Error(t)
		}
	case "actions":
		m.readActions(c)
	case "usage_metadata", "usageMetadata":
		m.usage = counts.Read(c)
	case "content":
		m.readContent(c, ignore)
	}
}

// seconds reads a time in seconds since 1970.
//
// A fraction counts to the millisecond. 250e9 is beyond the year 9000, as what is no time is.
func seconds(p []byte) events.Stamp {
	v, err := strconv.ParseFloat(string(p), 64)
	if err != nil || v < 0 || v > 250e9 {
		return 0
	}
	return events.Stamp(math.Floor(v * 1000))
}

// readActions takes what the event did to the run.
func (m *message) readActions(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "transfer_to_agent", "transferToAgent":
			m.transfer = word(c)
		}
	}
}

// counts are the names of Gemini's API, in both spellings.
var counts = usage.Names{
	"prompt_token_count":         usage.Input,
	"promptTokenCount":           usage.Input,
	"candidates_token_count":     usage.Output,
	"candidatesTokenCount":       usage.Output,
	"cached_content_token_count": usage.CacheRead,
	"cachedContentTokenCount":    usage.CacheRead,
	"thoughts_token_count":       usage.Reasoning,
	"thoughtsTokenCount":         usage.Reasoning,
}

// readContent reads the parts of what was said.
func (m *message) readContent(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) != "parts" {
			continue
		}
		for c.MaybeArray(); c.Element(); {
			m.readPart(c, ignore)
		}
	}
}

// readPart reads one part: a text, or a call, or a response. Thoughts are no answer and are
// left out.
func (m *message) readPart(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) {
	// What is no object is no part.
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	var text []byte
	thought := false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "text":
			text = c.Text()
		case "thought":
			thought = c.Bool()
		case "function_call", "functionCall":
			m.readFunction(c, functionCall, ignore)
		case "function_response", "functionResponse":
			m.readFunction(c, functionResponse, ignore)
		}
	}
	if thought || len(text) == 0 {
		return
	}
	// Texts of several parts are lines of one.
	if len(m.text) > 0 {
		m.text = append(m.text, '\n')
	}
	m.text = append(m.text, text...)
}

// readFunction reads a call or a response. Without a name it is neither.
func (m *message) readFunction(c *jsonwalk.Cursor, kind partKind, ignore adapter.IgnoreArgs) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	p := part{kind: kind, index: len(m.parts)}
	var args, response []byte
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			p.id = id(c)
		case "name":
			p.name = word(c)
		case "args":
			args = c.Raw()
		case "response":
			response = c.Raw()
		}
	}
	if p.name == "" {
		return
	}
	switch {
	case kind == functionResponse:
		// A session and its events lay the same response out in different ways.
		said := fingerprint.AppendCanonical(nil, response, nil)
		p.said, p.sim = fingerprint.Content(said), fingerprint.Text(said)
		p.came = deed.ResultOf(returned(response))
		// Tools of ADK report errors in a member of that name.
		if text := jsonwalk.New(response).TextOf("error"); len(text) > 0 {
			p.failure = fingerprint.Error(text)
		} else if why, failed := adapter.Failed(response); failed {
			p.failure = fingerprint.Error(why)
		}
	// A handover has no arguments to be compared.
	case isTransfer(p.name):
		p.target = adapter.Word(jsonwalk.New(args).TextOf("agent_name"), events.MaxID)
	default:
		p.args, p.size = fingerprint.Args(args, ignore.Of(p.name)), int64(len(args))
	}
	m.parts = append(m.parts, p)
}

// returned is what the function returned. A value that is no object comes as the one member result of one.
func returned(response []byte) []byte {
	value, members := response, 0
	c := jsonwalk.New(response)
	for c.MaybeObject(); c.Member(); members++ {
		if string(c.Key()) == "result" && c.Peek() == '"' {
			value = c.Text()
		} else {
			c.Skip()
		}
	}
	if members != 1 {
		return response
	}
	return value
}
