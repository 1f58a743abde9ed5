package langsmith

import (
	"bytes"
	"cmp"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/spantree"
	"weir/events/adapter/tag"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// run is one run as it was read.
//
// inputs and outputs alias the record, but for runs of a multipart body.
type run struct {
	partID            string // of a multipart body
	id, parent, trace string
	order             string // dotted_order: the runs above, each with its start
	name, kind        string
	// Of a run that has not ended, end is 0.
	start, end          int64 // µs since 1970
	inputs, outputs     []byte
	failure             string
	agent, node         string
	thread, correlation string
	above, root         string // the flows that this one descends from
	callID              string
	tags, labels        []string // of the run, and of its metadata
	model, provider     string
	usage               events.Usage
}

// readRun reads a run that is one object.
func readRun(c *jsonwalk.Cursor) *run {
	u := &run{}
	u.read(c)
	return u
}

// read reads the members of a run.
func (u *run) read(c *jsonwalk.Cursor) {
	for c.Object(); c.Member(); {
		u.member(c, string(c.Key()))
	}
	u.own()
}

// own copies what is kept of the record's bytes until the end of a multipart body.
func (u *run) own() {
	if u.partID != "" {
		u.inputs, u.outputs = bytes.Clone(u.inputs), bytes.Clone(u.outputs)
	}
}

// member reads one member of a run, which may also be a part of a multipart body.
//
// In a multipart body the members inputs, outputs and so on are parts by themselves.
func (u *run) member(c *jsonwalk.Cursor, name string) {
	switch name {
	case "id":
		u.id = adapter.ID(c.Text())
	case "parent_run_id":
		u.parent = adapter.ID(c.Text())
	case "trace_id":
		u.trace = adapter.ID(c.Text())
	case "dotted_order":
		u.order = string(c.Text())
	case "name":
		u.name = adapter.Word(c.Text(), events.MaxID)
	case "run_type":
		// It is remembered until the run ends, so one that is long is no kind that is known.
		u.kind = adapter.Word(c.Text(), events.MaxID)
	case "start_time":
		u.start = spantree.Micros(c.Scalar())
	case "end_time":
		u.end = spantree.Micros(c.Scalar())
	case "inputs":
		u.inputs = c.Raw()
	case "outputs":
		u.outputs = c.Raw()
	case "error":
		// Passing control is done by an exception, which is no failure.
		if text := c.Text(); len(text) > 0 && !isControl(text) {
			u.failure = cmp.Or(fingerprint.Error(text), "error")
		}
	case "extra":
		u.readExtra(c)
	case "tags":
		u.tags = tag.OfRun(c.Raw())
	default:
		c.Skip()
	}
}

// isControl is true for exceptions by which LangGraph passes control; nothing failed.
func isControl(p []byte) bool {
	return bytes.HasPrefix(p, []byte("ParentCommand(")) || bytes.HasPrefix(p, []byte("GraphInterrupt("))
}

// readExtra reads what the client adds to a run.
func (u *run) readExtra(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "tool_call_id":
			u.callID = adapter.Word(c.Text(), events.MaxID)
		case "metadata":
			u.readMetadata(c)
		}
	}
}

// readMetadata takes what names agent, thread, flow and model. LangGraph puts its own beside
// the user's.
func (u *run) readMetadata(c *jsonwalk.Cursor) {
	if c.Peek() != '{' {
		c.Skip()
		return
	}
	var thread, session string
	raw := c.Raw()
	u.labels = tag.Labels(raw)
	c = jsonwalk.New(raw)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "lc_agent_name":
			u.agent = adapter.Word(c.Text(), events.MaxID)
		case "langgraph_node":
			u.node = adapter.Word(c.Text(), events.MaxID)
		case "thread_id", "conversation_id":
			thread = adapter.ID(c.Text())
		case "session_id":
			session = adapter.ID(c.Text())
		case "correlation_id":
			u.correlation = adapter.ID(c.Text())
		case "parent_correlation_id":
			u.above = adapter.ID(c.Text())
		case "root_correlation_id":
			u.root = adapter.ID(c.Text())
		case "ls_model_name":
			u.model = adapter.Word(c.Text(), events.MaxID)
		case "ls_provider":
			u.provider = adapter.Word(c.Text(), events.MaxProvider)
		case "usage_metadata":
			u.usage = counts.Read(c)
		}
	}
	// A thread goes before a session, which is a word of other programs.
	u.thread = cmp.Or(thread, session)
}

// counts are the names of usage_metadata and those of older token_usage.
var counts = usage.Names{
	"input_tokens":         usage.Input,
	"prompt_tokens":        usage.Input,
	"promptTokens":         usage.Input,
	"output_tokens":        usage.Output,
	"completion_tokens":    usage.Output,
	"completionTokens":     usage.Output,
	"total_tokens":         usage.Total,
	"totalTokens":          usage.Total,
	"cache_read":           usage.CacheRead,
	"cache_creation":       usage.CacheCreation,
	"reasoning":            usage.Reasoning,
	"input_token_details":  usage.Details,
	"output_token_details": usage.Details,
	// LangChain reports these in the place of cache_creation, which is then 0.
	"ephemeral_5m_input_tokens": usage.CacheMinutes,
	"ephemeral_1h_input_tokens": usage.CacheHour,
}

