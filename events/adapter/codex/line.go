package codex

import (
	"bytes"
	"cmp"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// line is one line of a rollout, as far as it is of use.
//
// args and text alias the record.
type line struct {
	kind, event          string // type of the line, and of what it holds
	at                   events.Stamp
	id, forked, parent   string // of a session
	role                 string // of an agent that another one made
	turn, rootTurn       string
	model                string
	tool, namespace      string
	item, call, itemKind string
	// args is nil where the call has none.
	args   []byte // JSON
	text   []byte // of a message, an answer or a result
	status events.Status
	runs   bool         // the command runs on behind its result
	last   events.Usage // of the last answer of the model
	total  int64        // tokens since the session began
}

// read reads the frame of a line, and then the payload by itself.
func read(record []byte) (*line, error) {
	l := &line{}
	var payload []byte
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "timestamp":
			l.at, _ = c.Stamp()
		case "type":
			l.kind = string(c.Text())
		case "payload":
			payload = c.Raw()
		}
	}
	c.End()
	switch {
	case c.Err() != nil:
		return nil, c.Err()
	case l.kind == "":
		return nil, adapter.Missing("type", "want type on every line of a rollout")
	case l.at == 0:
		return nil, adapter.Missing("timestamp", "want timestamp on every line of a rollout")
	// A compacted line holds history, which was read before.
	case l.kind == "compacted" || len(payload) == 0:
		return l, nil
	}
	inner := jsonwalk.New(payload)
	l.readPayload(inner)
	return l, inner.Err()
}

// readPayload reads the payload of any type: the names mean the same in all of them.
func (l *line) readPayload(c *jsonwalk.Cursor) {
	// The output is read last, so that it is the text whatever else the payload has.
	var output []byte
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.event = string(c.Text())
		case "id":
			l.item = adapter.ID(c.Text())
		case "forked_from_id":
			l.forked = adapter.ID(c.Text())
		case "source":
			l.readSource(c)
		case "parent_thread_id":
			if parent := adapter.ID(c.Text()); parent != "" {
				l.parent = parent
			}
		case "turn_id":
			l.turn = adapter.ID(c.Text())
		case "root_turn_id":
			l.rootTurn = adapter.ID(c.Text())
		case "model":
			l.model = adapter.Word(c.Text(), events.MaxID)
		case "name":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		case "namespace":
			l.namespace = adapter.Word(c.Text(), events.MaxID/2)
		case "call_id":
			l.call = adapter.ID(c.Text())
		// Functions have arguments, custom tools an input, and shells and searches an action.
		case "arguments", "input", "action":
			if l.args = c.Raw(); len(l.args) > 0 && l.args[0] == '"' {
				l.args = arguments(l.args)
			}
		// A value that is no text here belongs to a type that is not read.
		case "message", "last_agent_message":
			if c.Peek() == '"' {
				l.text = c.Text()
			} else {
				c.Skip()
			}
		case "item":
			l.readItem(c)
		case "output":
			output = c.Raw()
		// Of a token_count, and null while there is nothing to report.
		case "info":
			l.readTokens(c)
		}
	}
	// Of a session the id is its own, of anything else that of the item.
	l.id = l.item
	if output != nil {
		l.readOutput(output)
	}
}

// arguments returns those that are written as a string: JSON in most tools, and what is none
// as the string that it is.
//
// So a call that is written as an object and one that is written as its text are one.
func arguments(quoted []byte) []byte {
	text := jsonwalk.New(quoted).Text()
	if c := jsonwalk.New(text); c.Peek() == '{' {
		c.Skip()
		if c.End(); c.Err() == nil {
			return text
		}
	}
	return quoted
}

// readSource finds out who made the agent of a session, when it was another one.
//
// Older versions nest it in two objects, and name agents of Codex's own by a word.
func (l *line) readSource(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		// An agent of a user's is nested: subagent, and in it thread_spawn.
		case "subagent", "thread_spawn":
			if c.Peek() == '{' {
				l.readSource(c)
			} else {
				l.role = adapter.Word(c.Text(), events.MaxID) // such as review
			}
		case "parent_thread_id":
			l.parent = adapter.ID(c.Text())
		case "agent_role":
			if role := adapter.Word(c.Text(), events.MaxID); role != "" {
				l.role = role
			}
		}
	}
}

// readItem reads an item as newer versions write it when it is complete.
func (l *line) readItem(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			l.itemKind = string(c.Text())
		case "content":
			l.text = c.Texts()
		}
	}
}

