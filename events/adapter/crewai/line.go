package crewai

import (
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/spantree"
	"weir/events/adapter/usage"
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

func read(record []byte) (*line, error) {
	l := &line{}
	var role string
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.kind = string(c.Text())
		case "timestamp":
			l.at = spantree.Micros(c.Text())
		case "event_id":
			l.id = adapter.ID(c.Text())
		case "parent_event_id":
			l.parent = adapter.ID(c.Text())
		case "started_event_id":
			l.started = adapter.ID(c.Text())
		case "agent_role":
			l.role = adapter.Word(c.Text(), events.MaxID)
		case "agent", "agent_info":
			role = cmp.Or(adapter.Word(c.TextOf("role"), events.MaxID), role) // and nothing else of an agent
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
			l.usage = counts.Read(c)
		case "inputs":
			l.correlation = adapter.ID(c.TextOf("correlation_id"))
		}
	}
	c.End()
	l.role = cmp.Or(l.role, role)
	missing := func(field string) error {
		return adapter.Missing(field, "want "+field+" in every event of the bus")
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

// readFailure reads a text, or {"message": ...}.
func (l *line) readFailure(c *jsonwalk.Cursor) {
	var text []byte
	switch c.Peek() {
	case '"':
		text = c.Text()
	case '{':
		text = c.TextOf("message")
	default:
		c.Skip()
		return
	}
	l.failed = true
	l.failure = cmp.Or(fingerprint.Error(text), "error")
}

var counts = usage.Names{
	"prompt_tokens":         usage.Input,
	"input_tokens":          usage.Input,
	"completion_tokens":     usage.Output,
	"output_tokens":         usage.Output,
	"total_tokens":          usage.Total,
	"cached_prompt_tokens":  usage.CacheRead,
	"cached_tokens":         usage.CacheRead,
	"cache_creation_tokens": usage.CacheCreation,
	"reasoning_tokens":      usage.Reasoning,
}
