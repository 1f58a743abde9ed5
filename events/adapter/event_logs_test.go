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
	"text/tabwriter"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/a2a"
	"weir/events/adapter/adk"
	"weir/events/adapter/cline"
	"weir/events/adapter/codex"
	"weir/events/adapter/copilot"
	"weir/events/adapter/geminicli"
	"weir/events/adapter/mcp"
	"weir/events/adapter/opencode"
	"weir/events/adapter/openhands"
	"weir/events/adapter/qwencode"
	"weir/events/adapter/registry"
)

// logTruth is what happened in a run that was recorded as events or on the wire, and
// what the default limits are to make of it.
type logTruth struct {
	truth
	format  string
	flows   events.CorrelationSource // how the flows were found
	verdict string                   // the first that stops, else that warns; empty: none
	untold  string                   // why there is none, although there is a loop
}

var logTruths = []logTruth{
	{truth{"mcp/tool_loop_modern.jsonl", nil, 0, times(10, "lookup_order"), 1, 0, 1}, "mcp", events.CorrelationDerived, "warn repetition_detected at call 3", ""},
	{truth{"mcp/tool_loop_legacy_sse.jsonl", nil, 0, times(10, "lookup_order"), 1, 0, 1}, "mcp", events.CorrelationSession, "deny repetition_detected at call 6", ""},
	{truth{"mcp/tool_loop_legacy_json.jsonl", nil, 0, times(10, "lookup_order"), 1, 0, 1}, "mcp", events.CorrelationSession, "deny repetition_detected at call 6", ""},
	{truth{"mcp/tool_loop_meta.jsonl", nil, 0, times(8, "refund"), 1, 0, 1}, "mcp", events.CorrelationBaggage, "deny repetition_detected at call 6", ""},
	{truth{"mcp/honest.jsonl", nil, 0, []string{"lookup_order", "lookup_order", "refund"}, 1, 0, 0}, "mcp", events.CorrelationDerived, "", ""},

	{truth{"openhands/stuck_same_action.jsonl", nil, 0, times(4, "terminal"), 1, 1, 1}, "openhands", events.CorrelationConversation, "warn repetition_detected at call 3", ""},
	{truth{"openhands/stuck_same_error.jsonl", nil, 0, times(4, "file_editor"), 1, 1, 1}, "openhands", events.CorrelationConversation, "warn repetition_detected at call 3", ""},
	{truth{"openhands/alternating.jsonl", nil, 0, times(6, "terminal"), 1, 1, 2}, "openhands", events.CorrelationConversation, "warn repetition_detected at call 5", ""},
	{truth{"openhands/task_same_child.jsonl", times(20, "9eb239c3-cc59-4ed8-b4e5-3b6225620fa1 > helper"), 20, nil, 2, 1, 1}, "openhands", events.CorrelationConversation, "deny repeated_delegation at hop 6", ""},
	{truth{"openhands/task_same_child.child.jsonl", nil, 0, nil, 1, 1, 0}, "openhands", events.CorrelationConversation, "", ""},
	{truth{"openhands/honest.jsonl", nil, 0, times(2, "terminal"), 1, 1, 0}, "openhands", events.CorrelationConversation, "", ""},

	{truth{"google_adk/transfer_pingpong.events.jsonl", turns("sales", "support", 12), 0, nil, 2, 1, 2}, "adk", events.CorrelationPrompt, "deny a2a_ping_pong at hop 12", ""},
	{truth{"google_adk/transfer_pingpong.session.json", turns("sales", "support", 12), 0, nil, 2, 1, 2}, "adk", events.CorrelationPrompt, "deny a2a_ping_pong at hop 12", ""},
	{truth{"google_adk/tool_loop.events.jsonl", nil, 0, times(12, "lookup_order"), 1, 1, 1}, "adk", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"google_adk/tool_loop.session.json", nil, 0, times(12, "lookup_order"), 1, 1, 1}, "adk", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"google_adk/loop_agent.events.jsonl", turns("writer", "critic", 11), 0, nil, 2, 1, 2}, "adk", events.CorrelationPrompt, "deny a2a_ping_pong at hop 6", ""},
	{truth{"google_adk/loop_agent.session.json", turns("writer", "critic", 11), 0, nil, 2, 1, 2}, "adk", events.CorrelationPrompt, "deny a2a_ping_pong at hop 6", ""},
	{truth{"google_adk/honest.events.jsonl", []string{"front_desk > billing"}, 0, []string{"lookup_order", "lookup_order", "refund"}, 2, 2, 0}, "adk", events.CorrelationPrompt, "", ""},
	{truth{"google_adk/honest.session.json", []string{"front_desk > billing"}, 0, []string{"lookup_order", "lookup_order", "refund"}, 2, 2, 0}, "adk", events.CorrelationPrompt, "", ""},

	{truth{"llama_index/handoff_pingpong.events.jsonl", turns("sales", "support", 7), 0, nil, 2, 1, 2}, "llamaindex", events.CorrelationDerived, "warn a2a_ping_pong at hop 4", ""},
	{truth{"llama_index/tool_loop.events.jsonl", nil, 0, times(5, "lookup_order"), 1, 1, 1}, "llamaindex", events.CorrelationDerived, "warn repetition_detected at call 3", ""},

	{truth{"a2a/pingpong_v1.jsonl", turns("planner", "coder", 11), 11, nil, 2, 1, 2}, "a2a", events.CorrelationDerived, "warn repeated_delegation at hop 11", ""},
	{truth{"a2a/pingpong_v03.jsonl", turns("planner", "coder", 7), 7, nil, 2, 1, 2}, "a2a", events.CorrelationDerived, "", "the wire shows no work, and no answer before the end"},
	{truth{"a2a/pingpong_v1_stream.jsonl", turns("planner", "coder", 5), 5, nil, 2, 1, 2}, "a2a", events.CorrelationDerived, "", "the wire shows no work, and no answer before the end"},
	{truth{"a2a/same_question_v1.jsonl", times(8, "planner > coder"), 8, nil, 2, 1, 1}, "a2a", events.CorrelationDerived, "warn repeated_delegation at hop 3", ""},
	{truth{"a2a/honest_v1.jsonl", []string{"planner > coder"}, 1, nil, 2, 1, 0}, "a2a", events.CorrelationDerived, "", ""},

	{truth{"a2a/artifacts_loop_v1.jsonl", times(8, "planner > coder"), 8, nil, 2, 1, 1}, "a2a", events.CorrelationDerived, "warn repeated_delegation at hop 3", ""},
	{truth{"a2a/artifacts_honest_v1.jsonl", times(4, "planner > coder"), 4, nil, 2, 1, 1}, "a2a", events.CorrelationDerived, "", "each message and each answer is another one"},

	{truth{"codex/looping.jsonl", nil, 0, times(15, "exec_command"), 1, 1, 1}, "codex", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"codex/refused-obeys.jsonl", nil, 0, times(6, "exec_command"), 1, 1, 1}, "codex", events.CorrelationPrompt, "warn repetition_detected at call 3", ""},
	{truth{"codex/honest.jsonl", nil, 0, times(6, "exec_command"), 1, 1, 0}, "codex", events.CorrelationPrompt, "", ""},

	{truth{"copilot/looping.jsonl", nil, 0, times(15, "bash"), 1, 1, 1}, "copilot", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"copilot/refused-obeys.jsonl", nil, 0, times(6, "bash"), 1, 1, 1}, "copilot", events.CorrelationPrompt, "warn repetition_detected at call 3", ""},
	{truth{"copilot/honest.jsonl", nil, 0, times(6, "bash"), 1, 1, 0}, "copilot", events.CorrelationPrompt, "", ""},

	{truth{"gemini/looping.jsonl", nil, 0, times(15, "run_shell_command"), 1, 1, 1}, "geminicli", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"gemini/refused-obeys.jsonl", nil, 0, times(6, "run_shell_command"), 1, 1, 1}, "geminicli", events.CorrelationPrompt, "warn repetition_detected at call 3", ""},
	{truth{"gemini/honest.jsonl", nil, 0, times(6, "run_shell_command"), 1, 1, 0}, "geminicli", events.CorrelationPrompt, "", ""},

	{truth{"qwen/looping.jsonl", nil, 0, times(15, "run_shell_command"), 1, 1, 1}, "qwencode", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"qwen/refused-obeys.jsonl", nil, 0, times(6, "run_shell_command"), 1, 1, 1}, "qwencode", events.CorrelationPrompt, "warn repetition_detected at call 3", ""},
	{truth{"qwen/honest.jsonl", nil, 0, times(6, "run_shell_command"), 1, 1, 0}, "qwencode", events.CorrelationPrompt, "", ""},

	{truth{"opencode/looping.export.json", nil, 0, times(15, "bash"), 1, 1, 1}, "opencode", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"opencode/refused-obeys.export.json", nil, 0, times(6, "bash"), 1, 1, 1}, "opencode", events.CorrelationPrompt, "warn repetition_detected at call 3", ""},
	{truth{"opencode/honest.export.json", nil, 0, times(6, "bash"), 1, 1, 0}, "opencode", events.CorrelationPrompt, "", ""},

	{truth{"kimi/looping.wire.jsonl", nil, 0, times(8, "Shell"), 1, 1, 1}, "kimi", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"kimi/honest.wire.jsonl", nil, 0, times(6, "Shell"), 1, 1, 0}, "kimi", events.CorrelationPrompt, "", ""},
	{truth{"kimi/looping.context.jsonl", nil, 0, times(8, "Shell"), 1, 1, 1}, "messages", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"kimi/honest.context.jsonl", nil, 0, times(6, "Shell"), 1, 1, 0}, "messages", events.CorrelationPrompt, "", ""},

	{truth{"goose/looping.session.json", nil, 0, times(8, "shell"), 1, 1, 1}, "goose", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"goose/honest.session.json", nil, 0, times(6, "shell"), 1, 1, 0}, "goose", events.CorrelationPrompt, "", ""},
	{truth{"goose/looping.stream.jsonl", nil, 0, times(8, "shell"), 1, 0, 1}, "goose", events.CorrelationSession, "deny repetition_detected at call 6", ""},
	{truth{"goose/honest.stream.jsonl", nil, 0, times(6, "shell"), 1, 0, 0}, "goose", events.CorrelationSession, "", ""},

	{truth{"hermes/looping.trajectory.jsonl", nil, 0, times(8, "terminal"), 1, 1, 1}, "sharegpt", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"hermes/honest.trajectory.jsonl", nil, 0, times(6, "terminal"), 1, 1, 0}, "sharegpt", events.CorrelationPrompt, "", ""},
	{truth{"hermes/looping.export.jsonl", nil, 0, times(8, "terminal"), 1, 1, 1}, "messages", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"hermes/honest.export.jsonl", nil, 0, times(6, "terminal"), 1, 1, 0}, "messages", events.CorrelationPrompt, "", ""},

	{truth{"terminus/looping.trajectory.json", nil, 0, times(8, "bash_command"), 1, 1, 1}, "atif", events.CorrelationPrompt, "deny repetition_detected at call 7", ""},
	{truth{"terminus/honest.trajectory.json", nil, 0, append(times(7, "bash_command"), times(2, "mark_task_complete")...), 1, 1, 0}, "atif", events.CorrelationPrompt, "", ""},

	{truth{"flink_agents/looping.events.jsonl", nil, 0, times(8, "bash"), 1, 1, 1}, "flink", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"flink_agents/honest.events.jsonl", nil, 0, times(6, "bash"), 1, 1, 0}, "flink", events.CorrelationPrompt, "", ""},

	{truth{"pi/looping.jsonl", nil, 0, times(8, "bash"), 1, 1, 1}, "pi", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"pi/honest.jsonl", nil, 0, times(6, "bash"), 1, 1, 0}, "pi", events.CorrelationPrompt, "", ""},

	{truth{"claude_stream/looping.jsonl", nil, 0, times(8, "Bash"), 1, 0, 1}, "claudestream", events.CorrelationSession, "deny repetition_detected at call 6", ""},
	{truth{"claude_stream/honest.jsonl", nil, 0, times(6, "Bash"), 1, 0, 0}, "claudestream", events.CorrelationSession, "", ""},

	{truth{"claude_code/looping.jsonl", nil, 0, times(8, "Bash"), 1, 1, 1}, "claudecode", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"claude_code/honest.jsonl", nil, 0, times(6, "Bash"), 1, 1, 0}, "claudecode", events.CorrelationPrompt, "", ""},

	{truth{"inspect/looping.json", nil, 0, times(8, "bash"), 1, 1, 1}, "inspect", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"inspect/honest.json", nil, 0, times(6, "bash"), 1, 1, 0}, "inspect", events.CorrelationPrompt, "", ""},

	{truth{"mini_swe_agent/looping.traj.json", nil, 0, times(8, "bash"), 1, 1, 1}, "sweagent", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"mini_swe_agent/honest.traj.json", nil, 0, times(7, "bash"), 1, 1, 0}, "sweagent", events.CorrelationPrompt, "", ""},

	{truth{"pydantic_ai/looping.agui.jsonl", nil, 0, times(8, "search"), 1, 0, 1}, "agui", events.CorrelationPrompt, "deny repetition_detected at call 6", ""},
	{truth{"pydantic_ai/honest.agui.jsonl", nil, 0, times(6, "search"), 1, 0, 0}, "agui", events.CorrelationPrompt, "", ""},

	{truth{"cline/looping.messages.json", nil, 0, times(16, "run_commands"), 1, 1, 2}, "cline", events.CorrelationPrompt, "deny circling at call 7", ""},
	{truth{"cline/honest.messages.json", nil, 0, times(6, "run_commands"), 1, 1, 0}, "cline", events.CorrelationPrompt, "", ""},

	{truth{"cline/task.messages.json", []string{"1795395011204_l77ir > 1795395011204_l77ir/call_0"}, 1, nil, 2, 1, 0}, "cline", events.CorrelationPrompt, "", ""},

	{truth{"opencode/looping.run-format-json.jsonl", nil, 0, times(15, "bash"), 1, 0, 1}, "opencode", events.CorrelationSession, "deny repetition_detected at call 6", ""},
	{truth{"opencode/refused-obeys.run-format-json.jsonl", nil, 0, times(6, "bash"), 1, 0, 1}, "opencode", events.CorrelationSession, "warn repetition_detected at call 3", ""},
	{truth{"opencode/honest.run-format-json.jsonl", nil, 0, times(6, "bash"), 1, 0, 0}, "opencode", events.CorrelationSession, "", ""},
}

