package adapter_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/a2a"
)

// TestA2AArtifacts holds that the answer of a task is what its artifacts are at the end, in whatever pieces,
// order or versions a stream brings them.
func TestA2AArtifacts(t *testing.T) {
	answer := func(updates ...string) events.Hash {
		t.Helper()
		request := `{"time":"2026-11-20T14:00:00Z","direction":"request","exchange":1,"proxy":"coder","headers":{},"body":{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"parts":[{"text":"go"}]}}}}`
		list := []string{`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`}
		list = append(append(list, updates...), `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
		for i := range list {
			list[i] = `{"jsonrpc":"2.0","id":1,"result":` + list[i] + `}`
		}
		response := `{"time":"2026-11-20T14:00:01Z","direction":"response","exchange":1,"proxy":"coder","status":200,"headers":{},"events":[` + strings.Join(list, ",") + `]}`
		var got events.Hash
		reader := a2a.Format().New(adapter.Options{})
		for _, line := range []string{request, response} {
			if err := reader.Decode([]byte(line), func(ev *events.Event) {
				if ev.Kind == events.AgentReturn {
					got = ev.Content
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	piece := func(id, text string, more bool) string {
		return fmt.Sprintf(`{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":%v,"artifact":{"artifactId":%q,"parts":[{"text":%q}]}}}`, more, id, text)
	}
	whole := answer(piece("code", "def parse(s): return s", false), piece("log", "ok", false))
	for name, got := range map[string]events.Hash{
		"in pieces":               answer(piece("code", "def parse(s):", false), piece("code", " return ", true), piece("code", "s", true), piece("log", "ok", false)),
		"in pieces by turns":      answer(piece("code", "def parse(s):", false), piece("log", "o", false), piece("code", " return s", true), piece("log", "k", true)),
		"in versions":             answer(piece("code", "def", false), piece("code", "def parse(s): return", false), piece("log", "ok", false), piece("code", "def parse(s): return s", false)),
		"an empty piece":          answer(piece("code", "def parse(s): return s", false), piece("log", "ok", false), piece("log", "", true)),
		"the task itself at last": answer(piece("code", "x", false), `{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"code","parts":[{"text":"def parse(s): return s"}]},{"artifactId":"log","parts":[{"text":"ok"}]}]}}`),
	} {
		if got != whole || got.IsZero() {
			t.Errorf("%s: %s, want %s", name, got, whole)
		}
	}
	if other := answer(piece("code", "def parse(s): return t", false), piece("log", "ok", false)); other == whole {
		t.Error("another artifact is the same answer")
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = piece(fmt.Sprint(i), "x", false)
	}
	if answer(many...).IsZero() {
		t.Error("many artifacts give no answer")
	}
}
