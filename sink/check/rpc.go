package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"weir/events"
	"weir/events/a2aflow"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// The methods that are calls. A2A renamed its own in version 1.0.
const (
	methodToolsCall     = "tools/call"
	methodSend          = "message/send"
	methodStream        = "message/stream"
	methodSendMessage   = "SendMessage"
	methodStreamMessage = "SendStreamingMessage"
)

// maxBatch bounds how many messages one body may hold.
// A body with more would be one cheap request with many dear asks.
const maxBatch = 64

// Message is a JSON-RPC request, as far as a guard reads it.
type Message struct {
	Version string `json:"jsonrpc"`
	// ID is raw, so that a number and a text are answered as they came. It is empty for a
	// notification.
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// errTwoMethods refuses a message that servers may read as different methods.
var errTwoMethods = errors.New("the message names its method more than once")

// UnmarshalJSON reads a message whose method every server reads alike. encoding/json takes the
// last member of a name in any case, and other servers take the first, or that of the exact name.
func (m *Message) UnmarshalJSON(raw []byte) error {
	in := json.NewDecoder(bytes.NewReader(raw))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return errors.New("the message is not an object")
	}
	methods := 0
	var skipped json.RawMessage // used again for each member that is not read
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		var to any = &skipped
		switch strings.ToLower(name) {
		case "jsonrpc":
			to = &m.Version
		case "id":
			to = &m.ID
		case "params":
			to = &m.Params
		case "method":
			to = &m.Method
			if methods++; methods > 1 || name != "method" {
				return errTwoMethods
			}
		}
		if err := in.Decode(to); err != nil {
			return err
		}
	}
	return nil
}

// sendsMessage reports whether it is a message to an agent, by A2A.
func (m *Message) sendsMessage() bool {
	switch m.Method {
	case methodSend, methodStream, methodSendMessage, methodStreamMessage:
		return true
	}
	return false
}

// messages reads the requests of a body: one, or a batch. A body that is not JSON-RPC, or that
// was cut, has none.
// It returns an error only for a batch that is too long; what is not JSON-RPC may be any other
// request.
func messages(body []byte) ([]Message, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, nil
	}
	if body[0] == '[' {
		// One by one: a decoded message takes forty times the bytes of an empty one.
		var batch []Message
		err := each(body, func(in *json.Decoder) error {
			if len(batch) == maxBatch {
				return &Error{http.StatusRequestEntityTooLarge, "the batch has too many messages"}
			}
			batch = append(batch, Message{})
			return in.Decode(&batch[len(batch)-1])
		})
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, e
		}
		// A batch that is broken is not half a batch: the server behind the gateway refuses
		// it, too.
		if err != nil {
			return nil, nil
		}
		return batch, nil
	}
	var m Message
	// encoding/json finds members in any case, which is more than a strict server takes, and
	// counts more rather than less.
	if body[0] != '{' || json.Unmarshal(body, &m) != nil || m.Version != "2.0" {
		return nil, nil
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	return []Message{m}, nil
}

// each calls fn for each member of an array, which has nothing behind it, to take it off the decoder.
// The decoder stands behind the member when fn returns; fn must take exactly one.
func each(array []byte, fn func(*json.Decoder) error) error {
	in := json.NewDecoder(bytes.NewReader(array))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(errors.New("no array"), err)
	}
	for in.More() {
		if err := fn(in); err != nil {
			return err
		}
	}
	if _, err := in.Token(); err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("something is behind the array")
	}
	return nil
}

// said is what a request says of the call in it, in its body and in its headers.
// The message takes precedence over the headers, see meta.
type said struct {
	explicit, conversation, session string // correlation ids, by where they were found
	baggage                         wire.Flow
	trace                           wire.Trace
	client                          string
	hop                             *a2aflow.Hop // of weir's extension of A2A; nil for none
}

// meta are the members of _meta that guards read.
type meta struct {
	Baggage     string `json:"baggage"`
	Traceparent string `json:"traceparent"`
	Client      struct {
		Name string `json:"name"`
	} `json:"io.modelcontextprotocol/clientInfo"`
}

