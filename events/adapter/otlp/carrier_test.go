package otlp

import (
	"bytes"
	"fmt"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestToolOfGraphRunsAgent holds that an agent which a tool of a graph runs was called by the node
// that ran before the tool, and not by the user: nothing but time ties the two together.
func TestToolOfGraphRunsAgent(t *testing.T) {
	chain := func(node string) string {
		return attribute("openinference.span.kind", "CHAIN") + "," + attribute("metadata", `{"langgraph_node":"`+node+`","langgraph_checkpoint_ns":"`+node+`:1"}`)
	}
	named := func(name string, at int, id, parent uint64, attributes string) []byte {
		return bytes.Replace(oneSpan(at, 1, id, parent, attributes), []byte(`"name":"s"`), []byte(`"name":"`+name+`"`), 1)
	}
	var got []string
	r := newReader(adapter.Options{})
	emit := func(e *events.Event) {
		if e.Kind == events.AgentCall {
			got = append(got, fmt.Sprint(e.By())+" "+e.From.Agent+" -> "+e.To.Agent)
		}
	}
	for _, batch := range [][]byte{
		named("ChatOpenAI", 1, 3, 2, attribute("openinference.span.kind", "LLM")),
		named("model", 1, 2, 1, chain("model")),
		named("billing", 2, 6, 5, attribute("openinference.span.kind", "CHAIN")+","+attribute("metadata", `{"lc_agent_name":"billing","langgraph_node":"tools","langgraph_checkpoint_ns":"tools:1"}`)),
		named("task", 2, 5, 4, attribute("openinference.span.kind", "TOOL")+","+attribute("tool.name", "task")),
		named("tools", 2, 4, 1, chain("tools")),
		named("LangGraph", 0, 1, 0, attribute("openinference.span.kind", "CHAIN")),
	} {
		if err := r.Decode(batch, emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Flush(emit); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != "user  -> model" || got[1] != "agent model -> billing" {
		t.Errorf("calls are %q", got)
	}
}
