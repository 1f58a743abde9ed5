package adapter_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// tracerTruth is what happened in a run that the tracer of a framework recorded, and
// what the default limits are to make of it.
type tracerTruth struct {
	truth
	format string
	tokens int64  // input tokens, as the framework summed them up
	order  string // action and reason of the strictest order; empty: none
	why    string // why there is none, although there is a loop
}

var tracerTruths = []tracerTruth{
	{truth{"openai_agents/handoff_pingpong.jsonl", turns("billing", "shipping", 12), 0, nil, 2, 1, 2}, "openaiagents", 5178, "deny a2a_ping_pong", ""},
	{truth{"openai_agents/handoff_pingpong_span_starts.jsonl", turns("billing", "shipping", 12), 0, nil, 2, 1, 2}, "openaiagents", 0, "deny a2a_ping_pong", ""},
	{truth{"openai_agents/tool_loop.jsonl", nil, 0, times(12, "lookup_order"), 1, 1, 1}, "openaiagents", 5730, "deny repetition_detected", ""},
	{truth{"openai_agents/tool_loop_period2.jsonl", nil, 0, append([]string{"lookup_order", "search_docs"}, slices.Repeat([]string{"search_docs", "read_page"}, 7)...), 1, 1, 2}, "openaiagents", 9692, "deny circling", ""},
	{truth{"openai_agents/agent_as_tool_loop.jsonl", calls("manager", 8, "researcher"), 8, nil, 2, 1, 1}, "openaiagents", 2574, "deny repeated_delegation", ""},
	{truth{"openai_agents/honest.jsonl", []string{"front_desk > billing", "front_desk > billing"}, 0, []string{"lookup_order", "lookup_order", "refund", "lookup_order", "lookup_order", "refund"}, 2, 2, 0}, "openaiagents", 716 + 705, "", ""},
	{truth{"openai_agents/honest_ingest_bodies.jsonl", []string{"front_desk > billing"}, 0, []string{"lookup_order", "lookup_order", "refund"}, 2, 1, 0}, "openaiagents", 693, "", ""},
	{truth{"langgraph/node_pingpong.langsmith_batch.jsonl", turns("writer", "critic", 7), 0, nil, 2, 1, 2}, "langsmith", 207, "deny a2a_ping_pong", ""},
	{truth{"langgraph/tool_loop.langsmith_batch.jsonl", nil, 0, times(6, "get_weather"), 1, 1, 1}, "langsmith", 1317, "deny repetition_detected", ""},
	{truth{"langgraph/handoff_pingpong.langsmith_batch.jsonl", turns("sales", "support", 7), 0, nil, 2, 1, 2}, "langsmith", 730, "deny a2a_ping_pong", ""},
	{truth{"langgraph/honest.langsmith_batch.jsonl", nil, 0, []string{"get_weather", "get_weather", "get_time"}, 1, 1, 0}, "langsmith", 431, "", ""},
	{truth{"langgraph/honest.langsmith_multipart.txt", nil, 0, []string{"get_weather", "get_weather"}, 1, 1, 0}, "langsmith", 30, "", ""},
	{truth{"crewai/delegate_pingpong.jsonl", slices.Concat(calls("Researcher", 1, "Writer"), calls("Writer", 5, "Researcher"), calls("Researcher", 1, "Writer"), calls("Writer", 1, "Researcher")), 8, nil, 2, 1, 1}, "crewai", 3014, "deny repeated_delegation", ""},
	{truth{"crewai/delegate_back_refused.jsonl", calls("Researcher", 2, "Writer"), 2, times(6, "Delegate work to coworker"), 2, 1, 1}, "crewai", 3801, "deny repetition_detected", ""},
	{truth{"crewai/ask_same_question.jsonl", calls("Clerk", 5, "Expert"), 5, nil, 2, 1, 1}, "crewai", 1980, "warn repeated_delegation", ""},
	{truth{"crewai/tool_loop.jsonl", nil, 0, times(5, "search_orders"), 1, 1, 1}, "crewai", 1222, "warn repetition_detected", ""},
	{truth{"crewai/honest.jsonl", nil, 0, times(2, "search_orders"), 2, 1, 0}, "crewai", 598, "", ""},
	{truth{"crewai/delegate_out_of_order.jsonl", calls("author", 8, "editor"), 8, nil, 2, 1, 1}, "crewai", 8560, "warn no_work_rapid_fire", ""}, // the bus has threads
	{truth{"autogen/human_in_the_loop.log", nil, 0, times(1, "lookup_order"), 1, 14, 0}, "autogen", 15502, "", ""},
	{truth{"autogen/roundrobin_pleasantries.core_events.jsonl", turns("anna", "ben", 11), 0, nil, 2, 1, 2}, "autogen", 1338, "deny a2a_ping_pong", ""},
	{truth{"autogen/swarm_handoff_pingpong.core_events.jsonl", turns("sales", "support", 8), 0, nil, 2, 1, 2}, "autogen", 1681, "deny a2a_ping_pong", ""},
	{truth{"autogen/tool_loop.core_events.jsonl", nil, 0, times(10, "lookup_order"), 1, 1, 1}, "autogen", 3513, "deny repetition_detected", ""},
	{truth{"autogen/honest.core_events.jsonl", []string{"order_bot > checker"}, 0, times(2, "lookup_order"), 2, 1, 0}, "autogen", 243, "", ""},
	{truth{"autogen/honest.log", []string{"order_bot > checker"}, 0, times(2, "lookup_order"), 2, 1, 0}, "autogen", 243, "", ""},
}