// meta takes in what _meta says. Only what is there takes the place of what headers said.
func (s *said) meta(m *meta) {
	s.baggage = wire.Baggage([]byte(m.Baggage)).Or(s.baggage)
	if t := wire.Traceparent([]byte(m.Traceparent)); t.ID != "" {
		s.trace = t
	}
	if m.Client.Name != "" {
		s.client = m.Client.Name
	}
}

// takeHop takes in what weir's extension of A2A says. Its flow is as good as one of baggage, and its hops are
// the caller's count of the levels above the call.
func (s *said) takeHop(ev *events.Event, hop *a2aflow.Hop) {
	s.hop = hop
	s.baggage = wire.Flow{ID: hop.Flow, Parent: hop.Parent, Root: hop.Root}.Or(s.baggage)
	ev.DelegationDepth = hop.Hops
}

// toolCall reads the parameters of tools/call into the event.
// false for parameters that are none: the call is then counted by its path.
func (m *Message) toolCall(ev *events.Event, s *said) bool {
	var p struct {
		Name      string                     `json:"name"`
		Arguments json.RawMessage            `json:"arguments"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		State     *string                    `json:"requestState"`
		Meta      meta                       `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Name == "" {
		return false
	}
	ev.Kind, ev.Tool.Name, ev.Tool.Type = events.ToolCall, p.Name, "mcp"
	// The hash is of all arguments, by SHA-256: gateways know no settings of tools.
	ev.Tool.ArgsHash, ev.Tool.ArgsSize = fingerprint.ArgsSHA256(p.Arguments, nil), int64(len(p.Arguments))
	if p.Responses != nil || p.State != nil {
		ev.Tool.RetryOf = "input_required" // the answer to the call before asked to send it again, with what it lacked or without
	}
	s.meta(&p.Meta)
	return true
}

// agentCall reads the parameters of an A2A message into the event.
func (m *Message) agentCall(ev *events.Event, s *said) bool {
	type metadata struct {
		// Both spellings are in use; where both stand, the second counts.
		Correlation string          `json:"correlation_id"`
		Camel       string          `json:"correlationId"`
		Hop         json.RawMessage `json:"urn:weir:a2a:flow:v1"` // a2aflow.URI
		meta
	}
	var p struct {
		Message struct {
			ID       string          `json:"messageId"`
			Context  string          `json:"contextId"`
			Task     string          `json:"taskId"`
			Metadata metadata        `json:"metadata"`
			Parts    json.RawMessage `json:"parts"`
		} `json:"message"`
		Metadata metadata `json:"metadata"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return false
	}
	ev.Kind, ev.MessageID, ev.ConversationID, ev.TaskID = events.AgentCall, p.Message.ID, p.Message.Context, p.Message.Task
	var text []byte
	if len(p.Message.Parts) > 0 && !bytes.Equal(p.Message.Parts, []byte("null")) {
		// A body of a megabyte may hold very many empty parts, so they are read one at a time.
		err := each(p.Message.Parts, func(in *json.Decoder) error {
			var part struct {
				Text string `json:"text"`
			}
			if err := in.Decode(&part); err != nil {
				return err
			}
			text = append(append(text, part.Text...), '\n')
			return nil
		})
		if err != nil {
			return false
		}
	}
	if len(text) > 0 {
		ev.Content, ev.Sim = fingerprint.Content(text), fingerprint.Text(text)
	}
	// What the message says of itself goes before the request around it.
	for _, d := range []*metadata{&p.Metadata, &p.Message.Metadata} {
		for _, id := range []string{d.Correlation, d.Camel} {
			if id != "" {
				s.explicit = id
			}
		}
		s.meta(&d.meta)
		if hop, ok := a2aflow.Read(d.Hop); ok {
			s.takeHop(ev, &hop)
		}
	}
	// It names the flow only if nothing explicit does, see correlate.
	s.conversation = p.Message.Context
	return true
}
