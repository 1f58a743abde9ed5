package adapter_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// outcome is what the default limits must come to on a recorded run.
type outcome string

const (
	stopped   outcome = "stopped"   // it loops
	untouched outcome = "untouched" // it is honest
	hidden    outcome = "hidden"    // it loops, and its telemetry does not show it
)

// frameworkRuns are runs with scripted models, recorded by each framework's own
// telemetry, and what happened in them.
var frameworkRuns = []struct {
	file  string
	want  outcome
	hops  int
	tools int
}{
	{"ag2/honest", untouched, 0, 3},
	{"ag2/tool_loop", stopped, 0, 12},
	{"agento11y/honest", untouched, 0, 3},
	{"agento11y/tool_loop", stopped, 0, 12},
	{"agentscope/honest", untouched, 0, 3},
	{"agentscope/tool_loop", stopped, 0, 12},
	{"agno/honest", untouched, 0, 3},
	{"agno/tool_loop", stopped, 0, 12},
	{"ai_sdk/honest", untouched, 0, 3},
	{"ai_sdk/tool_loop", stopped, 0, 12},
	{"autogen/human_in_the_loop", untouched, 0, 1}, // a person and an agent talk by turns
	{"autogen/team_new_words", stopped, 17, 0},
	{"camel/honest", untouched, 0, 3}, // only requests report the calls, each a trace of its own
	{"camel/tool_loop", stopped, 0, 12},
	{"dspy/honest", untouched, 0, 4}, // the end of a run is a tool, too
	{"dspy/tool_loop", stopped, 0, 13},
	{"genkit/honest", untouched, 0, 3},
	{"genkit/tool_loop", stopped, 0, 12},
	{"google_adk/honest", untouched, 0, 3},
	{"google_adk/tool_loop", stopped, 0, 12},
	{"haystack/agents_as_tools.native_content", stopped, 10, 0},
	{"haystack/agents_as_tools.native_nocontent", hidden, 10, 0},
	{"haystack/agents_as_tools.openinference", stopped, 10, 0},
	{"haystack/honest.native_content", untouched, 0, 3},
	{"haystack/honest.native_nocontent", untouched, 0, 3},
	{"haystack/honest.openinference", untouched, 0, 0},
	{"haystack/honest_poll.native_content", untouched, 0, 10},
	{"haystack/honest_poll.native_nocontent", untouched, 0, 10},
	{"haystack/honest_poll.openinference", untouched, 0, 0},
	{"haystack/tool_loop.native_content", stopped, 0, 12},
	{"haystack/tool_loop.native_nocontent", hidden, 0, 12},
	{"haystack/tool_loop.openinference", hidden, 0, 0},
	{"langgraph_openinference/command_ring", stopped, 12, 0}, // each tool is a trace of its own
	{"langfuse/honest.decorators", untouched, 0, 3},
	{"langfuse/honest.langchain", untouched, 0, 3},
	{"langfuse/tool_loop.decorators", stopped, 0, 12},
	{"langfuse/tool_loop.langchain", stopped, 0, 12},
	{"langroid/honest", untouched, 0, 3},
	{"langroid/tool_loop", stopped, 0, 12},
	{"mastra/honest", untouched, 0, 3},
	{"mastra/tool_loop", stopped, 0, 12},
	{"mastra/workflow_loop", stopped, 17, 0}, // two agents in each round of a loop
	{"mcp_sdk/honest", untouched, 0, 3},
	{"mcp_sdk/tool_loop", hidden, 0, 12},
	{"mlflow/honest", untouched, 0, 3},
	{"mlflow/tool_loop", stopped, 0, 12},
	{"openai_agents/handoff_new_words", untouched, 5, 0}, // too few to be more than a talk
	{"openai_agents_js/honest", untouched, 0, 3},
	{"openai_agents_js/tool_loop", stopped, 0, 12},
	{"semantic_kernel/group_chat.content", stopped, 15, 0},
	{"semantic_kernel/group_chat.default", stopped, 15, 0},
	{"semantic_kernel/group_chat.root_content", stopped, 15, 0},
	{"semantic_kernel/handoff.content", untouched, 2, 0},
	{"semantic_kernel/handoff.default", untouched, 2, 0},
	{"semantic_kernel/tool_loop.content", stopped, 0, 10},
	{"semantic_kernel/tool_loop.default", hidden, 0, 10},
	{"semantic_kernel/honest.content", untouched, 0, 3},
	{"semantic_kernel/honest.default", untouched, 0, 3},
	{"strands/agents_as_tools.default", stopped, 10, 0},
	{"strands/agents_as_tools.latest", stopped, 10, 0},
	{"strands/graph_cycle.default", stopped, 15, 0},
	{"strands/graph_cycle.latest", stopped, 15, 0},
	{"strands/graph_honest.default", untouched, 2, 1},
	{"strands/graph_honest.latest", untouched, 2, 1},
	{"strands/honest.default", untouched, 0, 3},
	{"strands/honest.latest", untouched, 0, 3},
	{"strands/honest_poll.default", untouched, 0, 10},
	{"strands/honest_poll.latest", untouched, 0, 10},
	{"strands/swarm_pingpong.default", stopped, 12, 0},
	{"strands/swarm_pingpong.latest", stopped, 12, 0},
	{"strands/tool_loop.default", stopped, 0, 12},
	{"strands/tool_loop.latest", stopped, 0, 12},
	{"traceloop_langgraph/honest", untouched, 0, 3},
	{"traceloop_langgraph/poll", untouched, 0, 10},
	{"traceloop_langgraph/tool_loop", stopped, 0, 12},
	{"voltagent/honest", untouched, 0, 3},
	{"voltagent/tool_loop", stopped, 0, 12},
}