// logged returns a recording as it was written.
func logged(t testing.TB, file string) []byte {
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

// TestEventLogs compares what the adapters make of recorded event and wire logs with
// what happened in them.
func TestEventLogs(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "recording\tformat\thops\treturns\ttools\tagents\tusers\tperiod\tflows\tby\ttokens in\tevents")
	for _, want := range logTruths {
		raw := logged(t, want.file)
		f, err := registry.Detect(raw[:min(len(raw), adapter.HeadSize)])
		if err != nil || f.Name != want.format {
			t.Errorf("%s: looks like %q (%v), want %q", want.file, f.Name, err, want.format)
			continue
		}
		got := hear(t, bytes.NewReader(raw), adapter.Options{})
		want.check(t, got)
		loop := want.checkPeriod(t, got)
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d/%d\t%d\t%v\t%d\t%d\n", want.file, f.Name, len(got.hops), len(want.hops), got.returns, want.returns,
			len(got.tools), len(want.tools), len(got.agents), want.agents, got.users, want.users, loop, want.period, len(got.flows), want.flows, got.tokens, len(got.events))
		checkLogLaws(t, &want, f, got)
	}
	_ = w.Flush()
	t.Log("found/true\n" + table.String())
}

// TestDetectRecordings holds that every recording looks like exactly one format, also
// when all that is known of it are its first 2 KiB.
func TestDetectRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/real/*/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	mine := 0
	for _, file := range files {
		file = strings.TrimSuffix(filepath.ToSlash(strings.TrimPrefix(file, filepath.Join("testdata", "real")+string(filepath.Separator))), ".gz")
		raw := logged(t, file)
		for _, head := range [][]byte{raw[:min(len(raw), adapter.HeadSize)], raw[:min(len(raw), 2<<10)]} {
			f, err := registry.Detect(head)
			if err != nil {
				t.Errorf("%s, first %d bytes: %v", file, len(head), err)
			}
			for _, want := range logTruths {
				if want.file == file && f.Name != want.format {
					t.Errorf("%s, first %d bytes: looks like %q, want %q", file, len(head), f.Name, want.format)
				}
			}
		}
		switch folder, name, _ := strings.Cut(file, "/"); {
		case folder == "google_adk" && strings.HasSuffix(name, ".otlp.jsonl"):
		case folder == "llama_index" && strings.HasSuffix(name, ".events.jsonl"), folder == "google_adk", folder == "mcp", folder == "openhands", folder == "a2a",
			folder == "codex", folder == "copilot", folder == "gemini", folder == "qwen", folder == "opencode", folder == "cline",
			folder == "kimi", folder == "goose", folder == "hermes", folder == "terminus", folder == "flink_agents", folder == "pi", folder == "claude_stream", folder == "claude_code", folder == "inspect", folder == "mini_swe_agent", strings.HasSuffix(name, ".agui.jsonl"):
			mine++
		}
	}
	if mine != len(logTruths) {
		t.Errorf("%d recordings of events and of the wire, and %d truths", mine, len(logTruths))
	}
}

// checkLogLaws holds what is true of all event and wire logs.
func checkLogLaws(t *testing.T, want *logTruth, f adapter.Format, got *told) {
	t.Helper()
	seen := map[string]bool{}
	open := map[string]bool{}
	for i := range got.events {
		e := &got.events[i]
		if seen[e.ID] {
			t.Errorf("%s: two events have the id %s", want.file, e.ID)
		}
		seen[e.ID] = true
		if e.CorrelationID == "" || e.CorrelationSource != want.flows {
			t.Errorf("%s: %s is of flow %q by %v, want one by %v", want.file, e.ID, e.CorrelationID, e.CorrelationSource, want.flows)
		}
		if i > 0 && e.Time < got.events[i-1].Time {
			t.Errorf("%s: %s is earlier than the event before it", want.file, e.ID)
		}
		switch e.Kind {
		case events.AgentCall:
			if known := e.HadWork != events.Unknown; e.By() == events.OriginAgent && known != (f.Gives.Work == adapter.Always) {
				t.Errorf("%s: %s tells whether the hop came without work: %v", want.file, e.ID, known)
			}
		case events.ToolCall:
			if e.From.IsZero() || e.Tool.CallID == "" || e.Tool.ArgsHash.IsZero() {
				t.Errorf("%s: %s lacks the caller, the id or the arguments", want.file, e.ID)
			}
			open[e.Tool.CallID] = true
		case events.ToolResult:
			if !open[e.Tool.CallID] || e.Content.IsZero() || e.Status == events.StatusUnset {
				t.Errorf("%s: %s lacks its call, the result or the outcome", want.file, e.ID)
			}
			delete(open, e.Tool.CallID)
		}
	}
	if len(open) > 1 { // a run may be cut off in the middle of a call
		t.Errorf("%s: tool calls %v have no results", want.file, open)
	}
}

// TestEventLogsTwice holds that reading an input again adds nothing: the ids are the
// same, so that the repeats are dropped.
func TestEventLogsTwice(t *testing.T) {
	for _, want := range logTruths {
		raw := logged(t, want.file)
		f, err := registry.Lookup(want.format)
		if err != nil {
			t.Fatal(err)
		}
		same := f.New(adapter.Options{})
		var ids [3][]string
		for i := range ids {
			a := same
			if i == 2 {
				a = f.New(adapter.Options{MaxHeld: 64})
			}
			r, err := adapter.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if err := adapter.Read(r, f, a, func(e *events.Event) {
				ids[i] = append(ids[i], e.CorrelationID+" "+e.ID+" "+e.From.ID()+" > "+e.To.ID())
			}, nil); err != nil {
				t.Fatal(err)
			}
			slices.Sort(ids[i])
		}
		for _, id := range ids[1] {
			if !slices.Contains(ids[0], id) {
				t.Errorf("%s: reading it again tells %s", want.file, id)
			}
		}
		if !slices.Equal(ids[0], ids[2]) {
			t.Errorf("%s: another reader tells other ids", want.file)
		}
	}
}

// TestADKLayouts holds that the events of a session have the same ids as the session. So it does
// not matter which of them is read, or whether both are.
func TestADKLayouts(t *testing.T) {
	for _, want := range logTruths {
		name, ok := strings.CutSuffix(want.file, ".events.jsonl")
		if !ok || want.format != "adk" {
			continue
		}
		var ids [2][]string
		for i, file := range [...]string{want.file, name + ".session.json"} {
			for _, e := range hear(t, bytes.NewReader(logged(t, file)), adapter.Options{}).events {
				ids[i] = append(ids[i], e.CorrelationID+" "+e.ID+" "+e.Content.String())
			}
		}
		if !slices.Equal(ids[0], ids[1]) {
			t.Errorf("%s: the events are\n%q, those of the session\n%q", name, ids[0], ids[1])
		}
	}
}

// TestEventLogVerdicts folds each recording by the default limits: loops are warned or
// stopped, honest runs are neither.
func TestEventLogVerdicts(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "recording\tloop\tflows by\tfirst stop, else first warning\treasons in all")
	for _, want := range logTruths {
		got := hear(t, bytes.NewReader(logged(t, want.file)), adapter.Options{})
		order, reasons := judge(got)
		if order != want.verdict {
			t.Errorf("%s: %q (%s), want %q", want.file, order, reasons, want.verdict)
		}
		loop := "none"
		if want.period > 0 {
			loop = fmt.Sprintf("period %d", want.period)
			if want.verdict == "" && want.untold == "" {
				t.Errorf("%s: a loop without an order needs a reason", want.file)
			}
		} else if want.verdict != "" {
			t.Errorf("%s: an honest run gets %s", want.file, want.verdict)
		}
		if order == "" {
			order = "-"
			if want.untold != "" {
				order = "- (" + want.untold + ")"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\n", want.file, loop, want.flows, order, reasons)
	}
	_ = w.Flush()
	t.Log("\n" + table.String())
}

// judge folds events by the default limits and returns the first order that stops
// calls, or else the first warning, with the hop or tool call after which it came,
// and the reasons of all orders.
func judge(o *told) (order, reasons string) {
	engine := analyzer.New(analyzer.Balanced())
	var p analyzer.Partition
	var fx analyzer.Effects
	flows := map[string]*analyzer.Flow{}
	var all []string
	stopped := false
	hops, calls := 0, 0
	for i := range o.events {
		e := &o.events[i]
		f := flows[e.FlowKey()]
		if f == nil {
			f = &analyzer.Flow{}
			flows[e.FlowKey()] = f
		}
		switch {
		case e.Kind == events.ToolCall:
			calls++
		case e.Kind == events.AgentCall && e.By() == events.OriginAgent:
			hops++
		}
		at := fmt.Sprintf(" at call %d", calls)
		if hops > 0 {
			at = fmt.Sprintf(" at hop %d", hops)
		}
		fx.Reset()
		engine.Step(&p, f, e, &fx)
		for _, v := range fx.Verdicts {
			stops := v.Stops()
			if order == "" && v.Action == events.Warn || stops && !stopped {
				order, stopped = string(v.Action)+" "+string(v.Reason)+at, stops
			}
			if !slices.Contains(all, string(v.Reason)) {
				all = append(all, string(v.Reason))
			}
		}
	}
	return order, strings.Join(all, " ")
}

// fuzzLog feeds an adapter with lines made from recorded ones.
func fuzzLog(f *testing.F, format adapter.Format) {
	for _, want := range logTruths {
		if want.format != format.Name {
			continue
		}
		raw := logged(f, want.file)
		f.Add(raw[:min(len(raw), 4<<10)])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a := format.New(adapter.Options{MaxHeld: 8})
		out := &told{}
		emit := func(e *events.Event) { out.add(t, e) }
		_ = format.Score(&adapter.Head{Bytes: in})
		_ = a.Decode(in, emit)
		for line := range bytes.Lines(in) {
			_ = a.Decode(bytes.TrimSpace(line), emit)
		}
		if err := a.Flush(emit); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzA2A(f *testing.F)       { fuzzLog(f, a2a.Format()) }
func FuzzCodex(f *testing.F)     { fuzzLog(f, codex.Format()) }
func FuzzCopilot(f *testing.F)   { fuzzLog(f, copilot.Format()) }
func FuzzGeminiCLI(f *testing.F) { fuzzLog(f, geminicli.Format()) }
func FuzzQwenCode(f *testing.F)  { fuzzLog(f, qwencode.Format()) }
func FuzzCline(f *testing.F)     { fuzzLog(f, cline.Format()) }
func FuzzOpenCode(f *testing.F)  { fuzzLog(f, opencode.Format()) }
func FuzzADK(f *testing.F)       { fuzzLog(f, adk.Format()) }
func FuzzMCP(f *testing.F)       { fuzzLog(f, mcp.Format()) }
func FuzzOpenHands(f *testing.F) { fuzzLog(f, openhands.Format()) }

// BenchmarkEventLogs measures records per second, framing included.
func BenchmarkEventLogs(b *testing.B) {
	run := func(f adapter.Format, suffix string) {
		var in []byte
		for _, want := range logTruths {
			if want.format == f.Name && strings.HasSuffix(want.file, suffix) {
				in = append(in, logged(b, want.file)...)
			}
		}
		b.Run(f.Name+suffix, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			told := 0
			for b.Loop() {
				r, err := adapter.NewReader(bytes.NewReader(in))
				if err != nil {
					b.Fatal(err)
				}
				if err := adapter.Read(r, f, f.New(adapter.Options{}), func(*events.Event) { told++ }, nil); err != nil {
					b.Fatal(err)
				}
			}
			seconds := b.Elapsed().Seconds()
			if suffix == ".jsonl" {
				b.ReportMetric(float64(b.N)*float64(bytes.Count(in, []byte("\n")))/seconds, "lines/s")
			}
			b.ReportMetric(float64(told)/seconds, "events/s")
		})
	}
	run(a2a.Format(), ".jsonl")
	run(adk.Format(), ".jsonl")
	run(adk.Format(), ".json")
	run(mcp.Format(), ".jsonl")
	run(openhands.Format(), ".jsonl")
}
