package adapter_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/openaiagents"
	"weir/events/adapter/otlp"
)

// TestBeginAgain crashes after each record and begins again, with a new adapter, at the
// oldest record that the old one needed. Every event has to be told before or after, as
// it is told without a crash; what is told twice has the same id, and the first counts.
func TestBeginAgain(t *testing.T) {
	f := func(format adapter.Format, files ...string) {
		t.Helper()
		var records [][]byte
		for _, file := range files {
			r, err := adapter.NewReader(bytes.NewReader(recording(t, file)))
			if err != nil {
				t.Fatal(err)
			}
			r.Use(format.Framing, func(f adapter.Fault) { t.Error(f) })
			for {
				record, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if format.Name == "otlp" {
					for _, s := range spans(t, record.Bytes) {
						records = append(records, []byte(s))
					}
				} else {
					records = append(records, bytes.Clone(record.Bytes))
				}
			}
		}
		got := map[string]string{}
		emit := func(e *events.Event) {
			if id := e.Source + " " + e.ID; got[id] == "" {
				got[id] = string(e.AppendJSON(nil))
			}
		}
		decode := func(a adapter.Adapter, from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				a.(adapter.Keeper).At(int64(i))
				if err := a.Decode(records[i], emit); err != nil {
					t.Fatal(err)
				}
			}
		}
		flush := func(a adapter.Adapter) {
			t.Helper()
			if err := a.Flush(emit); err != nil {
				t.Fatal(err)
			}
		}
		whole := format.New(adapter.Options{})
		decode(whole, 0, len(records))
		flush(whole)
		want := maps.Clone(got)
		again := 0
		for crash := 1; crash < len(records); crash++ {
			clear(got)
			before := format.New(adapter.Options{})
			decode(before, 0, crash)
			from, needed := before.(adapter.Keeper).Oldest()
			if !needed {
				from = int64(crash)
			}
			again += crash - int(from)
			after := format.New(adapter.Options{})
			decode(after, int(from), len(records))
			flush(after)
			for id, line := range want {
				if got[id] != line {
					t.Fatalf("%v: crash after record %d, again from %d: event %s\ngot  %s\nwant %s", files, crash, from, id, got[id], line)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%v: crash after record %d: %d events, want %d", files, crash, len(got), len(want))
			}
		}
		t.Logf("%s: %d records, %d events; %.1f records read again after a crash", files[0], len(records), len(want), float64(again)/float64(len(records)))
	}
	f(otlp.Format(), "google_adk/transfer_pingpong.otlp", "google_adk/honest.otlp", "google_adk/tool_loop.otlp")
	f(otlp.Format(), "pydantic_ai/delegation_pingpong.otlp", "smolagents/managed_agent_loop.otlp")
	f(openaiagents.Format(), "openai_agents/handoff_pingpong", "openai_agents/agent_as_tool_loop", "openai_agents/honest")
	f(langsmith.Format(), "langgraph/handoff_pingpong.langsmith_batch", "langgraph/honest.langsmith_batch")
}
