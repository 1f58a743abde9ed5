package chat

import (
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// kimi is the wire log of a session of Kimi: the head of a call, pieces of its arguments, and its
// result are records of their own. Its other file, context.jsonl, is a list of messages.
func kimi() *dialect {
	payload := &level{names: map[string]field{"id": call, "tool_call_id": call, "parent_tool_call_id": parent, "user_input": text, "text": text, "arguments_part": text, "token_usage": used},
		lists:  map[string]*level{"user_input": {names: map[string]field{"text": text}}},
		within: map[string]*level{"function": {names: map[string]field{"name": tool, "arguments": args}}, "return_value": {names: map[string]field{"output": said, "is_error": failed}}},
		used:   usage.Names{"input_other": usage.Input, "output": usage.Output, "input_cache_read": usage.CacheRead, "input_cache_creation": usage.CacheCreation}}
	wire := &level{names: map[string]field{"type": kind}, within: map[string]*level{"payload": payload}}
	payload.within["event"] = wire // of a subagent
	return &dialect{name: "kimi", title: "wire logs of Kimi (wire.jsonl), one record per line", program: "kimi",
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return len(top) == 2 && top.Has("timestamp") && top["message"] == "{" || top["type"] == "metadata" && top.Has("protocol_version")
			}) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		tokens: adapter.Sometimes, time: adapter.Always, unique: true, line: kimiLine,
		record: &level{names: map[string]field{"timestamp": at}, within: map[string]*level{"message": wire}}}
}

// kimiLine reads one record. A call is reported with the first record that is no piece of it.
func kimiLine(r *reader, n *node, emit func(*events.Event)) bool {
	if n.at == 0 { // the head of a file: of another session, or of the same one that is read again
		if r.now != nil {
			r.streamed(r.now.pending.ID, emit)
		}
		r.now = nil
		return true
	}
	now := r.clock.at(n.at)
	v := r.now
	if v == nil {
		v = r.begin("kimi-"+strconv.FormatInt(int64(n.at), 36), "")
	}
	turn := r.turn(v, n)
	if n.kind == "ToolCallPart" {
		if s, ok := r.open.Get(v.pending.ID); ok {
			s.add(n.text)
		}
		return true
	}
	r.streamed(v.pending.ID, emit)
	v.pending.ID = ""
	// Records have no ids; one that comes again has the same time.
	key := turn.Session + "/" + strconv.FormatInt(int64(n.at), 36)
	if n.parent != "" {
		key += "/" + n.parent
	}
	switch n.kind {
	case "TurnBegin", "SteerInput":
		if n.parent == "" {
			v.turn.Prompt = key
			r.log.Prompt(&v.turn, key, now, n.text, emit)
		}
	case "ToolCall":
		v.pending = transcript.Use{ID: n.call}
		s := &streamed{turn: turn, at: now, use: transcript.Use{ID: n.call, Tool: n.tool, Server: transcript.Server(n.tool)}}
		if len(n.args) > 0 && n.args[0] == '{' {
			s.add(n.args) // else they come in pieces
		}
		r.open.Put(n.call, s)
	case "ToolResult":
		u := transcript.Use{ID: n.call, Ended: now, Said: n.said}
		if n.failed {
			u.Status = events.StatusError
		}
		r.log.Result(&turn, &u, emit)
	case "StatusUpdate":
		r.tokens(&turn, n, key, now, emit)
	case "TurnEnd":
		r.log.Answer(&v.turn, v.turn.Prompt, now, events.StatusOK, nil, emit)
	}
	return true
}
