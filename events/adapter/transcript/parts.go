package transcript

import (
	"bytes"

	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// PartTexts reads a list of parts, as the API of Gemini has them, and joins their texts, but
// for what the model only thought.
// Thoughts are left out, because they differ where the answer is the same.
func PartTexts(c *jsonwalk.Cursor) (text []byte) {
	for c.MaybeArray(); c.Element(); {
		said, thought := []byte(nil), false
		for c.MaybeObject(); c.Member(); {
			switch string(c.Key()) {
			case "text":
				said = c.Text()
			case "thought":
				thought = c.Bool()
			}
		}
		if thought || len(said) == 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, said...)
	}
	return text
}

// Response reads the functionResponse of the API of Gemini: the id of the call, and what it
// says in output, else in error or content, else the response as it is.
// The text may alias the cursor's input.
func Response(c *jsonwalk.Cursor) (id string, said []byte) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			id = adapter.ID(c.Text())
		case "response":
			raw := c.Raw()
			said = raw
			inner := jsonwalk.New(raw)
			for inner.MaybeObject(); inner.Member(); {
				switch string(inner.Key()) {
				case "output", "error", "content":
					if inner.Peek() == '"' {
						said = inner.Text()
						continue
					}
				}
				inner.Skip()
			}
		}
	}
	return id, said
}

// ShellFailed reports whether the result of a shell, as Gemini CLI and Qwen Code write it, says
// that the command exited with another code than 0.
// A result without that line says nothing, and is not treated as a failure.
func ShellFailed(said []byte) bool {
	for line := range bytes.SplitSeq(said, []byte("\n")) {
		if code, ok := bytes.CutPrefix(line, []byte("Exit Code: ")); ok {
			return len(code) > 0 && code[0] >= '1' && code[0] <= '9' || bytes.HasPrefix(code, []byte("-"))
		}
	}
	return false
}
