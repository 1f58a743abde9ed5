package mcp

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestTasks follows a call that becomes a task: looks in time repeat each other, one that comes too
// early does not, and the end of the task is the result of the call.
func TestTasks(t *testing.T) {
	n := 0
	exchange := func(second, ms int, request, response string) string {
		n++
		at := fmt.Sprintf("2026-11-20T14:00:%02d.%03dZ", second, ms)
		return fmt.Sprintf(`{"time":%q,"direction":"request","exchange":%d,"proxy":"jobs","headers":{"Mcp-Session-Id":"s"},"body":{"jsonrpc":"2.0","id":%d,%s}}`, at, n, n, request) + "\n" +
			fmt.Sprintf(`{"time":%q,"direction":"response","exchange":%d,"proxy":"jobs","status":200,"headers":{},"body":{"jsonrpc":"2.0","id":%d,"result":%s}}`, at, n, n, response) + "\n"
	}
	const get, working = `"method":"tasks/get","params":{"taskId":"k1"}`, `{"taskId":"k1","status":"working","pollIntervalMs":5000}`
	log := exchange(0, 0, `"method":"tools/call","params":{"name":"render","arguments":{"page":1}}`, `{"resultType":"task","taskId":"k1","status":"working","pollIntervalMs":5000}`) +
		exchange(5, 0, get, working) + // in time
		exchange(5, 200, get, working) + // too early
		exchange(10, 300, get, `{"taskId":"k1","status":"input_required","pollIntervalMs":5000}`) +
		exchange(10, 400, `"method":"tasks/update","params":{"taskId":"k1","inputResponses":{"a":{"action":"accept"}}}`, `{}`) +
		exchange(15, 500, get, `{"taskId":"k1","status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`) +
		exchange(20, 600, get, working) // of a task that is over, or of another program
	var got strings.Builder
	a := Format().New(adapter.Options{})
	for line := range strings.Lines(log) {
		err := a.Decode([]byte(line), func(e *events.Event) {
			fmt.Fprintf(&got, "%v %s", e.Kind, e.Tool.Name)
			if e.Tool.RetryOf != "" {
				got.WriteString(" again")
			}
			if e.Kind == events.ToolResult {
				fmt.Fprintf(&got, " %v %.0f ms", e.Status, e.DurationMS)
			}
			got.WriteByte('\n')
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `tool.call render
tool.call tasks/get again
tool.result tasks/get ok 0 ms
tool.call tasks/get
tool.result tasks/get ok 0 ms
tool.call tasks/get again
tool.result tasks/get ok 0 ms
tool.call tasks/update again
tool.result tasks/update ok 0 ms
tool.call tasks/get again
tool.result tasks/get ok 0 ms
tool.result render ok 15500 ms
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestReadStated(t *testing.T) {
	for text, want := range map[string]stated{
		`{"task":{"taskId":"a","status":"working","pollInterval":3000}}`:       {id: "a", status: "working", poll: 3000},
		`{"resultType":"task","taskId":"a","status":"failed","error":{"x":1}}`: {id: "a", status: "failed", failure: []byte(`{"x":1}`)},
		`{"content":[]}`: {},
		`[]`:             {},
	} {
		if got := readStated([]byte(text)); got.id != want.id || got.status != want.status || got.poll != want.poll || string(got.failure) != string(want.failure) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
