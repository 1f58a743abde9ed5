package otlp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestAliases holds that a span gives the same events with any spelling of an attribute, old or
// new.
func TestAliases(t *testing.T) {
	tell := func(attributes map[string]string) string {
		var list []string
		for _, key := range slices.Sorted(maps.Keys(attributes)) {
			list = append(list, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, attributes[key]))
		}
		record := `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"lib"},"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b000000000000003","name":"a span",` +
			`"startTimeUnixNano":"1771900001200000000","endTimeUnixNano":"1771900001300000000","status":{"code":2},"attributes":[` + strings.Join(list, ",") + `]}]}]}]}`
		var out strings.Builder
		emit := func(e *events.Event) { out.Write(append(e.AppendJSON(nil), '\n')) }
		a := Format().New(adapter.Options{})
		if err := a.Decode([]byte(record), emit); err != nil {
			t.Fatalf("%s: %v", record, err)
		}
		if err := a.Flush(emit); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	tried := map[field]bool{}
	f := func(what map[string]string, values map[field]string) {
		t.Helper()
		spell := func(of field, as string) map[string]string {
			out := maps.Clone(what)
			for field, value := range values {
				if name := aliases[field][0]; field != of {
					out[name] = value
				} else {
					out[as] = value
				}
			}
			return out
		}
		want := tell(spell(unknown, ""))
		for field, value := range values {
			tried[field] = true
			without := tell(func() map[string]string { out := spell(unknown, ""); delete(out, aliases[field][0]); return out }())
			if without == want {
				t.Errorf("%s = %q makes no difference", aliases[field][0], value)
			}
			for _, alias := range aliases[field] {
				if got := tell(spell(field, alias)); got != want {
					t.Errorf("%s tells\n%swhere %s tells\n%s", alias, got, aliases[field][0], want)
				}
			}
		}
	}
	f(map[string]string{"openinference.span.kind": "tool"}, map[field]string{toolName: "search", toolCallID: "c-1", toolType: "function", toolServer: "docs",
		toolArgs: `{"q":"x"}`, toolResult: `{"found":3}`, conversationID: "talk", sessionID: "s", agentName: "planner",
		flowTags: `["nightly"]`, spanTags: `["heartbeat"]`})
	f(map[string]string{"gen_ai.operation.name": "execute_tool"}, map[field]string{toolName: "search", input: `{"q":"x"}`, output: `{"found":3}`, correlationID: "flow-1", parentCorrelationID: "p", rootCorrelationID: "r",
		turnID: "turn-1", errorType: "timeout", errorMessage: "it took too long", agentID: "id-7"})
	f(map[string]string{"gen_ai.operation.name": "chat"}, map[field]string{inputTokens: "12", outputTokens: "3", cacheReadTokens: "5", cacheCreationTokens: "6",
		reasoningTokens: "2", totalTokens: "15", costUSD: "0.25", serviceTier: "batch", model: "m-1", provider: "acme", agentName: "planner"})
	f(map[string]string{"gen_ai.operation.name": "invoke_agent"}, map[field]string{agentName: "coder", calledBy: "planner", input: "do it", output: "done",
		invocationStatus: "cancelled"})
	f(map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder", "gen_ai.caller.name": "planner"}, map[field]string{callerType: "human"})
	f(map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.agent.name": "planner", "gen_ai.tool.name": "hand_over"},
		map[field]string{transferTarget: "coder", transferMode: "return_to_caller"})
	f(map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.agent.name": "planner", "gen_ai.tool.name": "hand_over", "gen_ai.transfer.target.name": "kim"},
		map[field]string{transferTo: "human"})
	f(map[string]string{"gen_ai.tool.name": "search"}, map[field]string{mcpMethod: "tools/call"})
	f(map[string]string{"gen_ai.agent.name": "coder"}, map[field]string{a2aMethod: "message/send"})
	f(map[string]string{}, map[field]string{operation: "execute_tool"})
	f(map[string]string{}, map[field]string{spanKind: "AGENT"})
	f(map[string]string{}, map[field]string{operationID: "ai.toolCall"})
	f(map[string]string{}, map[field]string{entityKind: "tool"})
	f(map[string]string{}, map[field]string{genkitKind: "tool"})
	f(map[string]string{}, map[field]string{observationType: "tool"})
	for field := operation; field < fields; field++ {
		switch field {
		case agentDescription, executorID, metadata, workflowName, systemPrompt, usageDetails, costDetails, level, lcAgent, lcNode, lcNamespace, sent: // of frameworks: see the recordings
		default:
			if !tried[field] {
				t.Errorf("no span has %s", aliases[field][0])
			}
		}
	}
}

// TestNewOperations reads what an agent does with its memory as uses of tools, and a plan as a step
// whose tokens are those of the requests in it.
func TestNewOperations(t *testing.T) {
	span := func(id, parent, name, attributes string) string {
		return fmt.Sprintf(`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":%q,"parentSpanId":%q,"name":%q,"startTimeUnixNano":"17719000012%s000000","endTimeUnixNano":"17719000013%s000000","attributes":[%s]}`,
			id, parent, name, id[14:], id[14:], attributes)
	}
	text := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
	}
	tokens := `,{"key":"gen_ai.usage.input_tokens","value":{"intValue":"10"}},{"key":"gen_ai.request.model","value":{"stringValue":"m"}}`
	spans := []string{
		span("b000000000000001", "", "invoke_agent a", text("gen_ai.operation.name", "invoke_agent")+","+text("gen_ai.agent.name", "a")),
		span("b000000000000002", "b000000000000001", "plan a", text("gen_ai.operation.name", "plan")+tokens),
		span("b000000000000003", "b000000000000002", "chat m", text("gen_ai.operation.name", "chat")+tokens),
		span("b000000000000004", "b000000000000001", "search_memory", text("gen_ai.operation.name", "search_memory")+","+text("gen_ai.memory.query.text", "her name")),
		span("b000000000000005", "b000000000000001", "update_memory", text("gen_ai.operation.name", "update_memory")),
	}
	a := Format().New(adapter.Options{})
	var tools []string
	requests := 0
	emit := func(e *events.Event) {
		switch e.Kind {
		case events.ToolCall:
			tools = append(tools, e.Tool.Name)
			if e.Tool.Name == "search_memory" && e.Tool.ArgsHash.IsZero() {
				t.Error("a search in memory has no arguments")
			}
		case events.LLMCall:
			requests++
		}
	}
	if err := a.Decode([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[`+strings.Join(spans, ",")+`]}]}]}`), emit); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(tools); !slices.Equal(tools, []string{"search_memory", "update_memory"}) || requests != 1 {
		t.Errorf("tools %q, %d requests", tools, requests)
	}
}