// unpacked returns a recording as it was written.
func unpacked(t testing.TB, file string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", "real", file+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// strictest folds events by the default limits and returns the strictest order that
// came of them, as action and reason, and at which event.
func strictest(heard []events.Event) (order string, at int) {
	engine := analyzer.New(analyzer.Balanced())
	flows := map[string]*analyzer.Flow{}
	var p analyzer.Partition
	var fx analyzer.Effects
	best := events.Allow
	for i := range heard {
		key := heard[i].FlowKey()
		if flows[key] == nil {
			flows[key] = &analyzer.Flow{}
		}
		fx.Reset()
		engine.Step(&p, flows[key], &heard[i], &fx)
		for _, v := range fx.Verdicts {
			for _, action := range []events.Action{events.Warn, events.Throttle, events.Deny, events.Halt} {
				if v.Action == action && action.Place() > best.Place() && v.Mode != "shadow" {
					best, order, at = action, string(v.Action)+" "+string(v.Reason), i+1
				}
			}
		}
	}
	return order, at
}

// TestTracers compares what the adapters make of recorded traces with what happened,
// and holds that the default limits warn of the loops or stop them, and let honest
// runs alone.
func TestTracers(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "recording\thops\treturns\ttools\tagents\tusers\tperiod\tflows\ttokens in\tevents\torder\tat event")
	for _, want := range tracerTruths {
		raw := unpacked(t, want.file)
		if f, err := registry.Detect(raw[:min(len(raw), adapter.HeadSize)]); err != nil || f.Name != want.format {
			t.Errorf("%s: looks like %q (%v), want %q", want.file, f.Name, err, want.format)
			continue
		}
		got := hear(t, bytes.NewReader(raw), adapter.Options{})
		want.check(t, got)
		if got.tokens != want.tokens {
			t.Errorf("%s: %d input tokens, want %d", want.file, got.tokens, want.tokens)
		}
		period := loop(got)
		if period != want.period {
			t.Errorf("%s: period %d, want %d", want.file, period, want.period)
		}
		order, at := strictest(got.events)
		if order != want.order {
			t.Errorf("%s: order %q, want %q", want.file, order, want.order)
		}
		if (want.period > 0) != (order != "" || want.why != "") {
			t.Errorf("%s: period %d and order %q; want a loop to be warned of, and nothing else", want.file, want.period, order)
		}
		fmt.Fprintf(w, "%s\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d\t%d/%d\t%d\t%s\t%d\n", want.file, len(got.hops), len(want.hops), got.returns, want.returns,
			len(got.tools), len(want.tools), len(got.agents), want.agents, got.users, want.users, period, want.period, len(got.flows), got.tokens, want.tokens, len(got.events), order, at)
		checkLaws(t, want.file, got)
		for i := 1; i < len(got.events); i++ {
			if got.events[i].Time < got.events[i-1].Time {
				t.Errorf("%s: %s is earlier than the event before it", want.file, got.events[i].ID)
			}
		}
	}
	_ = w.Flush()
	t.Log("found/true\n" + table.String())
}

// loop is the period of what the run did at least three times in a row, handed over
// or called; 0 when it did nothing so often.
func loop(got *told) int {
	longest, found := 3, 0
	for _, sequence := range [][]string{got.hops, got.args} {
		for p := 1; 3*p <= len(sequence); p++ {
			same := 0
			for i := range len(sequence) - p {
				if same++; sequence[i] != sequence[i+p] {
					same = 0
				}
				if n := same + p; n >= 3*p && n > longest {
					longest, found = n, p
				}
			}
		}
	}
	return found
}

// TestMultipartAtOnce holds that a multipart body is the same as one record and as
// lines.
func TestMultipartAtOnce(t *testing.T) {
	f, err := registry.Lookup("langsmith")
	if err != nil {
		t.Fatal(err)
	}
	raw := unpacked(t, "langgraph/honest.langsmith_multipart.txt")
	whole := &told{}
	a := f.New(adapter.Options{})
	if err := a.Decode(raw, func(e *events.Event) { whole.add(t, e) }); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(func(e *events.Event) { whole.add(t, e) }); err != nil {
		t.Fatal(err)
	}
	if lines := hear(t, bytes.NewReader(raw), adapter.Options{}); lines.String() != whole.String() || len(whole.events) == 0 {
		t.Errorf("as lines\n%sas one record\n%s", lines, whole)
	}
}

