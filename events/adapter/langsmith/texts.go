package langsmith

import (
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// output is what a tool gave back: a text, a tool message, or a command to go on
// elsewhere.
//
// text aliases the outputs.
type output struct {
	text   []byte
	callID string
	failed bool
	next   string // the agent to which a command passes control
}

// readOutput reads the outputs of a tool. What has no member output is the result as it is.
func readOutput(p []byte) (o output) {
	c := jsonwalk.New(p)
	if c.Peek() != '{' {
		return o
	}
	o.text = p
	for c.Object(); c.Member(); {
		if string(c.Key()) != "output" {
			continue
		}
		if c.Peek() != '{' {
			o.text = c.Scalar()
			continue
		}
		// A message or a command, as LangChain writes them down.
		raw := c.Raw()
		o.text = raw
		m := jsonwalk.New(raw)
		for m.Object(); m.Member(); {
			switch string(m.Key()) {
			case "content":
				o.text = m.Scalar()
			case "tool_call_id":
				o.callID = adapter.Word(m.Text(), events.MaxID)
			case "status":
				o.failed = string(m.Text()) == "error"
			case "goto":
				o.next = adapter.Word(m.Text(), events.MaxID)
			}
		}
	}
	// Nothing was brought.
	if string(o.text) == "{}" {
		o.text = nil
	}
	return o
}

// usageOf finds the tokens in the outputs of a request to a model.
//
// What stands with the message goes before the sum of the model.
func usageOf(p []byte) (u events.Usage) {
	c := jsonwalk.New(p)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "usage_metadata":
			u = counts.Read(c)
		case "llm_output":
			for c.MaybeObject(); c.Member(); {
				if key := string(c.Key()); (key == "token_usage" || key == "tokenUsage") && !u.Known {
					u = counts.Read(c)
				}
			}
		}
	}
	return u
}

// lastText returns the text of the last message in a state of a graph. A state holds its messages
// as a list at any depth. A state without a list is a message itself.
//
// It reads the JSON to its end, since it needs the last text.
func lastText(p []byte) []byte {
	var found []byte
	var look func(c *jsonwalk.Cursor, isText bool)
	look = func(c *jsonwalk.Cursor, isText bool) {
		switch c.Peek() {
		case '{':
			for c.Object(); c.Member(); {
				switch string(c.Key()) {
				// Names under which texts stand, and below names under which they may be
				// found.
				case "content", "text", "input", "question", "output":
					look(c, true)
				case "messages", "update", "kwargs", "value":
					look(c, false)
				}
			}
		case '[':
			for c.Array(); c.Element(); {
				look(c, isText)
			}
		case '"':
			if text := c.Text(); isText && len(text) > 0 {
				found = text
			}
		default:
			c.Skip()
		}
	}
	c := jsonwalk.New(p)
	look(c, false)
	// Two bytes are an empty object or list.
	if found == nil && len(p) > 2 {
		found = p
	}
	return found
}