// complete finds out by dotted_order what the record leaves out: trace, parent and
// start.
//
// It is a path: the start and the id of each run from the root down to this one.
func (u *run) complete() *events.DecodeError {
	if u.id == "" {
		return adapter.Missing("id", "want the id of the run")
	}
	if order := strings.Split(u.order, "."); u.order != "" {
		// Behind the Z stands the id.
		_, root, _ := strings.Cut(order[0], "Z")
		u.trace = cmp.Or(u.trace, adapter.ID([]byte(root)))
		if n := len(order); n > 1 {
			_, above, _ := strings.Cut(order[n-2], "Z")
			u.parent = cmp.Or(u.parent, adapter.ID([]byte(above)))
		}
		// The form is 20060102T150405, six digits of microseconds and a Z.
		if at, _, _ := strings.Cut(order[len(order)-1], "Z"); u.start == 0 && len(at) == len("20060102T150405000000") {
			u.start = spantree.Micros([]byte(at[:4] + "-" + at[4:6] + "-" + at[6:11] + ":" + at[11:13] + ":" + at[13:15] + "." + at[15:] + "Z"))
		}
	}
	// Nothing above it, so it is the root of a trace of its own.
	if u.trace == "" && u.parent == "" {
		u.trace = u.id
	}
	switch {
	case u.trace == "":
		return adapter.Missing("trace_id", "want the id of the trace, or dotted_order")
	case u.start == 0 && u.end == 0:
		return adapter.Missing("start_time", "want an RFC 3339 time or a number of milliseconds")
	}
	return nil
}

// span returns the run as a span of the tree.
//
// The kind of a run decides which fields it has. The metadata identifies a chain that is an agent.
func (u *run) span(ignore adapter.IgnoreArgs) spantree.Span {
	r := spantree.Span{ID: u.id, Parent: u.parent, Start: u.start, End: u.end, Agent: u.agent, Tags: tag.Join(u.tags, u.labels)}
	// An end without a failure went well.
	if u.end != 0 {
		r.Status = events.StatusOK
	}
	if u.failure != "" {
		r.Status, r.Failure = events.StatusError, u.failure
	}
	switch u.kind {
	case "tool", "retriever":
		u.fillTool(&r, ignore)
	case "llm":
		r.Kind, r.Model, r.Provider, r.Usage = spantree.Inference, u.model, u.provider, u.usage
		if !r.Usage.Known {
			// Newer clients put tokens in the metadata, older ones in the outputs.
			r.Usage = usageOf(u.outputs)
		}
	default:
		switch {
		case u.agent != "" && u.name == u.agent:
			r.Kind = spantree.Agent
		// A node is an agent if it asks a model, which the tree finds out.
		case u.agent == "" && u.node != "" && u.name == u.node:
			r.Kind, r.Agent = spantree.Node, u.node
		case u.agent == "" && u.parent == "":
			r.Agent = u.name // stands for the program where no agent is named
			return r
		default:
			// Any other chain is a step.
			return r
		}
		message, answer := lastText(u.inputs), lastText(u.outputs)
		r.Content, r.Sim = fingerprint.Content(message), fingerprint.Text(message)
		r.Answer, r.Near = fingerprint.Content(answer), fingerprint.Text(answer)
	}
	return r
}

// fillTool fills in a tool use, or a handoff that it made.
func (u *run) fillTool(r *spantree.Span, ignore adapter.IgnoreArgs) {
	o := readOutput(u.outputs)
	r.Kind = spantree.Tool
	r.Tool = events.Tool{Name: cmp.Or(u.name, "tool"), CallID: cmp.Or(u.callID, o.callID)}
	if len(u.inputs) > 0 {
		r.Tool.ArgsSize = int64(len(u.inputs))
		r.Tool.ArgsHash = fingerprint.Args(u.inputs, ignore.Of(u.name))
		// The content of the arguments is the message, if the tool hands over.
		r.Content, r.Sim = fingerprint.Content(u.inputs), fingerprint.Text(u.inputs)
	}
	r.Answer, r.Near = fingerprint.Result(o.text)
	r.Call, r.Result = deed.CallOf(u.name, u.inputs, r.Tool.ArgsHash), deed.ResultOf(o.text)
	if o.failed && r.Status != events.StatusError {
		r.Status, r.Failure = events.StatusError, cmp.Or(fingerprint.Error(o.text), "error")
	}
	// A command that goes to the end hands over to no agent.
	if o.next != "" && o.next != "__end__" {
		r.Kind, r.To = spantree.Handoff, o.next
	}
}
