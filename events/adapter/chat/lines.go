package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/transcript"
)

// claudeLine emits the lines of a stream of Claude Code that are no message: the result ends the
// turn.
func claudeLine(r *reader, n *node, emit func(*events.Event)) bool {
	switch n.kind {
	case "user", "assistant":
		return false
	case "result":
		v := r.talk(n)
		r.ended(v, n.id, n, emit)
	}
	return true // settings, hooks and pieces of messages
}

// ended emits the record that ends a turn, of which key is the id.
func (r *reader) ended(v *talk, key string, n *node, emit func(*events.Event)) {
	status := events.StatusOK
	if n.failed {
		status = events.StatusError
	}
	r.log.Answer(&v.turn, key, r.clock.at(n.at), status, n.said, emit)
}

// piLine reads the lines of a session of Pi that are no message: the first names the session.
func piLine(r *reader, n *node, _ func(*events.Event)) bool {
	if n.kind == "session" {
		r.begin(n.id, "")
	}
	return n.kind != "message"
}

// streamed is a call of AG-UI while its arguments come in pieces. What is long is kept as a sum.
type streamed struct {
	turn transcript.Turn // that made it
	use  transcript.Use
	at   events.Stamp
	args []byte
	sum  *xxhash.Digest
}

// maxArgs is how much of the arguments of an open call is kept, in bytes.
const maxArgs = 4 << 10

func (s *streamed) add(p []byte) {
	switch {
	case s.sum != nil:
		_, _ = s.sum.Write(p)
	case len(s.args)+len(p) <= maxArgs:
		s.args = append(s.args, p...)
	default:
		s.sum = xxhash.New()
		_, _ = s.sum.Write(s.args)
		_, _ = s.sum.Write(p)
		s.args = nil
	}
}

// agui is the stream of events of AG-UI: a call, its arguments and its end are events of their
// own.
func agui() *dialect {
	input := message()
	input.names["id"], input.names["toolCallId"] = id, call
	input.lists["toolCalls"] = input.lists["tool_calls"]
	return &dialect{name: "agui", title: "events of AG-UI, one per line", program: "agent",
		time: adapter.Sometimes,
		score: func(head *adapter.Head) adapter.Match {
			if head.Any(func(top adapter.Top) bool {
				return top.Has("threadId", "runId") && strings.HasPrefix(top["type"], "RUN_") || top.Has("toolCallId") && strings.HasPrefix(top["type"], "TOOL_CALL_")
			}) {
				return adapter.Certain
			}
			return adapter.NoMatch
		},
		line: aguiLine,
		record: &level{names: map[string]field{"type": kind, "threadId": session, "runId": parent, "timestamp": at, "toolCallId": call, "toolCallName": tool, "delta": text, "content": said,
			"messageId": id, "message": text, "role": role},
			within: map[string]*level{"input": {lists: map[string]*level{"messages": input}}}}}
}

// aguiLine emits one event.
func aguiLine(r *reader, n *node, emit func(*events.Event)) bool {
	called := n.call
	v := r.now
	if n.kind == "RUN_STARTED" || v == nil {
		v = r.talk(&node{session: n.session, kind: n.kind, id: n.parent})
	}
	turn := v.turn
	now := r.clock.at(n.at)
	n.call = turn.Session + "/" + called
	switch n.kind {
	case "RUN_STARTED":
		v.turn.Prompt = turn.Session + "/" + n.parent
		// The last message of the user is new; the others are of runs before.
		for i := len(n.nodes) - 1; i >= 0; i-- {
			if m := &n.nodes[i]; m.role == "user" {
				r.log.Prompt(&v.turn, v.turn.Prompt, now, m.text, emit)
				break
			}
		}
	case "TOOL_CALL_START", "TOOL_CALL_CHUNK":
		s, ok := r.open.Get(n.call)
		// A call that begins again is one that is read again: its pieces follow again.
		if (!ok || n.kind == "TOOL_CALL_START") && called != "" {
			s = &streamed{turn: turn, use: transcript.Use{ID: n.call, Tool: n.tool, Server: transcript.Server(n.tool)}, at: now}
			r.open.Put(n.call, s)
		}
		if s != nil {
			s.add(n.text)
		}
	case "TOOL_CALL_ARGS":
		if s, ok := r.open.Get(n.call); ok {
			s.add(n.text)
		}
	case "TOOL_CALL_END":
		r.streamed(n.call, emit)
	case "TOOL_CALL_RESULT":
		r.streamed(n.call, emit) // a call in chunks has no end
		r.log.Result(&turn, &transcript.Use{ID: n.call, Ended: now, Said: n.said}, emit)
	case "RUN_FINISHED":
		r.log.Answer(&turn, turn.Prompt, now, events.StatusOK, nil, emit)
	case "RUN_ERROR":
		r.log.Answer(&turn, turn.Prompt, now, events.StatusError, n.text, emit)
	}
	return true
}

