package polling

import (
	"bytes"
	"strings"

	"weir/events/adapter/jsonwalk"
)

// State is what a result says of what was looked at.
type State uint8

// The states.
const (
	Unknown State = iota
	GoesOn
	Over
)

// Said is what a result reports about processes.
type Said struct {
	State   State
	started string // the id of what was started in the background
	lines   int
}

// maxSaid is how much of a result is looked at. What says how something goes says it first.
const maxSaid = 4096

// maxLines is the same in lines.
const maxLines = 40

// Read returns what a result reports about processes.
func Read(result []byte) Said {
	result = bytes.TrimSpace(result[:min(len(result), maxSaid)])
	if rest, ok := bytes.CutPrefix(result, []byte("Command running in background with ID: ")); ok {
		n := 0
		for n < min(len(rest), maxName) && wordByte(rest[n]) {
			n++
		}
		return Said{started: string(rest[:n])}
	}
	// So Claude Code and Codex begin what a command that failed says.
	if rest, ok := cutAny(result, "Exit code ", "exit code "); ok {
		_, result, _ = bytes.Cut(rest, []byte("\n"))
	}
	result = printed(result)
	s := Said{State: stateOf(result, 0)}
	if len(result) > 0 {
		s.lines = 1 + bytes.Count(result, []byte("\n"))
	}
	return s
}

// printed is what a command printed, of a result as Gemini CLI and Qwen Code write it: behind a few
// lines that say what was run. Any other result is returned as it is.
func printed(result []byte) []byte {
	for rest, ok := result, true; ok; {
		if said, found := bytes.CutPrefix(rest, []byte("Output: ")); found {
			return said
		}
		if _, head := cutAny(rest, "<untrusted_context>", "Command: ", "Directory: "); !head {
			break
		}
		_, rest, ok = bytes.Cut(rest, []byte("\n"))
	}
	return result
}

func cutAny(text []byte, prefixes ...string) (rest []byte, ok bool) {
	for _, p := range prefixes {
		if rest, ok = bytes.CutPrefix(text, []byte(p)); ok {
			return rest, true
		}
	}
	return text, false
}

// words are what programs call the states that show whether something goes on, in small letters
// and joined by underscores.
var words = map[string]State{
	"running": GoesOn, "working": GoesOn, "pending": GoesOn, "queued": GoesOn, "in_progress": GoesOn, "inprogress": GoesOn, "starting": GoesOn, "waiting": GoesOn,
	"processing": GoesOn, "building": GoesOn, "creating": GoesOn, "provisioning": GoesOn, "initializing": GoesOn, "deploying": GoesOn, "executing": GoesOn,
	"uploading": GoesOn, "downloading": GoesOn, "updating": GoesOn, "deleting": GoesOn, "terminating": GoesOn, "stopping": GoesOn, "not_ready": GoesOn, "unfinished": GoesOn,
	"submitted": GoesOn, "accepted": GoesOn, "scheduled": GoesOn, "containercreating": GoesOn, "podinitializing": GoesOn, "activating": GoesOn, "incomplete": GoesOn, "progressing": GoesOn,

	"completed": Over, "complete": Over, "succeeded": Over, "success": Over, "successful": Over, "failed": Over, "failure": Over, "error": Over, "errored": Over,
	"exited": Over, "done": Over, "finished": Over, "cancelled": Over, "canceled": Over, "killed": Over, "terminated": Over, "stopped": Over, "aborted": Over,
	"timed_out": Over, "crashed": Over, "crashloopbackoff": Over, "imagepullbackoff": Over, "errimagepull": Over, "ready": Over, "ok": Over, "healthy": Over, "deployed": Over,
}

// word is the state that a word says.
func word(text []byte) State {
	text = bytes.Trim(text, " \t\r\"'`*.,")
	if len(text) == 0 || len(text) > 40 {
		return Unknown
	}
	w := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(string(text)))
	switch s := words[w]; {
	case s != Unknown:
		return s
	case strings.HasSuffix(w, "(health:_starting)"): // Docker
		return GoesOn
	case bytes.IndexByte(text, ' ') >= 0:
		return Unknown // a sentence
	case strings.HasSuffix(w, "_in_progress"), strings.HasPrefix(w, "init:"), strings.HasPrefix(w, "pending_"):
		return GoesOn
	case strings.HasSuffix(w, "_complete"), strings.HasSuffix(w, "_failed"):
		return Over
	}
	return Unknown
}

// and joins the states of several things: what waits for all of them waits for one that goes on.
func (s State) and(o State) State {
	if s == GoesOn || o == GoesOn {
		return GoesOn
	}
	return max(s, o)
}

// maxNested is how deep results lie inside each other: the output of a shell within the result of
// a tool.
const maxNested = 4

