package wire

import (
	"iter"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/fingerprint"
)

// Message is one JSON-RPC message.
// Params, Result and Error alias the record that it was read from.
type Message struct {
	ID     string // of a request or its answer; unique per connection at best
	Method string
	Params []byte // JSON
	Result []byte // JSON
	Error  []byte // JSON
}

// Answers reports whether the message is the answer to a request.
// A message with a method is a request or a notification, also when a faulty peer adds a
// result to it.
func (m *Message) Answers() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Failure is the error of an answer, normalised.
// It is short enough for an event, and numbers and ids in the text are taken out of it, so
// that the same failure is the same text each time.
func (m *Message) Failure() string {
	if len(m.Error) == 0 || m.Error[0] != '{' {
		// A server that sends a text instead of an object.
		return fingerprint.Error(m.Error)
	}
	var code int64
	var text []byte
	c := jsonwalk.New(m.Error)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "code":
			code, _ = c.Int()
		case "message":
			text = c.Text()
		}
	}
	// The code is prepended after the text was normalised: it distinguishes errors.
	return adapter.Word([]byte(strconv.FormatInt(code, 10)+" "+fingerprint.Error(text)), events.MaxID)
}

// Messages reads the JSON-RPC messages of a record: its body, the elements of its
// body when that is a batch, and the data of its events. What is none of these is
// passed over.
// The messages are good as long as the record that they alias.
func (r *Record) Messages() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		// A record has one of the two; the other is empty and holds no value.
		for _, text := range [...][]byte{r.body, r.stream} {
			c := jsonwalk.New(text)
			switch c.Peek() {
			case '{':
				if m := message(c); m != nil && !yield(m) {
					return
				}
			case '[':
				for c.Array(); c.Element(); {
					if m := message(c); m != nil && !yield(m) {
						return
					}
				}
			}
		}
	}
}

// message reads the value that follows; nil when it is no JSON-RPC message.
// It leaves the cursor behind the value in both cases, so that a batch goes on after an
// element that is none.
func message(c *jsonwalk.Cursor) *Message {
	if c.Peek() != '{' {
		c.Skip()
		return nil
	}
	m, is := &Message{}, false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "jsonrpc":
			is = string(c.Text()) == "2.0"
		case "id":
			// Ids are numbers or strings: both become their text.
			m.ID = adapter.Word(c.Scalar(), maxName)
		case "method":
			m.Method = adapter.Word(c.Text(), events.MaxID)
		case "params":
			m.Params = c.Raw()
		case "result":
			m.Result = c.Raw()
		case "error":
			m.Error = c.Raw()
		}
	}
	if !is || c.Err() != nil {
		return nil
	}
	return m
}
