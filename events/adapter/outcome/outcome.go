// Package outcome reads what a tool call achieved: whether it looked, changed something or was rejected, the exit code,
// and the figures of tests. It keeps hashes, counts and small enums, and no text.
//
// A call and its result are read apart, since adapters keep nothing of a call but what they need: Of reads the
// arguments, Read the result, and Set puts both into the event of the result.
package outcome

import (
	"bytes"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/printed"
	"weir/events/fingerprint"
)

// Intent is what a call sets out to do, by its tool and arguments.
type Intent struct {
	effect events.Effect
	state  events.Hash // that an edit leaves, where the arguments hold all of the content
	shell  bool        // it runs a command
	edits  bool        // it edits a file, by a tool made for it
	only   bool        // the command changes something and does nothing else
}

// Said is what a result says of the call.
type Said struct {
	exit, passed, failed events.Optional
	rejected             bool
	empty                bool
	nothing              bool // it says that there was nothing to find
}

// editors are tools that change files, in small letters.
var editors = map[string]bool{"edit": true, "multiedit": true, "write": true, "notebookedit": true, "apply_patch": true, "patch": true, "edit_file": true, "write_file": true,
	"create_file": true, "insert_edit_into_file": true, "replace": true, "replace_in_file": true, "search_replace": true, "str_replace": true, "write_to_file": true, "str_replace_editor": true,
	"str_replace_based_edit_tool": true,
	"apply_edit":                  true, "applyedit": true, "edit_block": true, "apply_diff": true, "applydiff": true, "str_replace_edit": true, "update_file": true, "writefile": true, "createfile": true,
	"insert_content": true, "search_and_replace": true, "file_editor": true, "text_editor": true, "replace_string_in_file": true, "save_file": true}

// State returns the hash of the content of a file.
func State(path string, content []byte) events.Hash {
	var digest xxhash.Digest
	digest.Reset()
	_, _ = digest.WriteString(path) // which never fails
	_, _ = digest.Write([]byte{0})
	_, _ = digest.Write(content)
	return events.Hash{Algorithm: events.XXH64, Value: digest.Sum64()}
}

// Of reads what a call of a tool sets out to do. The arguments are JSON.
func Of(tool string, args []byte) (i Intent) {
	i.effect = events.NamedEffect(tool)
	if i.edits = editors[strings.ToLower(tool)]; i.edits {
		i.effect = events.EffectChanged
	}
	var path string
	var content, command []byte
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		key := string(c.Key())
		if c.Peek() == '[' && (key == "command" || key == "cmd") {
			i.shell = true
			for c.Array(); c.Element(); {
				command = append(append(command, c.Text()...), ' ')
			}
			continue
		}
		if c.Peek() != '"' {
			c.Skip()
			continue
		}
		switch key {
		case "file_path", "path", "filePath", "absolute_path", "target_file", "filename":
			path = string(c.Text())
		case "content", "file_text", "contents":
			content = c.Text()
		case "command", "cmd":
			// Some editors have a command of their own, such as str_replace.
			if command, i.shell = c.Text(), !i.edits && !strings.Contains(tool, "edit"); !i.shell {
				i.effect, i.edits = editing(string(command))
			}
		default:
			c.Skip()
		}
	}
	if i.edits && path != "" && content != nil {
		i.state = State(path, content)
	}
	if i.shell {
		i.effect, i.only = commandEffect(command)
	}
	return i
}

// editing is what a command of an editor does.
func editing(command string) (effect events.Effect, edits bool) {
	switch command {
	case "create", "str_replace", "insert", "undo_edit", "write", "append", "delete":
		return events.EffectChanged, true
	}
	return events.EffectRead, false
}

// Read reads what a result says.
func Read(said []byte) (s Said) {
	s.empty = said != nil && fingerprint.Empty(said)
	said = bytes.TrimSpace(said)
	s.rejected = refuses(said)
	out := printed.Of(said)
	if out.Framed && len(bytes.TrimSpace(out.Text)) == 0 {
		s.empty = true
	}
	if s.exit = out.Exit; !s.exit.Set {
		s.exit = exitCode(out.Text)
	}
	s.passed, s.failed = figures(out.Text)
	s.nothing = s.empty || foundNothing(out.Text)
	return s
}

// Set gives the event of a result what the call achieved.
func Set(e *events.Event, i Intent, s Said) {
	var o events.Outcome
	o.Exit = s.exit
	// What was read may hold the output of tests of long ago.
	if i.effect == events.EffectUnset || i.shell && i.effect != events.EffectRead {
		o.Passed, o.Failed = s.passed, s.failed
	}
	switch {
	case e.Status > events.StatusOK:
	case i.edits && s.rejected:
		o.Effect = events.EffectRejected
	case i.edits:
		o.Effect, o.State = events.EffectChanged, i.state
	case i.effect == events.EffectChanged && !i.shell:
		// Other tools that change something are known by their names (events.NamedEffect).
	case i.effect == events.EffectChanged:
		// A command that also does something else, and prints, has a result to compare.
		if i.only || e.Content == events.EmptyContent || s.empty {
			o.Effect = i.effect
		}
	case i.shell:
		o.Effect = i.effect
	case i.effect == events.EffectUnset && s.nothing && !s.empty:
		o.Effect = events.EffectRead // what found nothing only looked
	}
	if o != (events.Outcome{}) {
		e.Tool.Outcome = &o
	}
}

// exitCode returns the exit code that a result states in its first or last line, as shells of
// agents do: "Exit code: 1", "<returncode>1</returncode>", "Process exited with code 1".
func exitCode(said []byte) (code events.Optional) {
	for _, part := range [...][]byte{firstLine(said), lastLine(said)} {
		lower := bytes.ToLower(part)
		for _, words := range exitWords {
			if _, rest, ok := bytes.Cut(lower, words); ok {
				if n, ok := number(bytes.TrimLeft(rest, `:"= `)); ok && n < 1<<16 {
					return events.Optional{Set: true, Value: n}
				}
			}
		}
	}
	return code
}

var exitWords = [...][]byte{[]byte("exit code"), []byte("exit_code"), []byte("exited with code"), []byte("exit status"), []byte("<returncode>"), []byte("exit:")}

func firstLine(text []byte) []byte {
	text = text[:min(len(text), 200)]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i]
	}
	return text
}

func lastLine(text []byte) []byte {
	text = text[max(0, len(text)-200):]
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// number reads the digits that a text begins with.
func number(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<40 {
			break
		}
		n, ok = n*10+int64(c-'0'), true
	}
	return n, ok
}