func stateOf(text []byte, nested int) State {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || nested > maxNested:
		return Unknown
	case text[0] == '{' || text[0] == '[':
		var o object
		o.read(jsonwalk.New(text), 0)
		if o.state != Unknown {
			return o.state
		}
		s := Unknown
		for _, t := range o.texts {
			s = s.and(stateOf(printed(t), nested+1))
		}
		return s
	case bytes.IndexByte(text, '\n') < 0 && word(text) != Unknown:
		return word(text)
	}
	return linesState(text)
}

// object is what JSON says of a state.
type object struct {
	state State
	texts [][]byte // what may say it if the object does not
}

// names reports whether a member or a column of this name holds the state of something.
func names(key []byte) bool {
	key = bytes.ToLower(key)
	return bytes.HasSuffix(key, []byte("status")) || bytes.HasSuffix(key, []byte("state")) || bytes.Equal(key, []byte("phase"))
}

// read reads a value and what lies in it. A result that was cut is read as far as it goes.
func (o *object) read(c *jsonwalk.Cursor, deep int) {
	if deep > maxNested {
		c.Skip()
		return
	}
	switch c.Peek() {
	case '[':
		for c.Array(); c.Element(); {
			o.read(c, deep+1)
		}
	case '{':
		status := false
		for c.Object(); c.Member(); {
			key := bytes.Clone(c.Key())
			switch next := c.Peek(); {
			case next == '"' && names(key):
				status = true
				o.state = o.state.and(word(c.Text()))
			case next == '"' && says(key):
				o.texts = append(o.texts, c.Text())
			case (next == 't' || next == 'f') && bytes.Equal(key, []byte("done")):
				// As operations of Google's APIs say it.
				if o.state = o.state.and(Over); !c.Bool() {
					o.state = GoesOn
				}
			case next == 't' && bytes.Equal(key, []byte("timed_out")) && status:
				c.Skip() // who waited for agents did not see them end
				o.state = GoesOn
			case next == '{' || next == '[':
				status = status || names(key)
				o.read(c, deep+1)
			default:
				c.Skip()
			}
		}
	default:
		c.Skip()
	}
}

// says reports whether a member of this name holds what a program printed.
func says(key []byte) bool {
	switch string(key) {
	case "stdout", "output", "content", "text", "result", "llmContent", "textResultForLlm":
		return true
	}
	return false
}

// linesState looks for a state in a text of lines.
func linesState(text []byte) (s State) {
	column, ready, first := -1, -1, true
	n := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if n++; n > maxLines {
			break
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || len(line) > 512 {
			continue
		}
		switch {
		// As Kubernetes, Codex and others say it.
		case bytes.HasPrefix(line, []byte("Waiting for ")), bytes.HasPrefix(line, []byte("Script running with cell ID ")), bytes.Contains(line, []byte("is still running")):
			return GoesOn
		case line[0] == '<':
			s = s.and(tagged(line))
		case first && bytes.Equal(line, bytes.ToUpper(line)) && len(columns(line)) > 1:
			for i, name := range columns(line) {
				switch string(name) {
				case "STATUS", "STATE", "PHASE":
					column = i
				case "READY":
					ready = i
				}
			}
		case column >= 0:
			s = s.and(cell(columns(line), column, ready))
		case bytes.IndexByte(line, '\t') >= 0:
			for field := range bytes.SplitSeq(line, []byte("\t")) {
				s = s.and(word(field))
			}
		default:
			if key, value, ok := bytes.Cut(line, []byte(":")); ok && len(key) <= 24 && names(bytes.TrimSpace(key)) {
				s = s.and(word(value))
			}
		}
		first = false
	}
	return s
}

// tagged is the state of a line such as <status>running</status>.
func tagged(line []byte) State {
	name, rest, ok := bytes.Cut(line[1:], []byte(">"))
	if value, _, closed := bytes.Cut(rest, []byte("<")); ok && closed && names(name) {
		return word(value)
	}
	return Unknown
}

// columns are the cells of a line of a table, which stand two blanks apart or more.
func columns(line []byte) (cells [][]byte) {
	for len(line) > 0 {
		cell, rest, _ := bytes.Cut(line, []byte("  "))
		cells = append(cells, bytes.TrimSpace(cell))
		line = bytes.TrimLeft(rest, " ")
	}
	return cells
}

// cell is the state of a line of a table. Of what says how many of its parts are ready, running
// means that all are.
func cell(cells [][]byte, column, ready int) State {
	if column >= len(cells) {
		return Unknown
	}
	s := word(cells[column])
	if s == GoesOn && ready >= 0 && ready < len(cells) && bytes.EqualFold(cells[column], []byte("running")) {
		if have, want, ok := bytes.Cut(cells[ready], []byte("/")); ok && bytes.Equal(have, want) {
			return Over
		}
	}
	return s
}
