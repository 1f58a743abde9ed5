package otlp

import (
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestSilences counts each span that gives no event, by why.
func TestSilences(t *testing.T) {
	f := func(what string, want adapter.Silences, told int, spans ...string) {
		t.Helper()
		var got adapter.Silences
		n := 0
		r := newReader(adapter.Options{Silent: func(why adapter.Silence) { got[why]++ }})
		for i, attributes := range spans {
			if err := r.Decode(oneSpan(len(spans)-i, 1, uint64(i+1), uint64(i), attributes), func(*events.Event) { n++ }); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Flush(func(*events.Event) { n++ }); err != nil {
			t.Fatal(err)
		}
		if got != want || n != told {
			t.Errorf("%s: %v and %d events, want %v and %d", what, got, n, want, told)
		}
	}
	agent := attribute("gen_ai.operation.name", "invoke_agent") + "," + attribute("gen_ai.agent.name", "a")
	tool := attribute("gen_ai.operation.name", "execute_tool") + "," + attribute("gen_ai.tool.name", "t")
	chat := attribute("gen_ai.operation.name", "chat")
	f("a request of a web server", adapter.Silences{adapter.SilentUnknown: 1}, 0, attribute("http.request.method", "GET"))
	f("an agent that asks a model without tokens", adapter.Silences{adapter.SilentNoTokens: 1}, 2, agent, chat)
	f("an agent that asks with tokens", adapter.Silences{}, 3, agent, chat+","+attribute("gen_ai.usage.input_tokens", "5"))
	f("a step of a graph", adapter.Silences{adapter.SilentStep: 1}, 4, agent, attribute("executor.id", "x"), tool)
	f("one run that two libraries tell of", adapter.Silences{adapter.SilentTwice: 1}, 2, agent, agent)
	f("one call of a tool, of client and server", adapter.Silences{adapter.SilentTwice: 1}, 4, agent, tool, tool)
}