// readTokens reads the figures of a token_count: those of the last request, and the sum.
func (l *line) readTokens(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		// Of the sum only the total is needed: it shows whether a request was made since.
		case "total_token_usage":
			l.total = usage.Codex.Read(c).Total
		case "last_token_usage":
			l.last = usage.Codex.Read(c)
			// Input and output are the request's; the total would be the session's.
			l.last.Total = 0
		}
	}
}

// readOutput reads the result of a tool: a text, a list of blocks, or an object with either
// in content and whether the call succeeded.
//
// A result without any of these is empty.
func (l *line) readOutput(output []byte) {
	c := jsonwalk.New(output)
	switch c.Peek() {
	case '"':
		l.text = c.Text()
	case '[':
		l.text = c.Texts()
	default:
		for c.MaybeObject(); c.Member(); {
			switch string(c.Key()) {
			case "content":
				if c.Peek() == '"' {
					l.text = c.Text()
				} else {
					l.text = c.Texts()
				}
			case "success":
				if !c.Bool() {
					l.status = events.StatusError
				}
			}
		}
	}
	l.readShell()
	switch {
	// Only Codex's wording shows that it was not executed.
	case bytes.HasPrefix(l.text, []byte("Command blocked by PreToolUse hook")):
		l.status = events.StatusDenied
	case bytes.HasPrefix(l.text, []byte("aborted by user")):
		// What was broken off has no result.
		l.status, l.text = events.StatusCancelled, nil
	case bytes.HasPrefix(l.text, []byte("apply_patch verification failed")):
		l.status = events.StatusError
	}
}

// readShell takes away what stands before the output of a command: ids of pieces, how long it
// took, how many tokens that is. How the command ended stays.
func (l *line) readShell() {
	// Older versions write a result as JSON in a string.
	if wrapped := jsonwalk.New(l.text); wrapped.Peek() == '{' {
		l.readWrapped(wrapped)
		return
	}
	// Newer ones write a head, a line with Output: and the output.
	head, out, ok := bytes.Cut(l.text, []byte("\nOutput:\n"))
	// Other tools may write such a line as well.
	if !ok || !bytes.Contains(head, []byte("Wall time: ")) {
		return
	}
	// Some versions say first what was run, in as many lines as it has.
	if bytes.HasPrefix(head, []byte("Command: ")) {
		if i := bytes.LastIndex(head, []byte("\nChunk ID: ")); i >= 0 {
			head = head[i+1:]
		}
	}
	// running is a command that goes on behind the result; it has no code yet.
	code, running := "", false
	for each := range bytes.SplitSeq(head, []byte("\n")) {
		name, value, _ := bytes.Cut(each, []byte(": "))
		switch string(name) {
		// These differ between equal runs.
		case "Chunk ID", "Wall time", "Original token count", "Total output lines":
			continue
		case "Exit code":
			code = string(value)
			continue
		}
		switch word, ok := bytes.CutPrefix(each, []byte("Process exited with code ")); {
		case ok:
			code = string(word)
		case bytes.HasPrefix(each, []byte("Process running with session ID ")):
			running = true
		default:
			// A line that no head has: the result is a text of its own.
			return // no head of a shell
		}
	}
	l.exited(code, out)
	// The session's number would be another one each time.
	if l.runs = running; running {
		l.text = append([]byte("running\n"), out...)
	}
}

// readWrapped reads a result that is an object with output and metadata; without an exit code
// it is none of a shell.
func (l *line) readWrapped(c *jsonwalk.Cursor) {
	code, out, isShell := "", []byte(nil), false
	for c.Object(); c.Member(); {
		switch {
		case string(c.Key()) == "output" && c.Peek() == '"':
			out = c.Text()
		case string(c.Key()) == "metadata" && c.Peek() == '{':
			for c.Object(); c.Member(); {
				if string(c.Key()) == "exit_code" {
					v, ok := c.Int()
					code, isShell = strconv.FormatInt(v, 10), ok
				}
			}
		}
	}
	if isShell && c.Err() == nil {
		l.exited(code, out)
	}
}

// exited is the result of a command. A result without output still shows how the command ended.
//
// An empty code is that of a command whose head has none, which ended well.
func (l *line) exited(code string, out []byte) {
	l.text = out
	// What went well needs no code: most commands do.
	if code = cmp.Or(code, "0"); code != "0" {
		l.status = events.StatusError
		l.text = append([]byte("exit code "+code+"\n"), out...)
	}
}
