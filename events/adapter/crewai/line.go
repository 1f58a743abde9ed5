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
//
// args, prompt and output alias the record.
type line struct {
	// started names the event that this one ends.
	id, parent, started string
	kind                string
	at                  int64 // µs since 1970
	// role is the agent's, which is all that names it.
	role           string
	tool           string
	args           []byte
	prompt, output []byte
	failed         bool
	failure        string
	model          string
	usage          events.Usage
	correlation    string
}

// read reads one event. Of the many members of agents and crews only names are looked at: the
// rest holds keys of models.
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
		// An event may name its agent in several ways, all of which agree.
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
		// The inputs of a crew are the user's, which may name a flow there.
		case "inputs":
			l.correlation = adapter.ID(c.TextOf("correlation_id"))
		}
	}
	c.End()
	// The role that the event itself names goes first.
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
//
// Anything else, such as null, is no failure.
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

// counts are the names that different clients of models have.
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
