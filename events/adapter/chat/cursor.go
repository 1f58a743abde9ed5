package chat

import (
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// cursor is what the agent of Cursor prints with -p --output-format stream-json. Its messages are
// those of Claude Code, its calls are lines of their own.
func cursor() *dialect {
	called := &level{names: map[string]field{"args": args, "result": said}}
	message := &level{names: map[string]field{"role": role, "content": text}, lists: map[string]*level{"content": anthropicPart()}}
	return &dialect{name: "cursor", title: "the stream of Cursor's agent (cursor-agent -p --output-format stream-json), one record per line", program: "cursor",
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return top["type"] == "tool_call" && top["tool_call"] == "{" ||
					top["type"] == "system" && top.Has("session_id", "apiKeySource", "permissionMode") && !top.Has("uuid") && !top.Has("tools")
			}) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		tokens: adapter.Never, time: adapter.Sometimes, closes: true, holds: true, line: cursorLine,
		record: &level{names: map[string]field{"type": kind, "subtype": id, "session_id": session, "call_id": call, "timestamp_ms": at, "result": said, "is_error": failed},
			within: map[string]*level{"message": message, "tool_call": {each: called}}}}
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
		if n.id == "completed" {
			r.open.Delete(u.ID)
			u.Ended, u.Said, u.Status = u.At, []byte{}, events.StatusOK
			if outcome := firstMember(n.said); outcome.name != "" {
				u.Said = content(outcome.raw)
				if outcome.name != "success" || outcome.fails() {
					u.Status = events.StatusError
				}
			}
			r.log.Result(&v.turn, &u, emit)
		}
	case "result":
		v := r.talk(n)
		r.ended(v, v.turn.Session+"/result", n, emit)
	}
	return true // settings and thoughts
}

// member is a member of an object.
type member struct {
	name string
	raw  []byte
}

// firstMember returns the first member of an object: some programs name the outcome of a call so.
func firstMember(raw []byte) (m member) {
	c := jsonwalk.New(raw)
	for c.MaybeObject(); c.Member(); {
		m.name = adapter.Word(c.Key(), 32)
		m.raw = c.Raw()
		break
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
		case "content", "contents", "result", "error":
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
