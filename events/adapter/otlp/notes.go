package otlp

import (
	"bytes"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Notes is the rule that separates the arguments of a call from what a tracer records beside
// them, in words for the user.
//
// Users see it in SOURCES.md and in weir events describe, and it has to describe exactly what
// withoutNotes does.
const Notes = "Not compared: what a tracer writes beside the arguments. Of an object with inputs and one of input_str, metadata and tags only the inputs count, " +
	"of one with args and kwargs only these, and never members called tool_call_id or that begin with langgraph_, checkpoint_ or __pregel_."

// isNote reports whether an argument names the run that a call belongs to, which is
// another one each time, and nothing of the call.
// Such ids would make equal calls differ.
//
// LangGraph hands its configuration to tools that ask for it.
func isNote(key string) bool {
	return key == "tool_call_id" || strings.HasPrefix(key, "langgraph_") || strings.HasPrefix(key, "checkpoint_") || strings.HasPrefix(key, "__pregel_")
}

// withoutNotes takes the arguments of a tool out of what a tracer recorded, and names
// those that do not count. See Notes.
// ignore is what the caller leaves out already; the second result adds to it.
//
// What is no object, or has none of these, is returned as it is.
func withoutNotes(p []byte, ignore []string) ([]byte, []string) {
	p = bytes.TrimSpace(p)
	if len(p) == 0 || p[0] != '{' {
		return p, ignore
	}
	var inputs, text, kwargs []byte
	var notes []string
	positional, noted := false, false
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); key {
		case "inputs":
			inputs = c.Raw()
		case "input_str":
			noted, text = true, c.Raw()
		case "metadata", "tags":
			noted = true
			c.Skip()
		case "kwargs":
			kwargs = c.Raw()
		case "args":
			raw := c.Raw()
			// An empty list of positional arguments says nothing.
			positional = len(raw) > 0 && raw[0] == '[' && len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0
		default:
			if isNote(key) {
				notes = append(notes, key)
			}
			c.Skip()
		}
	}
	// isObject reports whether the value may be looked into.
	isObject := func(p []byte) bool { return len(p) > 0 && p[0] == '{' }
	switch {
	// What was cut is compared as it is.
	case c.Err() != nil:
	// The inputs may be wrapped once more.
	case noted && isObject(inputs):
		return withoutNotes(inputs, ignore)
	// input_str is what LangChain prints of the inputs, where there are no others.
	case len(text) > 0:
		return text, ignore
	case positional && isObject(kwargs):
		// Both count, so only the tracer's own switch is left out.
		notes = append(notes, "sanitize_inputs_outputs")
	case isObject(kwargs):
		return kwargs, ignore
	}
	if len(notes) > 0 {
		ignore = slices.Concat(ignore, notes)
	}
	return p, ignore
}

// result is what a tool brought, without what a tracer writes around it.
// Its texts alias the record.
type result struct {
	text   []byte
	call   []byte // id of the call, where the result names it
	tool   []byte // and its tool
	failed bool
	why    []byte // what went wrong, where it is less than the text
	// next is where a command of LangGraph goes on; leaves says that it leaves the graph
	// of the agent, and so passes control to another one.
	next   string
	leaves bool
}

// resultWithoutNotes takes the result of a tool out of what a tracer recorded: a message,
// or an object with output and the kwargs of its own call.
//
// What a tool brought itself is never taken apart: an object with other members is a result.
func resultWithoutNotes(p []byte) result {
	p = bytes.TrimSpace(p)
	if len(p) == 0 || p[0] != '{' {
		return result{text: p}
	}
	if r, ok := constructed(p); ok {
		return r
	}
	if r, ok := commanded(p); ok {
		return r
	}
	if r, ok := toolOutput(p); ok {
		return r
	}
	var output []byte
	noted := false
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "output":
			output = c.Raw()
		case "kwargs":
			noted = true
			c.Skip()
		// Any other member makes it a result of the tool's own.
		default:
			return ownResult(p)
		}
	}
	if c.Err() != nil || !noted || len(output) == 0 {
		return ownResult(p)
	}
	if r, ok := constructed(output); ok {
		return r
	}
	if r, ok := commanded(output); ok {
		return r
	}
	return ownResult(output)
}

// ownResult is what a tool brought itself, which may say that the call failed.
func ownResult(p []byte) result {
	why, failed := adapter.Failed(p)
	return result{text: p, why: why, failed: failed || markedAsError(p)}
}

// asOwn adds to what is written around a result what the tool itself says of it.
func (r result) asOwn() result {
	own := ownResult(r.text)
	r.why, r.failed = own.why, r.failed || own.failed
	return r
}

// commanded takes where to go on out of a command, with which a tool of LangGraph passes
// control. The messages in it are those of the whole talk so far, and so no result.
//
// A command that goes nowhere, or to several places at once, only updates the state.
func commanded(p []byte) (r result, ok bool) {
	if len(p) == 0 || p[0] != '{' {
		return r, false
	}
	members := 0
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "graph":
			members++
			r.leaves = string(c.Text()) == "__parent__"
		case "update":
			members++
			c.Skip()
		case "goto":
			if c.Peek() != '"' {
				c.Skip()
				continue
			}
			r.next = adapter.Word(c.Text(), events.MaxID)
		default:
			c.Skip()
		}
	}
	return r, members == 2 && r.next != "" && r.next != "__end__" && c.Err() == nil
}

// constructed takes what a tool brought out of a message as LangChain writes it down: the
// arguments of its constructor, or its data beside its type, among which are ids.
//
// What has kwargs is a message if they have content, whatever class it is of.
func constructed(p []byte) (r result, ok bool) {
	if p[0] != '{' {
		return r, false
	}
	var fields []byte
	built, isTool := false, false
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); {
		case key == "type":
			isTool = string(scalar(c)) == "tool"
		case (key == "kwargs" || key == "data" && !built) && c.Peek() == '{':
			built, fields = key == "kwargs", c.Raw()
		default:
			c.Skip()
		}
	}
	if c.Err() != nil || fields == nil || !built && !isTool {
		return r, false
	}
	c = jsonwalk.New(fields)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		// content alone makes it a message; ids beside it differ from call to call.
		case "content":
			r.text, ok = unquoted(c.Raw()), true
		case "status":
			r.failed = string(scalar(c)) == "error"
		case "tool_call_id":
			r.call = scalar(c)
		case "name":
			r.tool = scalar(c)
		default:
			c.Skip()
		}
	}
	return r.asOwn(), ok && c.Err() == nil
}

// toolOutput takes what a tool brought out of what LlamaIndex writes around it: the arguments once
// more, which would make the same result of another call another one, and names.
func toolOutput(p []byte) (r result, ok bool) {
	if p[0] != '{' {
		return r, false
	}
	var given, brought []byte
	c := jsonwalk.New(p)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "raw_input":
			given = c.Raw()
		case "raw_output":
			brought = c.Raw()
		case "is_error":
			r.failed = c.Bool()
		case "tool_name":
			r.tool = scalar(c)
		default:
			c.Skip()
		}
	}
	if c.Err() != nil || given == nil || brought == nil || len(r.tool) == 0 {
		return result{}, false
	}
	r.text = unquoted(brought)
	return r.asOwn(), true
}
