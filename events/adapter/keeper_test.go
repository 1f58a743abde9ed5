package adapter_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/langsmith"
	"weir/events/adapter/openaiagents"
	"weir/events/adapter/otlp"
)

// beginAgain crashes after each record and begins again, with a new adapter, at the oldest record
// that the old one needed. Every event has to be emitted before or after, the same as without a
// crash. A repeated event has the same id, and the first counts.
func beginAgain(t *testing.T, name string, format adapter.Format, records [][]byte) {
	t.Helper()
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
				t.Fatalf("%s: crash after record %d, again from %d: event %s\ngot  %s\nwant %s", name, crash, from, id, got[id], line)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: crash after record %d: %d events, want %d", name, crash, len(got), len(want))
		}
	}
	t.Logf("%s: %d records, %d events; %.1f records read again after a crash", name, len(records), len(want), float64(again)/float64(len(records)))
}

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
		beginAgain(t, files[0], format, records)
	}
	f(otlp.Format(), "google_adk/transfer_pingpong.otlp", "google_adk/honest.otlp", "google_adk/tool_loop.otlp")
	f(otlp.Format(), "pydantic_ai/delegation_pingpong.otlp", "smolagents/managed_agent_loop.otlp")
	f(openaiagents.Format(), "openai_agents/handoff_pingpong", "openai_agents/agent_as_tool_loop", "openai_agents/honest")
	f(langsmith.Format(), "langgraph/handoff_pingpong.langsmith_batch", "langgraph/honest.langsmith_batch")
}

// TestBeginAgainWithLinkedTraces has traces that are linked, of which the span that ties them
// comes after others of both.
func TestBeginAgainWithLinkedTraces(t *testing.T) {
	agent := func(name string) string {
		return `{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},{"key":"gen_ai.agent.name","value":{"stringValue":"` + name + `"}}`
	}
	const tool = `{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"search"}}`
	const linked = `"links":[{"traceId":"000000000000000000000000000000aa","spanId":"0000000000000001"}],`
	span := func(second int, library, trace, id, parent, more, attributes string) []byte {
		if parent != "" {
			parent = fmt.Sprintf(`"parentSpanId":"%016s",`, parent)
		}
		return fmt.Appendf(nil, `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":%q},"spans":[{"traceId":"%032s","spanId":"%016s",%s%s"name":"s",`+
			`"startTimeUnixNano":"%d000000000","endTimeUnixNano":"%d500000000","attributes":[%s]}]}]}]}`, library, trace, id, parent, more, 1790000000+second, 1790000000+second, attributes)
	}
	f := func(name string, records ...[]byte) {
		t.Run(name, func(t *testing.T) { beginAgain(t, name, otlp.Format(), records) })
	}
	f("a message that is read before who sent it", span(2, "a", "bb", "3", "2", "", tool), span(1, "a", "aa", "1", "9", "", agent("boss")),
		span(2, "a", "bb", "2", "", linked, agent("worker")), span(0, "a", "aa", "9", "", "", agent("chief")))
	f("a flow that outlives the one that opened it", span(1, "a", "aa", "1", "", "", agent("boss")), span(2, "b", "bb", "2", "", linked, agent("worker")),
		span(60, "a", "cc", "1", "", "", agent("else")), span(61, "b", "bb", "3", "2", "", tool))
	f("a flow that outlives the one that it opened", span(2, "b", "bb", "4", "5", "", tool), span(2, "b", "bb", "2", "", linked, agent("worker")),
		span(1, "a", "aa", "1", "9", "", agent("boss")), span(3, "b", "bb", "3", "2", "", tool), span(400, "a", "aa", "6", "1", "", tool), span(401, "a", "aa", "7", "1", "", tool))
}
