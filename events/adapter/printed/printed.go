// Package printed finds what a command printed within the result that a client reports for it.
//
// Clients frame the output of a shell: by lines before and behind it (Qwen Code, Gemini CLI, Codex), or in an object
// of JSON (hooks, tools of frameworks). The frame differs for equal outputs, since it holds the command or times.
package printed

import (
	"bytes"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// Output is what a command printed, and how it ended as far as the frame states it.
type Output struct {
	Text []byte // aliases the result, or is a copy where it was escaped; of a frame never nil
	Exit events.Optional
	// Framed is set where there was a frame; else Text is the result as it is.
	Framed bool
}

// maxNested is how deep frames lie in each other.
const maxNested = 3

// Of returns what a command printed.
func Of(result []byte) Output {
	o := of(result, 0)
	if o.Framed && o.Text == nil {
		o.Text = []byte{}
	}
	return o
}

func of(result []byte, nested int) Output {
	text := bytes.TrimSpace(result)
	if nested > maxNested {
		return Output{Text: result}
	}
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return object(result, text, nested)
	}
	if o, ok := lines(text); ok {
		return o
	}
	if head, out, ok := bytes.Cut(text, []byte("\nOutput:\n")); ok && bytes.Contains(head, []byte("Wall time: ")) && len(head) < 1024 {
		return Output{Text: out, Exit: exitIn(head), Framed: true}
	}
	return Output{Text: result}
}

// lines reads the frame of Gemini CLI and Qwen Code: lines that say what was run, Output: with
// the output, and lines that say how it ended.
func lines(text []byte) (o Output, ok bool) {
	rest, framed, output := text, false, -1
	for {
		if out, found := bytes.CutPrefix(rest, []byte("Output: ")); found {
			rest = out
			break
		}
		head, after, more := bytes.Cut(rest, []byte("\n"))
		if bytes.HasPrefix(head, []byte("Command: ")) && !more {
			return o, false
		}
		switch {
		case bytes.HasPrefix(head, []byte("<untrusted_context>")), bytes.HasPrefix(head, []byte("Directory: ")), bytes.HasPrefix(head, []byte("Command: ")):
			if !framed { // where the output begins is looked for once: a text may have very many lines
				framed, output = true, bytes.Index(text, []byte("\nOutput: "))
			}
		// A command may have several lines.
		case framed && len(text)-len(rest) <= output && len(rest)-len(after) < 4096:
		default:
			return o, false
		}
		if rest = after; !more {
			return o, false
		}
	}
	rest = bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("</untrusted_context>"))
	for _, name := range [...]string{"Process Group PGID: ", "Background PIDs: ", "Signal: ", "Exit Code: ", "Error: "} {
		i := bytes.LastIndex(rest, []byte("\n"+name))
		if i < 0 {
			continue
		}
		if value := rest[i+1+len(name):]; name == "Exit Code: " {
			o.Exit = number(value)
		} else if name == "Error: " {
			if value = bytes.TrimSpace(value); string(value) != "(none)" && len(value) > 0 {
				break // what went to the error stream is output as well
			}
		}
		rest = rest[:i]
	}
	if o.Text = bytes.TrimSpace(rest); string(o.Text) == "(empty)" {
		o.Text = nil
	}
	o.Framed = true
	return o, true
}

// object reads a result that is an object with what a command printed.
func object(result, text []byte, nested int) Output {
	o := Output{Text: result}
	c := jsonwalk.New(text)
	if c.Peek() == '[' {
		return block(result, c, nested)
	}
	var out, errs []byte
	shell := false
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); {
		case (key == "stdout" || key == "output") && c.Peek() == '"':
			out, shell = c.Text(), true
		case key == "stderr" && c.Peek() == '"':
			errs, shell = c.Text(), true
		case exitKey(key):
			if c.Peek() == 'n' {
				return Output{Text: result} // it runs, which the object says
			}
			n, ok := c.Int()
			o.Exit = events.Optional{Set: ok, Value: n}
			shell = shell || ok
		case key == "metadata" && c.Peek() == '{':
			for c.Object(); c.Member(); {
				if exitKey(string(c.Key())) {
					n, ok := c.Int()
					o.Exit = events.Optional{Set: ok, Value: n}
				} else {
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	if !shell || c.Err() != nil {
		return Output{Text: result}
	}
	if len(bytes.TrimSpace(errs)) > 0 {
		out = bytes.TrimSpace(bytes.Join([][]byte{out, errs}, []byte("\n")))
	}
	o.Text, o.Framed = out, true
	return o
}

// block reads a list of one text, as MCP and others return it.
func block(result []byte, c *jsonwalk.Cursor, nested int) Output {
	var text []byte
	blocks := 0
	for c.Array(); c.Element(); {
		if blocks++; c.Peek() != '{' {
			return Output{Text: result}
		}
		kind := false
		for c.Object(); c.Member(); {
			switch key := string(c.Key()); {
			case key == "type":
				kind = string(c.Text()) == "text"
			case key == "text" && c.Peek() == '"':
				text = c.Text()
			default:
				c.Skip()
			}
		}
		if !kind {
			return Output{Text: result}
		}
	}
	if blocks != 1 || c.Err() != nil {
		return Output{Text: result}
	}
	inner := of(text, nested+1)
	inner.Framed = true
	return inner
}

// exitKey reports whether a member of that name holds the exit code of a command.
func exitKey(key string) bool {
	switch key {
	case "exit_code", "exitCode", "returncode", "return_code", "exit_status":
		return true
	}
	return false
}

// exitIn returns the exit code that the head of Codex states.
func exitIn(head []byte) (code events.Optional) {
	for _, words := range [...]string{"Process exited with code ", "Exit code: "} {
		if _, rest, ok := bytes.Cut(head, []byte(words)); ok {
			return number(rest)
		}
	}
	return code
}

func number(text []byte) (n events.Optional) {
	for _, c := range bytes.TrimSpace(text) {
		if c < '0' || c > '9' || n.Value > 1<<20 {
			break
		}
		n.Set, n.Value = true, n.Value*10+int64(c-'0')
	}
	return n
}
