// Package envelope removes the wrapping of records: CloudEvents, schema-registry frames, OTLP in protobuf. What comes
// out is JSON that an adapter reads.
//
// What is no JSON inside, such as Avro, is refused with a line that says what to change.
package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/events"
	"weir/events/envelope/otlpwire"
)

// Message is a record as it was received. Headers are looked at without case.
//
// Of a request they are its headers, of a record on a topic those of the record.
type Message struct {
	Headers []Header
	Value   []byte
}

// Header is one header of a record.
type Header struct {
	Name  string
	Value []byte
}

// header returns the first header of a name.
func (m *Message) header(name string) (string, bool) {
	for i := range m.Headers {
		if strings.EqualFold(m.Headers[i].Name, name) {
			return string(m.Headers[i].Value), true
		}
	}
	return "", false
}

// Content is what was in an envelope. It may alias the message.
//
// A message without any envelope comes out as it is.
type Content struct {
	Bytes []byte
	// Wrapping says for people what was taken off; empty for nothing.
	Wrapping string
}

// ErrEmpty is returned for records without a value. On a compacted topic they delete a key and
// contain no event.
//
// It is not a fault, so a reader of a topic skips the record.
var ErrEmpty = errors.New("the record has no value")

// maxWrappings is how many envelopes may lie inside each other.
const maxWrappings = 4

// Open takes off the envelopes of a message. The error is ErrEmpty, or a
// *events.DecodeError when an envelope is broken or holds what cannot be read.
//
// m is given by value, because unwrapping uses up headers.
func Open(m Message) (Content, error) {
	var c Content
	value, err := m.Value, error(nil)
	for range maxWrappings {
		var wrapping string
		if len(value) == 0 {
			return c, ErrEmpty
		}
		switch value, wrapping, err = m.unwrap(value); {
		case err != nil:
			return c, err
		case wrapping == "":
			c.Bytes = value
			return c, nil
		case c.Wrapping != "":
			wrapping = c.Wrapping + ", " + wrapping
		}
		c.Wrapping = wrapping
	}
	return c, refuse(events.CodeTooDeep, "more than %d envelopes inside each other", maxWrappings)
}

// unwrap removes the outermost envelope; wrapping is empty when there is none.
//
// The first byte identifies the frame of a registry and OTLP in protobuf: JSON never begins
// with it.
func (m *Message) unwrap(value []byte) (inside []byte, wrapping string, err error) {
	if value[0] == 0 {
		return unframe(value)
	}
	if inside, wrapping, err = m.cloudEvent(value); err != nil || wrapping != "" {
		return inside, wrapping, err
	}
	if inside, wrapping, err = otlp(value); err != nil || wrapping != "" {
		return inside, wrapping, err
	}
	// What is text may be the line of a log, and an adapter says what is wrong with it.
	if b := value[0]; b != '{' && b != '[' && !isText(value) {
		if _, framed := m.header("__value_schema_id"); framed {
			return nil, "", refuse(events.CodeSyntax, "the value is Avro or Protobuf of a schema registry: name the registry with --schema-registry")
		}
		return nil, "", refuse(events.CodeSyntax, "the value begins with the bytes % x: want JSON, or OTLP spans or logs in protobuf", value[:min(8, len(value))])
	}
	return value, "", nil
}

// otlp rewrites a batch in protobuf as JSON.
//
// Its first byte is a line feed in a text, so more than that byte is looked at.
func otlp(value []byte) ([]byte, string, error) {
	const first = 0x0a // field 1, with a length
	if value[0] != first {
		return value, "", nil
	}
	signal := otlpwire.SignalOf(value)
	switch {
	case signal == otlpwire.Unknown:
		return value, "", nil
	// No JSON of a record begins with a line feed, but a producer may send one.
	case json.Valid(value):
		return nil, "", refuse(events.CodeInvalidValue, "the value is JSON and an OTLP batch of %v in protobuf; name its format with --format", signal)
	case signal == otlpwire.Metrics:
		return nil, "", refuse(events.CodeInvalidValue, "an OTLP batch of metrics; weir reads spans and logs")
	}
	// JSON is longer than protobuf; three times is a first guess of its room.
	out, err := otlpwire.AppendJSON(make([]byte, 0, 3*len(value)), value, signal)
	return out, fmt.Sprintf("OTLP protobuf (%v)", signal), err
}

// isText is true for what may be JSON, or lines of text. It looks at the beginning.
func isText(value []byte) bool {
	head := value[:min(256, len(value))]
	for n := 0; n < utf8.UTFMax && len(head) < len(value) && !utf8.Valid(head); n++ {
		head = head[:len(head)-1] // a character that was cut
	}
	return utf8.Valid(head) && !bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' })
}

// refuse makes the fault of a record; it has no place but its beginning.
func refuse(code events.Code, format string, args ...any) *events.DecodeError {
	return &events.DecodeError{Code: code, Offset: 0, Reason: fmt.Sprintf(format, args...)}
}
