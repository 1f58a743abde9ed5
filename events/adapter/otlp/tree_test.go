package otlp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/events/adapter"
)

// FuzzTrees makes traces of any form out of four bytes for each span: parent, link, kind, and
// time. For any structure and any order of emitting, no event comes twice, each tool call has its
// result, and each answer its call.
func FuzzTrees(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 1, 0, 17, 8, 2, 0, 33, 7, 1, 2, 18, 6}, uint8(0))
	f.Add([]byte{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, uint8(7))
	kinds := []string{
		attribute("gen_ai.operation.name", "invoke_agent") + "," + attribute("gen_ai.agent.name", "a%d"),
		attribute("gen_ai.operation.name", "execute_tool") + "," + attribute("gen_ai.tool.name", "t%d"),
		attribute("gen_ai.operation.name", "execute_tool") + "," + attribute("gen_ai.tool.name", "transfer_to_a%d"),
		attribute("gen_ai.operation.name", "chat") + "," + attribute("gen_ai.usage.input_tokens", "5"),
		attribute("executor.id", "a%d"),
		attribute("openinference.span.kind", "CHAIN") + "," + attribute("metadata", `{"langgraph_node":"s","langgraph_checkpoint_ns":"s:1"}`),
		attribute("openinference.span.kind", "AGENT") + "," + attribute("graph.node.parent_id", "a%d"),
		attribute("gen_ai.operation.name", "invoke_workflow"),
	}
	f.Fuzz(func(t *testing.T, in []byte, settings uint8) {
		r := newReader(adapter.Options{Hold: time.Duration(settings%8) * 10 * time.Millisecond, MaxHeld: 8 << (settings / 32)})
		seen, open := map[string]bool{}, map[string]int{}
		emit := func(e *events.Event) {
			if err := e.Validate(); err != nil {
				t.Fatal(err)
			}
			if seen[e.ID] {
				t.Fatalf("%s %s is told twice", e.Kind, e.ID)
			}
			seen[e.ID] = true
			switch e.Kind {
			case events.ToolCall:
				open[e.SpanID]++
			case events.ToolResult:
				open[e.SpanID]--
			case events.AgentCall:
				if e.By() == events.OriginAgent && e.HadWork == events.Unknown {
					t.Fatalf("%s does not tell about work", e.ID)
				}
			}
		}
		for n := 0; n+4 <= len(in) && n < 4*64; n += 4 {
			parent, link, what, when := in[n], in[n+1], in[n+2], in[n+3]
			attributes := strings.ReplaceAll(kinds[what%8], "%d", strconv.Itoa(int(what/8%4)))
			batch := oneSpan(int(when), 1, uint64(n/4+1), uint64(parent)%66, attributes)
			if link > 0 {
				batch = fmt.Appendf(batch[:len(batch)-len(`}]}]}]}`)], `,"links":[{"spanId":"%016x"}],"flags":%d}]}]}]}`, link%66, uint16(link)<<4)
			}
			if err := r.Decode(batch, emit); err != nil {
				t.Fatalf("%s: %v", batch, err)
			}
		}
		if err := r.Flush(emit); err != nil {
			t.Fatal(err)
		}
		for id, n := range open {
			if n != 0 {
				t.Fatalf("tool call %s has %d results too few", id, n)
			}
		}
	})
}
