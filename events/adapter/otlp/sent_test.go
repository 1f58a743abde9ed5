package otlp

import (
	"bytes"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestToolsOfMessages holds that tools of AutoGen have the arguments and results from the messages
// of its runtime, by the ids of calls. Messages of other programs are not used.
func TestToolsOfMessages(t *testing.T) {
	f := func(scope string, want bool) {
		t.Helper()
		r := newReader(adapter.Options{})
		in := func(batch []byte) []byte {
			return bytes.Replace(batch, []byte(`"scopeSpans":[{`), []byte(`"scopeSpans":[{"scope":{"name":"`+scope+`"},`), 1)
		}
		seen := 0
		emit := func(e *events.Event) {
			switch e.Kind {
			case events.ToolCall:
				seen++
				if !e.Tool.ArgsHash.IsZero() != want {
					t.Errorf("%s: arguments are told: %t", scope, !want)
				}
			case events.ToolResult:
				seen++
				if !e.Content.IsZero() != want {
					t.Errorf("%s: the result is told: %t", scope, !want)
				}
			}
		}
		for _, batch := range [][]byte{
			in(oneSpan(1, 1, 2, 1, attribute("message", `{"message":{"source":"bot","content":[{"id":"c1","arguments":"{\"n\": 1}","name":"look"}],"type":"ToolCallRequestEvent"}}`))),
			oneSpan(2, 1, 3, 1, attribute("gen_ai.operation.name", "execute_tool")+","+attribute("gen_ai.tool.name", "look")+","+attribute("gen_ai.tool.call.id", "c1")),
			in(oneSpan(3, 1, 4, 1, attribute("message", `{"message":{"source":"bot","content":[{"content":"none","name":"look","call_id":"c1","is_error":false}],"type":"ToolCallExecutionEvent"}}`))),
			oneSpan(4, 1, 1, 0, attribute("gen_ai.operation.name", "invoke_agent")+","+attribute("gen_ai.agent.name", "bot")),
		} {
			if err := r.Decode(batch, emit); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Flush(emit); err != nil {
			t.Fatal(err)
		}
		if seen != 2 {
			t.Errorf("%s: %d events of tools", scope, seen)
		}
	}
	f("autogen SingleThreadedAgentRuntime", true)
	f("some.library", false)
}
