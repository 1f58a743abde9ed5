package crewai

import (
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/runtree"
	"weir/events/fingerprint"
)

// line is one event as it was read.
type line struct {
	id, parent, started string
	kind                string
	at                  int64 // µs since 1970
	role                string
	tool                string
	args                []byte
	prompt, output      []byte
	failed              bool
	failure             string
	model               string
	usage               events.Usage
	correlation         string
}

// id reads an id. Half the room of an event's id is left for what is put behind it.
func id(c *jsonwalk.Cursor) string { return adapter.Word(c.Text(), events.MaxID/2) }

func read(record []byte) (*line, error) {
	l := &line{}
	var role string
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.kind = string(c.Text())
		case "timestamp":
			l.at = runtree.Micros(c.Text())
		case "event_id":
			l.id = id(c)
		case "parent_event_id":
			l.parent = id(c)
		case "started_event_id":
			l.started = id(c)
		case "agent_role":
			l.role = adapter.Word(c.Text(), events.MaxID)
		case "agent", "agent_info":
			role = cmp.Or(readRole(c), role)
		case "tool_name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "tool_args":
			l.args = c.Scalar()
		case "task_prompt":
			l.prompt = c.Text()
		case "output":
			l.output = c.Scalar()
		case "error", "failure":
			l.readFailure(c)
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case "usage":
			l.usage = readUsage(c)
		case "inputs":
			l.readInputs(c)
		default:
			c.Skip()
		}
	}
	c.End()
	l.role = cmp.Or(l.role, role)
	missing := func(field string) error {
		return &events.DecodeError{Code: events.CodeMissingField, Field: field, Offset: -1, Reason: "want " + field + " in every event of the bus"}
	}
	switch {
	case c.Err() != nil:
		return nil, c.Err()
	case l.kind == "":
		return nil, missing("type")
	case l.id == "":
		return nil, missing("event_id")
	case l.at == 0:
		return nil, missing("timestamp")
	}
	return l, nil
}

// readRole takes the role out of an agent, and nothing else.
func readRole(c *jsonwalk.Cursor) (role string) {
	if c.Peek() != '{' {
		c.Skip()
		return ""
	}
	for c.Object(); c.Member(); {
		if string(c.Key()) == "role" {
			role = adapter.Word(c.Text(), events.MaxID)
		} else {
			c.Skip()
		}
	}
	return role
}

// readFailure reads a text, or {"message": ...}.
func (l *line) readFailure(c *jsonwalk.Cursor) {
	var text []byte
	switch c.Peek() {
	case '"':
		text = c.Text()
	case '{':
		for c.Object(); c.Member(); {
			if string(c.Key()) == "message" {
				text = c.Text()
			} else {
				c.Skip()
			}
		}
	default:
		c.Skip()
		return
	}
	l.failed = true
	l.failure = cmp.Or(fingerprint.Error(text), "error")
}

// readInputs takes a correlation id out of what the crew was started with.
func (l *line) readInputs(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	for c.Object(); c.Member(); {
		if string(c.Key()) == "correlation_id" {
			l.correlation = id(c)
		} else {
			c.Skip()
		}
	}
}

func readUsage(c *jsonwalk.Cursor) (u events.Usage) {
	if c.Peek() != '{' {
		c.Skip()
		return u
	}
	for c.Object(); c.Member(); {
		var field *int64
		switch string(c.Key()) {
		case "prompt_tokens", "input_tokens":
			field = &u.Input
		case "completion_tokens", "output_tokens":
			field = &u.Output
		case "total_tokens":
			field = &u.Total
		case "cached_prompt_tokens", "cached_tokens":
			field = &u.CacheRead
		case "cache_creation_tokens":
			field = &u.CacheCreation
		case "reasoning_tokens":
			field = &u.Reasoning
		default:
			c.Skip()
			continue
		}
		if v, ok := c.Int(); ok && v > 0 && v <= events.MaxNumber {
			*field, u.Known = v, true
		}
	}
	return u
}
