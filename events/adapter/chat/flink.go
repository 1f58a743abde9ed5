package chat

import (
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/transcript"
)

// flink is the event log of Flink Agents. Versions before 0.4 keep the attributes of an event
// in an object of its own.
func flink() *dialect {
	calls := &level{names: map[string]field{"id": call}, within: map[string]*level{"function": {names: map[string]field{"name": tool, "arguments": args}}}}
	attributes := &level{names: map[string]field{"model": model, "input": text},
		lists:  map[string]*level{"tool_calls": calls, "toolCalls": calls},
		within: map[string]*level{"responses": {byCall: said}}}
	event := &level{names: map[string]field{"eventType": kind, "id": id}, within: map[string]*level{"attributes": attributes}}
	return &dialect{name: "flink", title: "event logs of Flink Agents, one record per line", program: "flink-agents",
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return top.Has("timestamp", "eventType") && (top["eventAttributes"] == "{" || top["event"] == "{")
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
			r.log.Result(&v.turn, &transcript.Use{ID: n.nodes[i].call, Ended: now, Said: content(n.nodes[i].said)}, emit)
		}
	case "_output_event", "OutputEvent":
		r.log.Answer(&v.turn, n.id, now, events.StatusOK, nil, emit)
	}
	return true
}
