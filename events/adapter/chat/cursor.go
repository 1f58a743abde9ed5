package chat

import (
	"cmp"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// cursor is what the agent of Cursor prints with -p --output-format stream-json, or the messages of its SDK. Its
// messages are those of Claude Code, its calls are lines of their own.
func cursor() *dialect {
	called := &level{names: map[string]field{"args": args, "result": said}}
	// A message of the SDK may be in a record of its run, which has a time.
	message := &level{names: map[string]field{"role": role, "content": text, "type": kind, "agent_id": owner, "call_id": call, "name": tool, "status": id, "args": args, "result": said},
		lists: map[string]*level{"content": anthropicPart()}}
	message.within = map[string]*level{"message": message}
	payload := &level{names: map[string]field{"agentId": owner, "status": id}, within: message.within}
	return &dialect{name: "cursor", title: "the stream of Cursor's agent (cursor-agent -p --output-format stream-json), or messages of its SDK, one record per line", program: "cursor",
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return top["type"] == "tool_call" && (top["tool_call"] == "{" || top.Has("agent_id", "run_id", "call_id", "status")) ||
					top.Has("agentId", "runId", "schemaVersion", "type") || top["type"] == "system" && top.Has("agent_id", "run_id") ||
					top["eventType"] == "run_stream_event" && top.Has("runId", "payload") ||
					top["type"] == "system" && top.Has("session_id", "apiKeySource", "permissionMode") && !top.Has("uuid") && !top.Has("tools")
			}) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		tokens: adapter.Sometimes, time: adapter.Sometimes, closes: true, holds: true, line: cursorLine,
		record: &level{names: map[string]field{"type": kind, "subtype": id, "session_id": owner, "agent_id": owner, "agentId": owner, "call_id": call, "timestamp_ms": at, "createdAt": at, "model": model,
			"result": said, "is_error": failed, "usage": used, "name": tool, "status": id, "args": args},
			within: map[string]*level{"message": message, "payload": payload, "tool_call": {each: called}},
			used:   usage.Names{"inputTokens": usage.Input, "outputTokens": usage.Output, "cacheReadTokens": usage.CacheRead, "cacheWriteTokens": usage.CacheCreation}}}
}

// cursorLine reads a call, which begins and ends in a line each, and the end of the turn.
func cursorLine(r *reader, n *node, emit func(*events.Event)) bool {
	switch n.kind {
	case "user", "assistant":
		n.id = ""
		return false
	case "tool_call":
		v := r.talk(n)
		u := transcript.Use{ID: v.turn.Session + "/" + n.call, Tool: strings.TrimSuffix(n.tool, "ToolCall"), Args: n.args, At: r.clock.at(n.at)}
		// A call is reported once: at its begin, or at its end where the begin is missing.
		if _, begun := r.open.Get(u.ID); !begun && n.args != nil {
			r.open.Put(u.ID, &streamed{})
			r.log.Call(&v.turn, &u, emit)
		}
		if n.id == "completed" || n.id == "error" {
			r.open.Delete(u.ID)
			u.Ended, u.Said, u.Status = u.At, []byte{}, events.StatusOK
			outcome := outcomeOf(n.said)
			if outcome.name != "" {
				u.Said = content(outcome.raw)
			}
			if n.id == "error" || outcome.name != "" && outcome.name != "success" || outcome.fails() {
				u.Status = events.StatusError
			}
			r.log.Result(&v.turn, &u, emit)
		}
	case "result", "status", "": // a run that is kept ends with a record without a message
		switch n.id {
		case "", "CREATING", "RUNNING":
			if n.kind != "result" {
				return true
			}
		case "error", "ERROR", "CANCELLED", "EXPIRED":
			n.failed = true
		}
		v := r.talk(n)
		key := cmp.Or(v.turn.Prompt, v.turn.Session) + "/result"
		r.tokens(&v.turn, n, key, r.clock.at(n.at), emit)
		r.ended(v, key, n, emit)
	}
	return true // settings and thoughts
}

// member is a member of an object.
type member struct {
	name string
	raw  []byte
}

// outcomeOf returns how a call ended, and what came: {"success": {...}}, or {"status": "success", "value": {...}}.
func outcomeOf(raw []byte) (m member) {
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		switch key := string(c.Key()); {
		case key == "status" && c.Peek() == '"':
			m.name = adapter.Word(c.Text(), 32)
		case m.raw == nil:
			if m.name == "" {
				m.name = adapter.Word([]byte(key), 32)
			}
			m.raw = c.Raw()
		default:
			c.Skip()
		}
	}
	return m
}

// fails reports whether a command ended with a code other than 0.
func (m member) fails() bool {
	c := jsonwalk.New(m.raw)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "exitCode" {
			code := string(c.Raw())
			return code != "0" && code != "null"
		}
		c.Skip()
	}
	return false
}

// content returns what a result says, without the times and sizes beside it: its output and its
// errors, else its content or result, else all of it.
func content(raw []byte) []byte {
	var printed, rest []byte
	c := jsonwalk.New(raw)
	switch c.Peek() {
	case '"':
		return returned(c)
	case '{':
	default:
		return append([]byte{}, raw...)
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "stdout", "output", "stderr":
			printed = append(printed, returned(c)...)
			if rest == nil {
				rest = []byte{}
			}
		case "content", "contents", "result":
			rest = append(slices.Grow(rest, 1), returned(c)...) // also where it is empty
		case "error":
			if p := returned(c); len(p) > 0 {
				rest = append(rest, p...)
			}
		default:
			c.Skip()
		}
	}
	switch {
	case printed != nil:
		return printed
	case rest != nil:
		return rest
	}
	return append([]byte{}, raw...)
}
