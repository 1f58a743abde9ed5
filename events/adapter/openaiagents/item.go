package openaiagents

import (
	"bytes"
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/spantree"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// item is one trace or span as it was read.
// A trace has object "trace" and no times; of a span the members of its kind are set.
//
// Byte slices alias the record.
type item struct {
	object, id, trace, parent string
	group, correlation        string // of a trace
	parentFlow, rootFlow      string
	start, end                int64 // µs since 1970
	// failure is normalised, so that equal failures are equal.
	failed  bool
	failure string

	kind, name, from, to string // span_data
	// A custom span says what it is in its data, if it is the SDK's own.
	sdkType, agent string // span_data.data of a custom span
	server         string
	args           []byte
	// readData hashes arguments only in run, since which are left out depends on the tool.
	ignore adapter.IgnoreArgs
	// answer is what a function brought.
	answer []byte
	model  string
	usage  events.Usage
}

// read returns the items of a record.
//
// A record is one item, or a body with a list of them.
//
// A fault anywhere refuses all of them.
func read(record []byte, ignore adapter.IgnoreArgs) ([]item, error) {
	var items []item
	c := jsonwalk.New(record)
	if isBody(record) {
		for c.Object(); c.Member(); {
			// Other members of a body say nothing of spans.
			if string(c.Key()) != "data" {
				continue
			}
			for c.Array(); c.Element(); {
				items = append(items, readItem(c, ignore))
			}
		}
	} else {
		items = append(items, readItem(c, ignore))
	}
	c.End()
	return items, c.Err()
}

// readMetadata reads what a program says of the flow of a trace.
func (it *item) readMetadata(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "correlation_id":
			it.correlation = adapter.ID(c.Text())
		case "parent_correlation_id":
			it.parentFlow = adapter.ID(c.Text())
		case "root_correlation_id":
			it.rootFlow = adapter.ID(c.Text())
		}
	}
}

// isBody reports whether the first member of the record is data.
// A span may have a member data as well, but not as its first.
func isBody(record []byte) bool {
	c := jsonwalk.New(record)
	if c.Peek() != '{' {
		return false
	}
	c.Object()
	return c.Member() && string(c.Key()) == "data" && c.Peek() == '['
}

// readItem reads a trace or a span; members of the other are not there.
func readItem(c *jsonwalk.Cursor, ignore adapter.IgnoreArgs) item {
	it := item{ignore: ignore}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "object":
			it.object = string(c.Text())
		case "id":
			it.id = adapter.ID(c.Text())
		case "trace_id":
			it.trace = adapter.ID(c.Text())
		case "parent_id":
			it.parent = adapter.ID(c.Text())
		// Traces of one conversation share it.
		case "group_id":
			it.group = adapter.ID(c.Text())
		// Both are texts in RFC 3339, and null while there is no end.
		case "started_at":
			it.start = spantree.Micros(c.Text())
		case "ended_at":
			it.end = spantree.Micros(c.Text())
		case "metadata":
			it.readMetadata(c)
		case "span_data":
			it.readData(c)
		case "error":
			it.readError(c)
		}
	}
	return it
}

// readData reads span_data. Members of all kinds are read alike, and run takes what the kind
// needs.
//
// Names of both an agent and a function stand in name.
func (it *item) readData(c *jsonwalk.Cursor) {
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			it.kind = string(c.Text())
		case "name":
			it.name = adapter.Word(c.Text(), events.MaxID)
		// These two are of a handoff; the second is null until it is made.
		case "from_agent":
			it.from = adapter.Word(c.Text(), events.MaxID)
		case "to_agent":
			it.to = adapter.Word(c.Text(), events.MaxID)
		case "input":
			it.args = c.Scalar()
		case "output":
			it.answer = c.Scalar()
		case "model":
			it.model = adapter.Word(c.Text(), events.MaxID)
		case "usage":
			it.usage = counts.Read(c)
		// A tool of an MCP server names it here.
		case "mcp_data":
			it.server = adapter.Word(c.TextOf("server"), events.MaxID)
		case "data":
			it.readCustom(c)
		}
	}
}

