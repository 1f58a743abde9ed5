package chat

import (
	"bytes"

	"weir/events"
	"weir/events/adapter"
)

// goose is a session of Goose: lines, an export in JSON, or what goose run --output-format
// stream-json prints.
func goose() *dialect {
	part := &level{names: map[string]field{"type": kind, "text": text, "id": call}, within: map[string]*level{
		"toolCall":   {within: map[string]*level{"value": {names: map[string]field{"name": tool, "arguments": args}}}},
		"toolResult": {names: map[string]field{"value": said, "error": refused}, within: map[string]*level{"value": {names: map[string]field{"content": said, "isError": failed}}}}}}
	message := &level{names: map[string]field{"id": id, "role": role, "created": at}, lists: map[string]*level{"content": part}}
	return &dialect{name: "goose", title: "sessions of Goose (lines, an export in JSON, or --output-format stream-json)", program: "goose", framing: adapter.Documents,
		score: scoreGoose, tokens: adapter.Never, time: adapter.Sometimes, isDocument: func(n *node) bool { return n.role == "" && len(n.nodes) > 0 && n.nodes[0].role != "" }, line: gooseLine,
		record: &level{names: map[string]field{"id": id, "role": role, "type": kind, "created": at}, within: map[string]*level{"message": message},
			lists: map[string]*level{"content": part, "conversation": message}}}
}

// scoreGoose is certain of sessions, and of a stream with the part of a call.
func scoreGoose(head *adapter.Head) adapter.Match {
	stream := head.Any(func(top adapter.Top) bool { return top["type"] == "message" && top["message"] == "{" && len(top) == 2 })
	switch {
	case has("role", "created", "content")(head) == adapter.Certain, has("working_dir", "conversation")(head) == adapter.Certain,
		stream && (bytes.Contains(head.Bytes, []byte(`"toolRequest"`)) || bytes.Contains(head.Bytes, []byte(`"total_tokens"`))):
		return adapter.Certain
	case stream:
		return adapter.Maybe
	}
	return adapter.NoMatch
}

// gooseLine reads the lines that are no message: the head of a session, notices, and the end.
func gooseLine(r *reader, n *node, emit func(*events.Event)) bool {
	if n.kind == "complete" && r.now != nil {
		r.log.Answer(&r.now.turn, r.now.turn.Session+"/complete", r.clock.at(0), events.StatusOK, nil, emit)
	}
	return n.role == ""
}
