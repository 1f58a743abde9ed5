package otlp

import (
	"bytes"

	"weir/events/adapter/jsonwalk"
)

// said is the message in the input or output of a span.
//
// text aliases what was read.
type said struct {
	text []byte
	list bool // the last of a list of messages
	cut  bool // the value was cut off; the list may have gone on
}

// lastText finds the last text in a list of messages, however the framework wraps
// it. What is no JSON is a message itself, and so is JSON in which no text is found.
// It reads as far as the JSON goes, for exporters cut long values.
//
// The last text of a list is what was said last, which is what a run is called with or
// answers.
func lastText(p []byte) said {
	p = bytes.TrimSpace(p)
	if len(p) == 0 || p[0] != '{' && p[0] != '[' {
		return said{text: p}
	}
	found := said{list: p[0] == '['}
	// The closure goes down JSON of any form; jsonwalk bounds its depth.
	var look func(c *jsonwalk.Cursor, isText bool)
	look = func(c *jsonwalk.Cursor, isText bool) {
		switch c.Peek() {
		case '{':
			for c.Object(); c.Member(); {
				found.list = found.list || string(c.Key()) == "messages"
				look(c, holdsText(c.Key()))
			}
		case '[':
			for c.Array(); c.Element(); {
				look(c, isText)
			}
		case '"':
			// An empty text is that of a message with nothing but calls.
			if text := c.Text(); isText && len(text) > 0 {
				found.text = text
			}
		default:
			c.Skip()
		}
	}
	c := jsonwalk.New(p)
	look(c, false)
	found.cut = c.Err() != nil
	// Of a document that was cut the texts within may not be the last.
	if found.text == nil || found.cut && !found.list {
		found.text = p
	}
	return found
}

// messages are the texts that a run of an agent began and ended with. Of a list
// that was cut off the end is missing, and with it the message.
func messages(input, output []byte) (message, answer []byte) {
	in, out := lastText(input), lastText(output)
	message, answer = in.text, out.text
	// Where only the beginning of a list is left, it is not known what was said last.
	if in.cut && in.list {
		message = nil
	}
	if out.cut && out.list && bytes.Equal(out.text, in.text) {
		answer = nil // it began with the messages of the input
	}
	return message, answer
}

// holdsText is true for the names under which frameworks keep the text of a message.
//
// The list is short on purpose: a name too many takes an id for what was said.
func holdsText(key []byte) bool {
	switch string(key) {
	case "content", "text", "response", "prompt", "task", "query", "question", "message":
		return true
	}
	return false
}

// withoutAddresses removes the addresses from what Python prints for an object
// ("<Context object at 0x7fb7a0525a90>"), which are new in every call.
// Less than six digits may be anything, and stay.
func withoutAddresses(p []byte) []byte {
	const mark = " at 0x"
	if !bytes.Contains(p, []byte(mark)) {
		return p
	}
	out := make([]byte, 0, len(p))
	for {
		before, after, found := bytes.Cut(p, []byte(mark))
		out = append(out, before...)
		if !found {
			return out
		}
		n := 0
		for n < len(after) && (after[n]-'0' <= 9 || after[n]|0x20-'a' < 6) {
			n++
		}
		if n < 6 {
			out = append(out, mark...)
			p = after
			continue
		}
		p = after[n:]
	}
}

// markedAsError reports whether a result says of itself that it is an error, in the
// ways of protocols: is_error, isError, or a tool message with the status error. What
// a tool merely writes into its text is not one.
//
// It looks at the outermost members alone.
func markedAsError(p []byte) bool {
	if p = bytes.TrimSpace(p); len(p) == 0 || p[0] != '{' {
		return false
	}
	isError, isMessage, failed := false, false, false
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "is_error", "isError":
			isError = c.Bool()
		// As LangChain writes a ToolMessage.
		case "type":
			isMessage = string(c.Text()) == "tool"
		case "data":
			for c.MaybeObject(); c.Member(); {
				if string(c.Key()) == "status" {
					failed = string(c.Text()) == "error"
				}
			}
		}
	}
	return isError || isMessage && failed
}
