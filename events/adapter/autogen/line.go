package autogen

import (
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/fingerprint"
)

// line is one record as it was read.
//
// The fields of all three kinds of records are in it, of which one kind has its own.
type line struct {
	kind            string
	from, to, agent address
	// Each message is logged when it is sent and when it is delivered; sent marks the former.
	sent            bool // not delivered, which is also logged for each message
	direct          bool // to one agent, as a request or a response
	responds        bool
	publishes       bool
	payload         payload
	tool            string
	args, result    []byte
	usage           events.Usage
	response, model string // id of the model's response
}

// address is an AgentId, "type/key". The types of a team's agents end in the id of
// the team, which is the key.
//
// A type without a key is a name alone.
type address struct{ name, key string }

func parseAddress(p []byte) address {
	kind, key, found := strings.Cut(adapter.ID(p), "/")
	if !found {
		return address{name: kind}
	}
	// The id of the team is taken off, so that an agent has one name in all teams.
	return address{strings.TrimSuffix(kind, "_"+key), key}
}

// isManager is true for what runs a team.
//
// Each kind of team has a manager of its own class.
func (a address) isManager() bool {
	return strings.HasSuffix(a.name, "GroupChatManager") || strings.HasSuffix(a.name, "Orchestrator") || strings.HasSuffix(a.name, "GraphFlowManager")
}

// message is one message of AgentChat.
//
// correlation is what the program put into its metadata; target is of a HandoffMessage.
type message struct {
	id, source, kind string
	at               events.Stamp
	target           string
	said             events.Hash
	sim              events.Fingerprint
	calls            []toolPart
	correlation      string
}

// toolPart is one request or one result in the content of a message.
//
// args and result alias the record, and are hashed before the next is read.
type toolPart struct {
	id, name     string
	args, result []byte
	failed       bool
}

// payload is the content of a Message.
//
// Its members show its type: messages begin a run, message is a piece of a turn, response ends
// one. messages has all of them, for their times.
type payload struct {
	messages []*message
	starts   bool // the beginning of a run of a team
	request  bool // to speak
	opaque   bool // it could not be serialized
	inner    *message
	reply    *message
	// said is of the payload as it is, for programs on the core.
	said events.Hash
	sim  events.Fingerprint
}

// at is the latest time in the payload.
//
// It is 0 if no message has one.
func (p *payload) at() (at events.Stamp) {
	for _, m := range p.messages {
		at = max(at, m.at)
	}
	return at
}

// read reads a record of any kind. Its payload is only read where it is of use.
func read(record []byte) (*line, error) {
	l := &line{}
	var carried []byte
	known := false
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.kind = string(c.Text())
			known = true
		case "payload":
			carried = c.Scalar()
		case "sender":
			l.from = parseAddress(c.Text())
		case "receiver":
			l.to = parseAddress(c.Text())
		case "agent_id":
			l.agent = parseAddress(c.Text())
		case "kind":
			kind := string(c.Text())
			l.responds, l.publishes = kind == "MessageKind.RESPOND", kind == "MessageKind.PUBLISH"
			l.direct = kind == "MessageKind.DIRECT" || l.responds
		case "delivery_stage":
			l.sent = string(c.Text()) == "DeliveryStage.SEND"
		case "tool_name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "arguments":
			l.args = c.Scalar()
		case "result":
			l.result = c.Scalar()
		case "prompt_tokens":
			l.count(c, &l.usage.Input)
		case "completion_tokens":
			l.count(c, &l.usage.Output)
		case "response":
			l.readResponse(c)
		}
	}
	c.End()
	if c.Err() != nil {
		return nil, c.Err()
	}
	if !known {
		return nil, adapter.Missing("type", "want type in every record of autogen_core.events")
	}
	if l.kind == "Message" && l.sent {
		l.payload.read(carried)
	}
	return l, nil
}

// count reads a count of tokens; one that is there makes usage known.
func (l *line) count(c *jsonwalk.Cursor, field *int64) {
	if v, ok := c.Count(); ok {
		*field, l.usage.Known = v, true
	}
}

// readResponse takes the id by which a response is known again, and the model.
func (l *line) readResponse(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			l.response = adapter.ID(c.Text())
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		}
	}
}

// read reads a payload, which is JSON in a string, of any form.
//
// What is no JSON object could not be serialized by AutoGen.
func (p *payload) read(text []byte) {
	p.said, p.sim = fingerprint.Content(text), fingerprint.Text(text)
	c := jsonwalk.New(text)
	if c.Peek() != '{' {
		p.opaque = true
		return
	}
	// An empty object is a request to speak.
	empty := true
	for c.Object(); c.Member(); {
		empty = false
		switch key := string(c.Key()); {
		case key == "messages" && c.Peek() == '[':
			p.starts = true
			for c.Array(); c.Element(); {
				p.messages = append(p.messages, readMessage(c))
			}
		case key == "message" && c.Peek() == '{':
			p.inner = readMessage(c)
		case key == "response" && c.Peek() == '{':
			for c.Object(); c.Member(); {
				if string(c.Key()) == "chat_message" && c.Peek() == '{' {
					p.reply = readMessage(c)
				}
			}
		}
	}
	p.request = empty && c.Err() == nil
	// Without a source it is not one of AgentChat's messages.
	if p.inner != nil && p.inner.source == "" {
		p.inner = nil // a message of the program's own making
	}
	if p.reply != nil && p.reply.source == "" {
		p.reply = nil
	}
	for _, m := range [...]*message{p.inner, p.reply} {
		if m != nil {
			p.messages = append(p.messages, m)
		}
	}
}

// readMessage reads a message of AgentChat. One without an id is known by who said what.
func readMessage(c *jsonwalk.Cursor) *message {
	m := &message{}
	if c.Peek() != '{' {
		c.Skip()
		return m
	}
	var content []byte
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			m.id = adapter.ID(c.Text())
		case "source":
			m.source = adapter.Word(c.Text(), events.MaxID)
		case "type":
			m.kind = string(c.Text())
		case "created_at":
			if at, ok := events.ParseStamp(string(c.Text())); ok {
				m.at = at
			}
		case "target":
			m.target = adapter.Word(c.Text(), events.MaxID)
		case "content":
			// A list holds requests or results of tools; anything else is what was said.
			if c.Peek() == '[' {
				content = c.Raw()
				m.readCalls(content)
			} else {
				content = c.Scalar()
			}
		case "metadata":
			m.correlation = adapter.Word(c.TextOf("correlation_id"), events.MaxID)
		}
	}
	m.said, m.sim = fingerprint.Content(content), fingerprint.Text(content)
	if m.id == "" {
		m.id = m.source + "/" + m.said.String()
	}
	return m
}

// readCalls reads requests and results of tools.
//
// Both kinds are read alike: a request has arguments, a result has content.
func (m *message) readCalls(list []byte) {
	c := jsonwalk.New(list)
	for c.Array(); c.Element(); {
		if c.Peek() != '{' {
			continue
		}
		var t toolPart
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "id", "call_id":
				t.id = adapter.ID(c.Text())
			case "name":
				t.name = adapter.Word(c.Text(), events.MaxID)
			case "arguments":
				t.args = c.Scalar()
			case "content":
				t.result = c.Scalar()
			case "is_error":
				t.failed = c.Bool()
			}
		}
		if t.id != "" && t.name != "" {
			m.calls = append(m.calls, t)
		}
	}
}