// streamed emits a call whose arguments are complete.
func (r *reader) streamed(called string, emit func(*events.Event)) {
	s, ok := r.open.Get(called)
	if !ok {
		return
	}
	r.open.Delete(called)
	u := s.use
	u.At = s.at
	u.Args = arguments(s.args, false)
	if s.sum != nil {
		u.Args = strconv.AppendUint(nil, s.sum.Sum64(), 10)
	}
	r.log.Call(&s.turn, &u, emit)
}

// tags are the tools of Roo Code and Cline, which older versions ask for by tags in the text.
var tags = map[string]bool{"execute_command": true, "read_file": true, "write_to_file": true, "apply_diff": true, "replace_in_file": true, "insert_content": true,
	"search_and_replace": true, "search_files": true, "list_files": true, "list_code_definition_names": true, "codebase_search": true, "use_mcp_tool": true,
	"access_mcp_resource": true, "browser_action": true, "ask_followup_question": true, "switch_mode": true, "new_task": true, "update_todo_list": true,
	"fetch_instructions": true, "web_fetch": true}

// maxTag is how long the name of a tag is at most.
const maxTag = 64

// tagCall finds the call that an answer asks for by tags: <tool><argument>...</argument></tool>.
func tagCall(said []byte) (tool string, args []byte) {
	unclosed := map[string]bool{} // a tag that does not end behind one place ends behind no later one
	for rest := said; ; {
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			return "", nil
		}
		rest = rest[i+1:]
		end := bytes.IndexByte(rest[:min(len(rest), maxTag+1)], '>')
		if end < 0 {
			continue
		}
		if name := string(rest[:end]); tags[name] && !unclosed[name] {
			inside, _, closed := bytes.Cut(rest[end+1:], []byte("</"+name+">"))
			if closed {
				return name, object(bytes.TrimSpace(inside))
			}
			unclosed[name] = true
		}
	}
}

// object returns the JSON of arguments that stand in tags of their own.
func object(inside []byte) []byte {
	out := []byte{'{'}
	for {
		_, rest, ok := bytes.Cut(inside, []byte("<"))
		name, rest, named := bytes.Cut(rest, []byte(">"))
		if !ok || !named {
			break
		}
		value, after, closed := bytes.Cut(rest, append(append([]byte("</"), name...), '>'))
		if !closed {
			break
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(quote(out, name), ':'), quote(nil, value)...)
		inside = after
	}
	return append(out, '}')
}

// fencedCall finds the command that an answer of mini-swe-agent asks for: one block of code.
func fencedCall(said []byte) (tool string, args []byte) {
	for _, fence := range []string{"```bash\n", "```mswea_bash_command\n"} {
		if _, rest, ok := bytes.Cut(said, []byte(fence)); ok {
			if block, _, closed := bytes.Cut(rest, []byte("\n```")); closed {
				return "bash", append(quote([]byte(`{"command":`), bytes.TrimSpace(block)), '}')
			}
		}
	}
	return "", nil
}

// afterHeader is the result behind the line with which Roo Code and Cline begin it.
func afterHeader(said []byte) []byte {
	if len(said) > 0 && said[0] == '[' {
		if head, rest, ok := bytes.Cut(said, []byte("] Result:")); ok && bytes.IndexByte(head, '\n') < 0 {
			return bytes.TrimSpace(rest)
		}
	}
	return said
}

// quote appends a JSON string.
func quote(out, p []byte) []byte {
	text, _ := json.Marshal(string(p)) // a string has no error
	return append(out, text...)
}
