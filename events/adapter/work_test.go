package adapter_test

import (
	"fmt"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

func TestWorkThatIsForgottenIsUnknown(t *testing.T) {
	w := adapter.NewWork(2)
	is := func(agent string, want events.Tri) {
		t.Helper()
		if got := w.Of(agent); got != want {
			t.Errorf("%s: %d, want %d", agent, got, want)
		}
	}
	is("a", events.No)
	w.Note("a", events.Unknown)
	w.Note("a", events.Yes)
	w.Note("a", events.Unknown)
	is("a", events.Yes)
	w.Spend("a")
	is("a", events.No)
	w.Note("a", events.Yes)
	w.Note("b", events.Yes)
	is("a", events.Yes)
	w.Note("c", events.Yes)
	is("b", events.Unknown)
	is("d", events.Unknown)
	w.Spend("b")
	is("b", events.No)
	w.Note("b", events.Unknown)
	is("b", events.Unknown)
	var e events.Event
	e.Source = "s"
	if w.Set(&e, "c"); e.Source != "s" && e.HadWork != events.Unknown {
		t.Errorf("%d of %s", e.HadWork, e.Source)
	}
	if e.Source = "s"; w.Len() > 2 {
		t.Errorf("%d agents are remembered", w.Len())
	}
	if w.Set(&e, "nobody"); e.HadWork != events.Unknown || e.Source != "s/unseen" {
		t.Errorf("%d of %s, want a source of its own", e.HadWork, e.Source)
	}
}

// TestManyWorkers has one agent work, then more than an adapter remembers, and then the first one
// call another: that it did nothing must not be said.
func TestManyWorkers(t *testing.T) {
	f := func(format string, work func(i int) string, hop string) {
		t.Helper()
		kind, err := registry.Lookup(format)
		if err != nil {
			t.Fatal(err)
		}
		a := kind.New(adapter.Options{})
		told := 0
		emit := func(e *events.Event) {
			if e.Kind == events.AgentCall && e.From.Agent == "a0" {
				if told++; e.HadWork != events.Unknown {
					t.Errorf("%s: had_work is %d, want it not told: %s", format, e.HadWork, e.AppendJSON(nil))
				}
			}
		}
		for i := range 300 {
			if err := a.Decode([]byte(work(i)), emit); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Decode([]byte(hop), emit); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(emit); err != nil || told != 1 {
			t.Errorf("%s: %d calls, %v", format, told, err)
		}
	}
	f("trace", func(i int) string {
		return fmt.Sprintf(`{"dataset":"d","trace_id":"t","seq":%d,"ts":null,"from":"a%d","to":null,"kind":"tool","tool":"x","args_hash":null,"had_work":null,"tokens_in":null,"tokens_out":null,"sim":null}`, i, i)
	}, `{"dataset":"d","trace_id":"t","seq":900,"ts":null,"from":"a0","to":"z","kind":"call","tool":null,"args_hash":null,"had_work":null,"tokens_in":null,"tokens_out":null,"sim":null}`)
	f("autogen", func(i int) string {
		return fmt.Sprintf(`2026-11-20 14:00:00,001 autogen_core.events INFO {"type": "ToolCall", "tool_name": "search", "arguments": {"q": "x"}, "result": "found", "agent_id": "a%d/k"}`, i)
	}, `2026-11-20 14:00:00,003 autogen_core.events INFO {"payload": "{\"task\": \"x\"}", "sender": "a0/k", "receiver": "z/k", "kind": "MessageKind.DIRECT", "delivery_stage": "DeliveryStage.SEND", "type": "Message"}`)
	span := func(id int, parent string, begin, end int, attributes string) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032d","spanId":"%016d",%s"name":"s","startTimeUnixNano":"1790000%03d000000000","endTimeUnixNano":"1790000%03d000000000","attributes":[%s]}]}]}]}`,
			1, id, parent, begin, end, attributes)
	}
	attribute := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
	}
	const below = `"parentSpanId":"0000000000001000",`
	f("otlp", func(i int) string {
		if i == 299 {
			return span(1000, "", 0, 600, attribute("gen_ai.operation.name", "invoke_agent")+","+attribute("gen_ai.agent.name", "a0"))
		}
		return span(i+1, below, i+1, i+1, attribute("gen_ai.operation.name", "execute_tool")+","+attribute("gen_ai.tool.name", "x")+","+attribute("gen_ai.agent.name", fmt.Sprint("a", i)))
	}, span(500, below, 500, 501, attribute("gen_ai.operation.name", "invoke_agent")+","+attribute("gen_ai.agent.name", "z")))
}