// readCustom reads the SDK's own custom spans, turn and task.
func (it *item) readCustom(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	// A custom span of a program may have any data; only the SDK's own are believed.
	// It is only taken over when it is known whose span it is.
	var usage events.Usage
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "sdk_span_type":
			it.sdkType = string(c.Text())
		case "agent_name":
			it.agent = adapter.Word(c.Text(), events.MaxID)
		case "usage":
			usage = counts.Read(c)
		}
	}
	if it.sdkType != "" {
		it.usage = usage
	}
}

// counts are the names of all versions, and those of the sums.
//
// Details are objects that count parts of the sum beside them.
var counts = usage.Names{
	"input_tokens":              usage.Input,
	"prompt_tokens":             usage.Input,
	"output_tokens":             usage.Output,
	"completion_tokens":         usage.Output,
	"total_tokens":              usage.Total,
	"cached_input_tokens":       usage.CacheRead,
	"cached_tokens":             usage.CacheRead,
	"cache_write_input_tokens":  usage.CacheCreation,
	"cache_write_tokens":        usage.CacheCreation,
	"reasoning_tokens":          usage.Reasoning,
	"input_tokens_details":      usage.Details,
	"output_tokens_details":     usage.Details,
	"prompt_tokens_details":     usage.Details,
	"completion_tokens_details": usage.Details,
}

// readError reads {"message": ..., "data": {"error": ...}}.
// Programs may also give a text.
func (it *item) readError(c *jsonwalk.Cursor) {
	switch c.Peek() {
	case '{':
	case '"':
		it.failed = true
		it.failure = fingerprint.Error(c.Text())
		return
	default:
		c.Skip()
		return
	}
	it.failed = true
	var message, detail []byte
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "message":
			message = c.Text()
		case "data":
			detail = c.TextOf("error")
		}
	}
	// The colon is cut where one of the two is missing.
	text := bytes.Trim(bytes.Join([][]byte{message, detail}, []byte(": ")), ": ")
	it.failure = cmp.Or(fingerprint.Error(text), "error")
}

// run makes the run that a span stands for.
// What it leaves zero a later record of the same span may fill in.
//
// A span of another kind, or of a program's own, stays a step.
func (it *item) run() spantree.Span {
	r := spantree.Span{ID: it.id, Parent: it.parent, Start: it.start, End: it.end}
	// An end without an error went well.
	if it.end != 0 {
		r.Status = events.StatusOK
	}
	if it.failed {
		r.Status, r.Failure = events.StatusError, it.failure
	}
	switch it.kind {
	// The tree derives the calls from the nesting of agents.
	case "agent":
		r.Kind, r.Agent = spantree.Agent, it.name
	case "handoff":
		r.Kind, r.Agent, r.To = spantree.Handoff, it.from, it.to
	case "function":
		r.Kind = spantree.Tool
		r.Tool = events.Tool{Name: cmp.Or(it.name, "function"), Server: it.server}
		// A start has no arguments; an empty hash keeps them unknown until the end.
		if it.end != 0 { // else they are empty, whatever the function was given
			r.Tool.ArgsSize = int64(len(it.args))
			r.Tool.ArgsHash = fingerprint.Args(it.args, it.ignore.Of(it.name))
			r.Answer, r.Near = fingerprint.Result(it.answer)
			r.Call, r.Result = deed.CallOf(r.Tool.Name, it.args, r.Tool.ArgsHash), deed.ResultOf(it.answer)
			message := inputOf(it.args)
			r.Content, r.Sim = fingerprint.Content(message), fingerprint.Text(message)
		}
	// A response is one of the Responses API, a generation one of any other.
	case "response", "generation":
		r.Kind, r.Model, r.Usage = spantree.Inference, it.model, it.usage
	case "custom":
		r.Agent = it.agent
		if it.sdkType == "turn" { // a task, and an agent, would be the sum of several
			r.Usage = it.usage
		}
	}
	return r
}

// inputOf is what an agent that runs as a tool is asked: the argument input, else all
// arguments.
// The SDK gives an agent that is a tool one argument, input.
func inputOf(args []byte) []byte {
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "input" {
			if text := c.Text(); len(text) > 0 {
				return text
			}
			return args
		}
		c.Skip()
	}
	return args
}
