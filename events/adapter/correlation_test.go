package adapter_test

import (
	"bytes"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// read reads a file below testdata as the format of that name.
func read(t testing.TB, format, file string) *told {
	t.Helper()
	f, err := registry.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	r, err := adapter.NewReader(bytes.NewReader(sample(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	out := &told{}
	if err := adapter.Read(r, f, f.New(adapter.Options{}), func(e *events.Event) { out.add(t, e) }, func(b adapter.Fault) { out.faults = append(out.faults, b.Error()) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCorrelation holds that each format names flows in its order, from the most to the
// least trusted, and in the one that the user sets.
func TestCorrelation(t *testing.T) {
	f := func(format, file string, want events.CorrelationSource, flows int) {
		t.Helper()
		got := read(t, format, file)
		for i := range got.events {
			if e := &got.events[i]; e.CorrelationSource != want || e.CorrelationID == "" {
				t.Errorf("%s: %s is of flow %q by %v, want one by %v", format, e.ID, e.CorrelationID, e.CorrelationSource, want)
				break
			}
		}
		if len(got.flows) != flows {
			t.Errorf("%s: %d flows %q, want %d", format, len(got.flows), got.flows, flows)
		}
	}
	f("otlp", "real/google_adk/honest.otlp.jsonl.gz", events.CorrelationTrace, 2)
	f("otlp@conversation", "real/google_adk/honest.otlp.jsonl.gz", events.CorrelationConversation, 1)
	f("otlp@prompt,trace", "real/google_adk/honest.otlp.jsonl.gz", events.CorrelationPrompt, 2)
	f("otlp", "real/openinference_openai_agents/tool_loop.otlp.jsonl.gz", events.CorrelationSession, 1)
	f("otlp@trace,session", "real/openinference_openai_agents/tool_loop.otlp.jsonl.gz", events.CorrelationTrace, 1)
	f("openaiagents", "real/openai_agents/honest.jsonl.gz", events.CorrelationTrace, 2)
	f("openaiagents@conversation,trace", "real/openai_agents/honest.jsonl.gz", events.CorrelationConversation, 1)
	f("langsmith", "real/langgraph/honest.langsmith_batch.jsonl.gz", events.CorrelationTrace, 1)
	f("langsmith@conversation", "real/langgraph/honest.langsmith_batch.jsonl.gz", events.CorrelationConversation, 1)
	f("autogen", "real/autogen/honest.core_events.jsonl.gz", events.CorrelationConversation, 1)
	f("crewai", "real/crewai/honest.jsonl.gz", events.CorrelationTrace, 1)
	f("adk", "real/google_adk/honest.events.jsonl.gz", events.CorrelationPrompt, 2)
	f("adk@conversation,prompt", "real/google_adk/honest.session.json.gz", events.CorrelationConversation, 1)
	f("mcp", "real/mcp/tool_loop_meta.jsonl.gz", events.CorrelationBaggage, 1)
	f("mcp@trace", "real/mcp/tool_loop_meta.jsonl.gz", events.CorrelationTrace, 1)
	f("mcp@session,derived", "real/mcp/tool_loop_modern.jsonl.gz", events.CorrelationDerived, 1)
	f("claudehooks", "golden/claudehooks/session.in", events.CorrelationPrompt, 1)
	f("claudehooks@session", "golden/claudehooks/session.in", events.CorrelationSession, 1)
	f("otlplogs@session", "golden/otlplogs/claude_code.in", events.CorrelationSession, 2)
	f("tinyagi", "golden/tinyagi/rows.in", events.CorrelationDerived, 2)
	f("managedagents", "golden/managedagents/stream.in", events.CorrelationDerived, 2)
	f("managedagents", "golden/managedagents/sse.in", events.CorrelationSession, 1)

	refused := func(name, want string) {
		t.Helper()
		if _, err := registry.Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	refused("otlp@thread", "want explicit, baggage, prompt, trace, conversation, session, task, derived")
	refused("otlp@", "want explicit")
	refused("canonical@trace", "the events say themselves")
}

// TestDerivedOnlyWarns holds that a flow whose id was derived is warned and not stopped,
// and that the same calls are stopped in a flow that the log names.
func TestDerivedOnlyWarns(t *testing.T) {
	f := func(format, file, want string) {
		t.Helper()
		got := read(t, format, file)
		if order, _ := strictest(got.events); order != want {
			t.Errorf("%s: %q, want %q", file, order, want)
		}
	}
	f("mcp", "real/mcp/tool_loop_modern.jsonl.gz", "warn repetition_detected")
	f("mcp", "real/mcp/tool_loop_legacy_json.jsonl.gz", "deny repetition_detected")
	f("llamaindex", "real/llama_index/handoff_pingpong.events.jsonl.gz", "warn a2a_ping_pong")
	f("otlp", "real/llama_index/handoff_pingpong.otlp.jsonl.gz", "deny a2a_ping_pong")
	if only := analyzer.Balanced().WarnOnly; only != 1<<events.CorrelationDerived|1<<events.CorrelationPrincipal {
		t.Errorf("by default flows by %b only warn, want those that were derived and those of principals", only)
	}
}