// TestFrameworks holds that the loops among the recorded runs are stopped where the
// telemetry shows them, and the honest ones left alone.
func TestFrameworks(t *testing.T) {
	files, err := filepath.Glob("testdata/frameworks/*/*.otlp.jsonl.gz")
	if err != nil || len(files) != len(frameworkRuns) {
		t.Errorf("%d recordings and %d runs (%v)", len(files), len(frameworkRuns), err)
	}
	for _, run := range frameworkRuns {
		raw := frameworkRun(t, run.file)
		got := hear(t, bytes.NewReader(raw), adapter.Options{})
		checkLaws(t, run.file, got)
		if len(got.faults) > 0 {
			t.Errorf("%s: faults %q", run.file, got.faults)
		}
		if len(got.flows) != 1 || len(got.hops) != run.hops || len(got.tools) != run.tools {
			t.Errorf("%s: %d flows, %d hops, %d calls of tools; want 1, %d, %d", run.file, len(got.flows), len(got.hops), len(got.tools), run.hops, run.tools)
		}
		order, at := strictest(got.events)
		isStopped := strings.HasPrefix(order, "deny") || strings.HasPrefix(order, "halt")
		switch {
		case isStopped != (run.want == stopped):
			t.Errorf("%s: %q at event %d, want it %s", run.file, order, at, run.want)
		case run.want == untouched && order != "":
			t.Errorf("%s: %q at event %d, want nothing", run.file, order, at)
		}
	}
}

func frameworkRun(t *testing.T, file string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata/frameworks", file+".otlp.jsonl.gz"))
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

// TestTracePerMessage holds that the traces of one conversation are one flow, by their
// links, however their spans are spread over batches.
func TestTracePerMessage(t *testing.T) {
	for _, file := range []string{"semantic_kernel/group_chat.content", "semantic_kernel/handoff.default"} {
		raw := frameworkRun(t, file)
		want := hear(t, bytes.NewReader(raw), adapter.Options{})
		got := hear(t, strings.NewReader(strings.Join(spans(t, raw), "\n")), adapter.Options{})
		if len(got.flows) != 1 || !slices.Equal(got.hops, want.hops) || got.users != 1 {
			t.Errorf("%s, span by span: %d flows, %d users, hops %q; want 1, 1, %q", file, len(got.flows), got.users, got.hops, want.hops)
		}
	}
}

// handovers is a trace of n tools that hand over by turns between two agents, by the
// proposed attributes of the GenAI conventions, below one span that ends last.
func handovers(n int, mode string, argument func(i int) string) string {
	var list []string
	attribute := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
	}
	span := func(id, parent, name string, start, end int, attributes ...string) {
		list = append(list, fmt.Sprintf(`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":%q,"parentSpanId":%q,"name":%q,"startTimeUnixNano":"%d000000","endTimeUnixNano":"%d000000","attributes":[%s]}`,
			id, parent, name, 1771900001000+start, 1771900001000+end, strings.Join(attributes, ",")))
	}
	from, to := "writer", "critic"
	for i := range n {
		span(fmt.Sprintf("b%015x", i+1), "a000000000000001", "execute_tool hand_over "+to, 100*i, 100*i+50, attribute("gen_ai.operation.name", "execute_tool"),
			attribute("gen_ai.tool.name", "hand_over"), attribute("gen_ai.agent.name", from), attribute("gen_ai.transfer.target.name", to),
			attribute("gen_ai.transfer.mode", mode), attribute("gen_ai.tool.call.arguments", argument(i)))
		from, to = to, from
	}
	span("a000000000000001", "", "request", 0, 100*n)
	return `{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"lib"},"spans":[` + strings.Join(list, ",") + `]}]}]}`
}

// TestHandoversByAttribute holds that tools whose spans say that they hand over are
// hand-overs and no work, whether the agents have spans of their own or not.
func TestHandoversByAttribute(t *testing.T) {
	same := func(int) string { return `{"message":"please take over"}` }
	other := func(i int) string { return fmt.Sprintf(`{"message":"chapter %d of the report"}`, i) }
	f := func(n int, mode string, argument func(int) string, hops int, want string) {
		t.Helper()
		got := hear(t, strings.NewReader(handovers(n, mode, argument)), adapter.Options{})
		if len(got.tools) != 0 || len(got.hops) != hops {
			t.Errorf("%d hand-overs, %s: %d hops and %d calls of tools, want %d and none", n, mode, len(got.hops), len(got.tools), hops)
		}
		for i := range got.events {
			if e := &got.events[i]; e.Kind == events.AgentCall && e.TransferMode.String() != mode {
				t.Errorf("%s: told as %s", mode, e.TransferMode)
			}
		}
		if order, _ := strictest(got.events); !strings.HasPrefix(order, want) || want == "" && order != "" {
			t.Errorf("%d hand-overs, %s: %q, want %q", n, mode, order, want)
		}
	}
	f(40, "pass_control", same, 40, "halt a2a_ping_pong")
	f(40, "return_to_caller", same, 40, "halt a2a_ping_pong")
	f(2, "pass_control", other, 2, "")
	f(2, "return_to_caller", other, 2, "")
}
