package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/otlp"
)

// text is an attribute that is a text.
func text(key, value string) string {
	return fmt.Sprintf(`{"key": %q, "value": {"stringValue": %q}}`, key, value)
}

// read decodes the records and returns the events.
func read(t *testing.T, records ...string) (got []events.Event) {
	t.Helper()
	a := otlp.Format().New(adapter.Options{})
	emit := func(e *events.Event) { got = append(got, *e) }
	for _, r := range records {
		if err := a.Decode([]byte(r), emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFreeNames holds what is made of spans that say of themselves what they are, in words of
// their own program.
func TestFreeNames(t *testing.T) {
	f := func(want string, attributes ...string) {
		t.Helper()
		var said []string
		for _, e := range read(t, span(1, strings.Join(attributes, ", "))) {
			said = append(said, fmt.Sprintf("%s %s%s", e.Kind, e.Tool.Name, e.To.Agent))
			if e.Kind == events.ToolCall && e.Tool.ArgsHash.IsZero() || e.Kind == events.ToolResult && e.Content.IsZero() {
				t.Errorf("%s without content", e.Kind)
			}
		}
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%q: %q, want %q", attributes, got, want)
		}
	}
	f("tool.call chat, tool.result chat", text("mlflow.spanType", `"TOOL"`), text("mlflow.spanInputs", `{"q": 1}`), text("mlflow.spanOutputs", `"none"`))
	f("tool.call chat, tool.result chat", text("lmnr.span.type", "TOOL"), text("lmnr.span.input", `{"q": 1}`), text("lmnr.span.output", "none"))
	f("tool.call chat, tool.result chat", text("span_type", "tool"), text("inputs", `{"q": 1}`), text("output", "none"))
	f("tool.call look, tool.result look", text("entity.type", "agent"), text("span.type", "tool"), text("tool.name", "look"), text("input", `{"q": 1}`), text("output", "none"))
	f("agent.call bot, agent.return ", text("entity.type", "agent"), text("entity.name", "bot"), text("output", "none"))
	f("llm.call ", text("agentops.span.kind", "llm"), `{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "4"}}`)
	// A convention has the last word.
	f("tool.call look, tool.result look", text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "look"), text("x.span.kind", "agent"),
		text("gen_ai.tool.call.arguments", "{}"), text("gen_ai.tool.call.result", "none"))
	f("", text("jaeger.span.kind", "client"), text("output", "none"))
	f("", text("span.types", "tool"), text("lifespankind", "tool"))
}

// TestCallsWithoutContent holds that a call whose own span has neither arguments nor result
// gets those of the requests around it, by its id, and only in its own flow.
func TestCallsWithoutContent(t *testing.T) {
	const opening = `{"role": "user", "content": "a"}`
	asks := `{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_0", "name": "look", "arguments": {"q": 1}}]}`
	brings := `{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_0", "response": "none"}]}`
	tool := func(n int, id string) string {
		return span(n, text("gen_ai.operation.name", "execute_tool")+", "+text("gen_ai.tool.name", "look")+", "+text("gen_ai.tool.call.id", id))
	}
	f := func(name string, want bool, records ...string) {
		t.Helper()
		for _, e := range read(t, records...) {
			if e.Kind == events.ToolCall && e.Tool.ArgsHash.IsZero() == want || e.Kind == events.ToolResult && e.Content.IsZero() == want {
				t.Errorf("%s: %s with content: %t, want %t", name, e.Kind, !want, want)
			}
		}
	}
	one := func(records ...string) string { // one trace
		return strings.ReplaceAll(strings.Join(records, ""), `]}]}]}{"resourceSpans": [`, "]}]}, ")
	}
	chat := request(1, "["+opening+"]", "["+asks+"]")
	then := strings.ReplaceAll(request(3, "["+opening+", "+asks+", "+brings+"]", "[]"), fmt.Sprintf("%032x", 3), fmt.Sprintf("%032x", 1))
	f("by its id", true, one(chat, strings.ReplaceAll(tool(2, "call_0"), fmt.Sprintf("%032x", 2), fmt.Sprintf("%032x", 1)), then))
	f("of another id", false, chat, tool(2, "call_9"), then)
	f("alone", false, tool(2, "call_0"))
}

// TestTracesOfOneSpan holds that spans which all are traces of their own are one flow where the
// ids of calls say so: callbacks of LangChain outside of any span.
func TestTracesOfOneSpan(t *testing.T) {
	human := `{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "a"}}`
	ai := `{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "AIMessage"], "kwargs": {"content": "", "tool_calls": [{"name": "look", "args": {"q": 1}, "id": "call_%d", "type": "tool_call"}]}}`
	result := `{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"], "kwargs": {"status": "success", "content": "none", "tool_call_id": "call_%d", "name": "look"}}`
	step := func(n int, in, out string) string {
		return span(n, text("traceloop.span.kind", "workflow")+", "+text("traceloop.entity.input", `{"messages": [`+in+`]}`)+", "+
			text("traceloop.entity.output", `{"output": [{"lg_name": "Command", "update": {"messages": [`+out+`]}}]}`))
	}
	tool := func(n, call int) string {
		return span(n, text("gen_ai.operation.name", "execute_tool")+", "+text("traceloop.entity.name", "DynamicStructuredTool")+", "+
			text("traceloop.entity.input", `{"args": ["{\"q\": 1}"]}`)+", "+text("traceloop.entity.output", fmt.Sprintf(result, call)))
	}
	var said []string
	for _, e := range read(t, step(1, human, fmt.Sprintf(ai, 0)), tool(2, 0),
		step(3, human+", "+fmt.Sprintf(ai, 0)+", "+fmt.Sprintf(result, 0), fmt.Sprintf(ai, 1)), tool(4, 1)) {
		if e.Kind == events.ToolCall {
			said = append(said, e.Tool.Name+" "+e.Tool.CallID+" of "+strings.TrimLeft(e.CorrelationID, "0"))
		}
	}
	if got, want := strings.Join(said, ", "), "look call_0 of 1, look call_1 of 1"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
