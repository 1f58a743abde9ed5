package chat

import (
	"bytes"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// flink is the event log of Flink Agents. Versions before 0.4 keep an event in an object of its own, and those
// before 0.3 its attributes beside its id.
func flink() *dialect {
	calls := &level{names: map[string]field{"id": call}, within: map[string]*level{"function": {names: map[string]field{"name": tool, "arguments": args}}}}
	attributes := &level{names: map[string]field{"model": model, "input": anyText},
		lists:  map[string]*level{"tool_calls": calls, "toolCalls": calls},
		within: map[string]*level{"responses": {byCall: said}}}
	event := &level{names: map[string]field{"eventType": kind, "id": id, "input": anyText}, lists: attributes.lists,
		within: map[string]*level{"attributes": attributes, "responses": attributes.within["responses"]}}
	return &dialect{name: "flink", title: "event logs of Flink Agents, lines or indented documents", program: "flink-agents", framing: adapter.Documents,
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return top.Has("timestamp", "eventType") && (top["eventAttributes"] == "{" || top["event"] == "{") ||
					top.Has("timestamp") && top["event"] == "{" && bytes.Contains(head.Bytes, []byte(`"eventType"`)) && bytes.Contains(head.Bytes, []byte(`"attributes"`))
			}) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		tokens: adapter.Never, time: adapter.Always, unique: true, line: flinkLine,
		record: &level{names: map[string]field{"timestamp": at, "eventType": kind, "eventId": id, "businessKey": session, "agentName": agent},
			within: map[string]*level{"eventAttributes": attributes, "event": event}}}
}

// flinkLine reads one event. Without the key of its record, a run is what follows an input.
func flinkLine(r *reader, n *node, emit func(*events.Event)) bool {
	kind := n.kind[strings.LastIndexByte(n.kind, '.')+1:]
	now := r.clock.at(n.at)
	if n.session == "" && (r.now == nil || kind == "_input_event" || kind == "InputEvent") {
		n.session = "flink-" + n.id
	}
	v := r.talk(n)
	switch kind {
	case "_input_event", "InputEvent":
		v.turn.Prompt = n.id
		r.log.Prompt(&v.turn, n.id, now, n.text, emit)
	case "_tool_request_event", "ToolRequestEvent":
		for i := range n.nodes {
			p := &n.nodes[i]
			r.log.Call(&v.turn, &transcript.Use{ID: p.call, Tool: p.tool, Args: p.args, At: now, Server: transcript.Server(p.tool)}, emit)
		}
	case "_tool_response_event", "ToolResponseEvent":
		for i := range n.nodes {
			u := transcript.Use{ID: n.nodes[i].call, Ended: now, Said: content(n.nodes[i].said)}
			if isFalse(n.nodes[i].said, "success") {
				u.Status = events.StatusError
			}
			r.log.Result(&v.turn, &u, emit)
		}
	case "_output_event", "OutputEvent":
		r.log.Answer(&v.turn, n.id, now, events.StatusOK, nil, emit)
	}
	return true
}

// isFalse reports whether a member of an object is false.
func isFalse(raw []byte, name string) bool {
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == name {
			return string(c.Raw()) == "false"
		}
		c.Skip()
	}
	return false
}
