package adapter_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// shared returns the path of a file of the traces that lie outside of this
// repository: in $WEIR_SHARED, else in ../shared beside the repository.
func shared(t *testing.T, file string) string {
	t.Helper()
	dir := os.Getenv("WEIR_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("MISSING TRACES: %s is not in $WEIR_SHARED nor in ../shared beside the repository; the trace format is tested on made-up lines alone", file)
	}
	return path
}

// TestSharedTraces reads the recorded traces and compares what came with a plain
// count of their lines.
func TestSharedTraces(t *testing.T) {
	f := func(file string, flows int) {
		t.Helper()
		raw, err := os.ReadFile(shared(t, file))
		if err != nil {
			t.Fatal(err)
		}
		got := hear(t, bytes.NewReader(raw), adapter.Options{})
		if len(got.faults) > 0 || len(got.flows) != flows {
			t.Errorf("%s: %d flows, want %d; faults %q", file, len(got.flows), flows, got.faults)
		}
		want := countLines(t, raw)
		have := map[events.Kind]int{}
		answered := map[string]int{}
		for i := range got.events {
			e := &got.events[i]
			have[e.Kind]++
			switch e.Kind {
			case events.ToolCall:
				answered[e.CorrelationID+" "+e.Tool.CallID]++
			case events.ToolResult:
				if answered[e.CorrelationID+" "+e.Tool.CallID]--; e.Tool.CallID == "" || e.Content.IsZero() {
					t.Errorf("%s: result %s belongs to no call", file, e.ID)
				}
			}
		}
		for call, n := range answered {
			if n != 0 {
				t.Errorf("%s: tool call %s has %d results too few", file, call, n)
			}
		}
		for kind, n := range want {
			if have[kind] != n {
				t.Errorf("%s: %d %v, want %d", file, have[kind], kind, n)
			}
		}
		t.Logf("%s: %d flows, %d hops, %d user messages, %d tool calls, %d answers", file, len(got.flows), len(got.hops), got.users, len(got.tools), have[events.AgentReturn])
	}
	f("traces/whowhen_hc.events.jsonl.gz", 58)
	f("traces/tau_airline_gpt4o.events.jsonl.gz", 200)
}

// countLines counts the events that the lines of a trace file stand for.
func countLines(t *testing.T, raw []byte) map[events.Kind]int {
	t.Helper()
	r, err := adapter.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Use(adapter.Lines, nil)
	kinds := map[string]events.Kind{"call": events.AgentCall, "return": events.AgentReturn, "tool": events.ToolCall, "result": events.ToolResult, "error": events.AgentReturn}
	out := map[events.Kind]int{}
	for {
		record, err := r.Next()
		if err != nil {
			return out
		}
		var line struct{ Kind string }
		if err := json.Unmarshal(record.Bytes, &line); err != nil {
			t.Fatal(err)
		}
		if kind, ok := kinds[line.Kind]; ok {
			out[kind]++
		}
	}
}
