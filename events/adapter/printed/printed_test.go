package printed

import (
	"strings"
	"testing"

	"weir/events"
)

func TestOf(t *testing.T) {
	exit := func(n int64) events.Optional { return events.Optional{Set: true, Value: n} }
	for name, c := range map[string]struct {
		result, text string
		exit         events.Optional
		framed       bool
	}{
		"Qwen Code":           {"Command: ls -la\nDirectory: (root)\nOutput: total 8\nREADME\nError: (none)\nExit Code: 0\nSignal: 0\nProcess Group PGID: 19067", "total 8\nREADME", exit(0), true},
		"without output":      {"Command: sed -i s/a/b/ x\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 0\nSignal: 0\nProcess Group PGID: 7", "", exit(0), true},
		"of several lines":    {"Command: cat <<EOF\na\nEOF\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 2\nSignal: 0", "a", exit(2), true},
		"without a directory": {"Command: cat <<EOF\na\nEOF\nOutput: a\nExit Code: 0", "a", exit(0), true},
		"of many lines":       {"Command: a\n" + strings.Repeat("\n", 1<<20) + "Directory: (root)\nOutput: x", "x", events.Optional{}, true}, // in linear time
		"with an error":       {"Command: x\nDirectory: (root)\nOutput: (empty)\nError: no such file\nExit Code: 1\nSignal: (none)", "(empty)\nError: no such file", exit(1), true},
		"Gemini CLI":          {"<untrusted_context>\nOutput: hi\nProcess Group PGID: 17929\n</untrusted_context>", "hi", events.Optional{}, true},
		"Codex":               {"Chunk ID: 7b5eda\nWall time: 0.0000 seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\nhi\n", "hi", exit(3), true},
		"a hook":              {`{"stdout":"a\nb","stderr":"","interrupted":false}`, "a\nb", events.Optional{}, true},
		"both streams":        {`{"stdout":"a","stderr":"b","exit_code":1}`, "a\nb", exit(1), true},
		"an older Codex":      {`{"output":"x\n","metadata":{"exit_code":4}}`, "x\n", exit(4), true},
		"a block of MCP":      {`[{"type":"text","text":"x"}]`, "x", events.Optional{}, true},
		"two blocks":          {`[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, events.Optional{}, false},
		"another object":      {`{"rows":[1,2]}`, `{"rows":[1,2]}`, events.Optional{}, false},
		"a text":              {"Output is fine", "Output is fine", events.Optional{}, false},
		"a text with Command": {"Command: none", "Command: none", events.Optional{}, false},
	} {
		if o := Of([]byte(c.result)); string(o.Text) != c.text || o.Exit != c.exit || o.Framed != c.framed {
			t.Errorf("%s: %q %v %v", name, o.Text, o.Exit, o.Framed)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("Command: a\nOutput: b\nExit Code: 1"))
	f.Add([]byte(`{"stdout":"x","exit_code":1}`))
	f.Add([]byte(`{"exit_code":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := Of(b); len(o.Text) > len(b)*4+4 || o.Framed && o.Text == nil {
			t.Errorf("%d bytes of %d, framed: %v", len(o.Text), len(b), o.Framed)
		}
	})
}
