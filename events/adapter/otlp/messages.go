package otlp

import (
	"math"

	"weir/events/adapter/anyvalue"
	"weir/events/adapter/jsonwalk"
)

// eventContent is the content that span events carry, where a program follows the GenAI
// conventions up to 1.36: one event for each message, none of it in attributes of the
// span. It counts only where the span itself has no such attribute.
// Its texts alias the record, and are hashed before it is gone.
type eventContent struct {
	system, user []byte // the messages to a run or a request
	tool         []byte // what a tool was called with
	choice       []byte // its answer or result
}

// readEvents takes type and message of an exception, and the messages that are events of
// the span.
//
// Where several events are of one name the last counts.
func (s *span) readEvents(c *jsonwalk.Cursor, a *attributes) {
	for c.Array(); c.Element(); {
		name, list := "", []byte(nil)
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "name":
				name = string(c.Text())
			case "attributes":
				list = c.Raw()
			}
		}
		if len(list) == 0 {
			continue
		}
		// An event has attributes of the same names as a span.
		var own attributes
		own.read(jsonwalk.New(list))
		for _, f := range [...]field{errorType, errorMessage} {
			a.borrow(f, &own)
		}
		switch name {
		// Events of the older conventions have the text as an attribute of the event.
		case "gen_ai.system.message":
			a.eventContent.system = message(list)
		case "gen_ai.user.message":
			a.eventContent.user = message(list)
		case "gen_ai.tool.message":
			a.eventContent.tool = message(list)
		case "gen_ai.choice":
			a.eventContent.choice = message(list)
		// Those of today have the attributes of a span.
		case "gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.client.inference.operation.details":
			for _, f := range [...]field{input, output, systemPrompt, toolArgs, toolResult} {
				a.borrow(f, &own)
			}
		}
	}
}

// borrow takes a field of an event that the span itself does not have.
func (a *attributes) borrow(f field, event *attributes) {
	if !a.has(f) && event.has(f) {
		// The rank is the worst one.
		a.text[f], a.rank[f] = event.text[f], math.MaxUint8
	}
}

// message is the content of a message that is an event.
//
// Names of the text differ by version.
func message(list []byte) (text []byte) {
	c := jsonwalk.New(list)
	for c.Array(); c.Element(); {
		var key string
		var value []byte
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "key":
				key = string(c.Text())
			case "value":
				value = anyvalue.Text(c)
			}
		}
		switch key {
		case "content", "message", "gen_ai.event.content":
			text = value
		}
	}
	return text
}

// settle gives a span the content of its events where its attributes have none. The content of a
// tool is a message to it and the resulting choice. That of any other span is the user's message
// and the choice.
// The attributes of the span have priority in any case.
func (t *eventContent) settle(a *attributes, k kind) {
	take := func(f field, text []byte) {
		if !a.has(f) {
			a.text[f], a.rank[f] = text, math.MaxUint8
		}
	}
	take(systemPrompt, t.system)
	if k == toolUse {
		if !a.has(input) {
			take(toolArgs, t.tool)
		}
		if !a.has(output) {
			take(toolResult, t.choice)
		}
		return
	}
	take(input, t.user)
	take(output, t.choice)
}
