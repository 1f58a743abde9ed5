package adapter_test

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestDescent reads recordings of programs that opened flows from flows: by a trace that is begun
// while a tool runs, by metadata, by a task that a message builds on. The flows are numbered in
// the order of time, and each is listed with its parent and its root.
func TestDescent(t *testing.T) {
	for _, want := range []struct {
		file  string
		flows []string
	}{
		{"openai_agents.jsonl", []string{"0 of - in 0", "1 of 0 in -", "2 of 0 in -"}},
		{"langgraph.langsmith_batch.jsonl", []string{"0 of - in 0", "1 of 0 in 0"}},
		{"a2a.jsonl", []string{"0 of - in -", "1 of 0 in -", "2 of 1 in 0", "3 of 2 in 0"}},
	} {
		var flows, got []string
		number := func(flow string) string {
			if flow == "" {
				return "-"
			}
			if !slices.Contains(flows, flow) {
				flows = append(flows, flow)
			}
			return strconv.Itoa(slices.Index(flows, flow))
		}
		heard := hear(t, bytes.NewReader(logged(t, "../descent/"+want.file)), adapter.Options{})
		slices.SortStableFunc(heard.events, func(a, b events.Event) int { return cmp.Compare(a.Time, b.Time) })
		for i := range heard.events {
			e := &heard.events[i]
			line := number(e.CorrelationID) + " of " + number(e.ParentCorrelationID) + " in " + number(e.RootCorrelationID)
			if !slices.Contains(got, line) {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, want.flows) || len(heard.faults) > 0 {
			t.Errorf("%s: %q, want %q; faults %q", want.file, got, want.flows, heard.faults)
		}
	}
}

// TestDescentWhateverOrder reads the traces of a program whose processor writes spans at their
// end, the outer ones last, and of one that writes them at once: the flow is the same.
func TestDescentWhateverOrder(t *testing.T) {
	inner := []string{
		`{"object":"trace.span","id":"b1","trace_id":"tb","parent_id":"a2","started_at":"2026-11-20T14:00:02Z","ended_at":"2026-11-20T14:00:05Z","span_data":{"type":"agent","name":"researcher"}}`,
		`{"object":"trace.span","id":"c1","trace_id":"tc","parent_id":"b1","started_at":"2026-11-20T14:00:03Z","ended_at":"2026-11-20T14:00:04Z","span_data":{"type":"agent","name":"reader"}}`,
	}
	outer := []string{
		`{"object":"trace.span","id":"a2","trace_id":"ta","parent_id":"a1","started_at":"2026-11-20T14:00:01Z","ended_at":"2026-11-20T14:00:06Z","span_data":{"type":"function","name":"delegate","input":"{}"}}`,
		`{"object":"trace.span","id":"a1","trace_id":"ta","parent_id":null,"started_at":"2026-11-20T14:00:00Z","ended_at":"2026-11-20T14:00:07Z","span_data":{"type":"agent","name":"boss"}}`,
	}
	for _, lines := range [][]string{
		{outer[1], outer[0], inner[0], inner[1]},
		{inner[1], inner[0], outer[0], outer[1]},
		{inner[0], outer[0], inner[1], outer[1]},
	} {
		var in bytes.Buffer
		for _, l := range lines {
			in.WriteString(l + "\n")
		}
		parents := map[string]string{}
		for _, e := range hear(t, &in, adapter.Options{}).events {
			parents[e.CorrelationID] = e.ParentCorrelationID
		}
		if len(parents) != 3 || parents["ta"] != "" || parents["tb"] != "ta" || parents["tc"] != "tb" {
			t.Errorf("%q: parents %v", lines, parents)
		}
	}
}

// TestDescentByLink reads two traces of two programs, of which one is linked to a span of the
// other: each is a flow, and the one descends from the other.
func TestDescentByLink(t *testing.T) {
	batch := func(scope, spans string) string {
		return `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"` + scope + `"},"spans":[` + spans + `]}]}]}` + "\n"
	}
	span := func(trace, id, more, name string) string {
		return `{"traceId":"0af7651916cd43dd8448eb211c8031` + trace + `","spanId":"00f067aa0ba902` + id + `",` + more + `"name":"invoke_agent ` + name + `","startTimeUnixNano":"1795000000` + id +
			`0000000","endTimeUnixNano":"1795000001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},{"key":"gen_ai.agent.name","value":{"stringValue":"` + name + `"}}]}`
	}
	const link = `"links":[{"traceId":"0af7651916cd43dd8448eb211c8031aa","spanId":"00f067aa0ba90201"}],`
	in := batch("queue.producer", span("aa", "01", "", "boss")) + batch("worker", span("bb", "02", link, "worker"))
	parents := map[string]string{}
	for _, e := range hear(t, bytes.NewReader([]byte(in)), adapter.Options{}).events {
		if e.Kind == events.AgentCall {
			parents[e.To.Agent] = e.ParentCorrelationID
		}
	}
	if len(parents) != 2 || parents["boss"] != "" || parents["worker"] != "0af7651916cd43dd8448eb211c8031aa" {
		t.Errorf("parents %v", parents)
	}
}
