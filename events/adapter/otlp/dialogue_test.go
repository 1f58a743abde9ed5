package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/otlp"
)

// request is a span of a request to a model, a trace of its own, in the second n.
func request(n int, input, output string) string {
	return span(n, fmt.Sprintf(`{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}, {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "4"}},
		{"key": "gen_ai.input.messages", "value": {"stringValue": %q}}, {"key": "gen_ai.output.messages", "value": {"stringValue": %q}}`, input, output))
}

func span(n int, attributes string) string {
	return fmt.Sprintf(`{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}, "scopeSpans": [{"spans": [
		{"traceId": "%032x", "spanId": "%016x", "name": "chat", "startTimeUnixNano": "%d000000000", "endTimeUnixNano": "%d500000000", "attributes": [%s]}]}]}]}`,
		n, n, 1790000000+n, 1790000000+n, strings.Join(strings.Fields(attributes), " "))
}

// TestDialogue holds the events of programs of which only the client of a model reports spans.
func TestDialogue(t *testing.T) {
	user := func(text string) string {
		return fmt.Sprintf(`{"role": "user", "parts": [{"type": "text", "content": %q}]}`, text)
	}
	asks := func(tool string) string {
		return fmt.Sprintf(`{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_0", "name": %q, "arguments": {"q": 1}}]}`, tool)
	}
	const brings = `{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_0", "response": "none"}]}`
	list := func(messages ...string) string { return "[" + strings.Join(messages, ", ") + "]" }
	f := func(name, want string, records ...string) {
		t.Helper()
		a := otlp.Format().New(adapter.Options{})
		var got []string
		emit := func(e *events.Event) {
			if e.Kind != events.LLMCall {
				got = append(got, fmt.Sprintf("%s %s of %s", e.Kind, e.Tool.Name, strings.TrimLeft(e.CorrelationID, "0")))
			}
		}
		for _, r := range records {
			if err := a.Decode([]byte(r), emit); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := a.Flush(emit); err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(got, ", "); said != want {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
	first := request(1, list(user("a")), list(asks("search")))
	f("a call of which nobody has seen the result", "", first)
	f("one flow", "tool.call search of 1, tool.result search of 1", first, request(2, list(user("a"), asks("search"), brings), list()))
	f("tried twice", "tool.call search of 1, tool.result search of 1", first,
		request(2, list(user("a"), asks("search"), brings), list()), request(3, list(user("a"), asks("search"), brings), list()))
	f("two conversations with one id", "tool.call search of 1, tool.result search of 1, tool.call find of 2, tool.result find of 2", first, request(2, list(user("b")), list(asks("find"))),
		request(3, list(user("a"), asks("search"), brings), list()), request(4, list(user("b"), asks("find"), brings), list()))
	f("what the service keeps", "tool.call search of 1, tool.result search of 1", first, request(2, `[{"type": "function_call_output", "call_id": "call_0", "output": "none"}]`, "[]"))
	f("chat completions", "tool.call search of 7, tool.result search of 7", request(7, `[{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function":
		{"name": "search", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "x", "content": "none"}]`, "[]"))
	f("Anthropic's messages", "tool.call search of 7, tool.result search of 7", request(7, `[{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name":
		"search", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "none"}]}]`, "[]"))
	f("a program that has spans of tools", "tool.call look of 9, tool.result look of 9",
		span(9, `{"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}, {"key": "gen_ai.tool.name", "value": {"stringValue": "look"}}`),
		first, request(2, list(user("a"), asks("search"), brings), list()))
	f("a handoff is no tool", "", request(2, list(user("a"), asks("transfer_to_billing"), brings), list()))
}

// TestDialogueKeepsNoInput holds that what was received is not kept for a result that may
// never come, and that the result is known when it does.
func TestDialogueKeepsNoInput(t *testing.T) {
	a := otlp.Format().New(adapter.Options{})
	keeper := a.(adapter.Keeper)
	var got []string
	emit := func(e *events.Event) {
		if e.Kind == events.ToolCall {
			got = append(got, e.Tool.Name+" of "+strings.TrimLeft(e.CorrelationID, "0"))
		}
	}
	read := func(place int64, record string) {
		t.Helper()
		keeper.At(place)
		if err := a.Decode([]byte(record), emit); err != nil {
			t.Fatal(err)
		}
		if oldest, ok := keeper.Oldest(); !ok || oldest != place {
			t.Errorf("the oldest record needed is %d, %t, want %d", oldest, ok, place)
		}
		if err := a.Flush(emit); err != nil {
			t.Fatal(err)
		}
		if oldest, ok := keeper.Oldest(); ok {
			t.Errorf("when all is silent record %d is needed", oldest)
		}
	}
	read(7, request(1, `[{"role": "user", "content": "a"}]`, `[{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_0", "name": "search", "arguments": {}}]}]`))
	read(8, request(2, `[{"type": "function_call_output", "call_id": "call_0", "output": "none"}]`, "[]"))
	if fmt.Sprint(got) != "[search of 1]" {
		t.Errorf("told %q", got)
	}
}