// TestTracersTwice holds that what is delivered twice makes no further events, and
// that records of their own make the same events as batches.
func TestTracersTwice(t *testing.T) {
	for _, want := range tracerTruths {
		raw := unpacked(t, want.file)
		once := hear(t, bytes.NewReader(raw), adapter.Options{})
		seen := map[string]bool{}
		for i := range once.events {
			seen[once.events[i].ID] = true
		}
		for i, e := range hear(t, bytes.NewReader(slices.Concat(raw, []byte("\n"), raw)), adapter.Options{}).events {
			if !seen[e.ID] {
				t.Errorf("%s: event %d of the file read twice is new: %s", want.file, i, e.AppendJSON(nil))
			}
		}
		if !strings.HasSuffix(want.file, ".jsonl") {
			continue
		}
		var repeated []byte
		for line := range bytes.Lines(raw) {
			repeated = slices.Concat(repeated, line, line)
		}
		if twice := hear(t, bytes.NewReader(repeated), adapter.Options{}); twice.String() != once.String() {
			t.Errorf("%s: other events when each line comes twice:\n%swant\n%s", want.file, twice, once)
		}
	}
}

// TestTracersShortHold holds that hops are found as well when a trace cannot be
// waited for: with almost no time to hold back, as if its root never came in time.
func TestTracersShortHold(t *testing.T) {
	for _, want := range tracerTruths {
		got := hear(t, bytes.NewReader(unpacked(t, want.file)), adapter.Options{Hold: time.Millisecond})
		if want.file == "openai_agents/agent_as_tool_loop.jsonl" {
			// Here only the tool above names the caller, and it ends last.
			continue
		}
		if !slices.Equal(got.hops, want.hops) {
			t.Errorf("%s: hops\n%q, want\n%q", want.file, got.hops, want.hops)
		}
		if !slices.Equal(got.tools, want.tools) {
			t.Errorf("%s: tools %q, want %q", want.file, got.tools, want.tools)
		}
	}
}

// TestTracersMixed holds that the order in which the spans of a trace come does not
// matter, as long as its root comes last.
func TestTracersMixed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, want := range tracerTruths {
		if want.format != "openaiagents" || strings.Contains(want.file, "honest") || strings.Contains(want.file, "starts") {
			continue // bodies, several traces, roots that come first
		}
		raw := unpacked(t, want.file)
		events := hear(t, bytes.NewReader(raw), adapter.Options{}).String()
		lines := slices.Collect(bytes.Lines(raw))
		inner := lines[1 : len(lines)-1]
		r.Shuffle(len(inner), func(i, j int) { inner[i], inner[j] = inner[j], inner[i] })
		if got := hear(t, bytes.NewReader(bytes.Join(lines, nil)), adapter.Options{}).String(); got != events {
			t.Errorf("%s: other events in another order:\n%swant\n%s", want.file, got, events)
		}
	}
}

// TestDetectTracers holds that no recording looks like several formats, however
// much of it is looked at.
func TestDetectTracers(t *testing.T) {
	files, err := filepath.Glob("testdata/real/*/*.gz")
	if err != nil || len(files) < len(tracerTruths) {
		t.Fatalf("%d recordings (%v)", len(files), err)
	}
	for _, file := range files {
		raw := unpacked(t, strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/real/"), ".gz"))
		for _, n := range []int{4 << 10, adapter.HeadSize} {
			if f, err := registry.Detect(raw[:min(n, len(raw))]); errors.Is(err, registry.ErrAmbiguous) {
				t.Errorf("%s looks like %q by its first %d bytes: %v", file, f.Name, n, err)
			}
		}
	}
	for _, want := range tracerTruths {
		raw := unpacked(t, want.file)
		if f, err := registry.Detect(raw[:min(4<<10, len(raw))]); f.Name != want.format {
			t.Errorf("%s looks like %q by its first 4 KiB (%v), want %q", want.file, f.Name, err, want.format)
		}
	}
}

// TestAgentsOutsideOfTeams reads two logs of AutoGen in which nothing names a flow: each is one
// of its own, that is known to be guessed.
func TestAgentsOutsideOfTeams(t *testing.T) {
	ids := map[string]bool{}
	for _, second := range []string{"16", "17"} {
		got := hear(t, strings.NewReader(strings.Repeat(`2026-11-23 11:06:`+second+`,181 autogen_core.events {"type": "ToolCall", "tool_name": "look", "arguments": "{}", "result": "no", "agent_id": null}`+"\n", 2)), adapter.Options{})
		if len(got.tools) != 2 || len(got.flows) != 1 {
			t.Errorf("%d calls in %d flows", len(got.tools), len(got.flows))
		}
		for i := range got.events {
			ids[got.events[i].CorrelationID] = true
			if got.events[i].CorrelationSource != events.CorrelationDerived {
				t.Errorf("the flow is %v", got.events[i].CorrelationSource)
			}
		}
	}
	if len(ids) != 2 {
		t.Errorf("the flows of two logs are %v", ids)
	}
}
