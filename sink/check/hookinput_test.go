package check

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestHookFlows has two prompts in a session of a program that has no ids for them.
// The first tool comes before the first prompt, as it does when a program does not wait.
func TestHookFlows(t *testing.T) {
	var flows []string
	var results []events.Hash
	ask := func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
		flows = append(flows, ev.CorrelationID)
		return &events.Verdict{Action: events.Allow}, nil
	}
	record := func(_ context.Context, lines [][]byte) error {
		for _, line := range lines {
			var ev events.Event
			if err := events.Decode(line, &ev); err != nil {
				t.Error(err)
			}
			if ev.Kind == events.ToolResult {
				results = append(results, ev.Content)
			}
		}
		return nil
	}
	h := newHook(ask, record, func(err error) { t.Error(err) }, func() time.Time { return time.UnixMilli(1795357207000) })
	tell := func(event, more string) {
		t.Helper()
		body := fmt.Sprintf(`{"hook_event_name":%q,"session_id":"s","timestamp":"2026-11-22T14:20:07.089Z","cwd":"/w"%s}`, event, more)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", HookPath, strings.NewReader(body)))
		if w.Code != 200 || strings.TrimSpace(w.Body.String()) != "{}" {
			t.Errorf("%s: %d %s", event, w.Code, w.Body)
		}
	}
	const use = `,"tool_name":"Bash","tool_input":{"command":"ls"}`
	const prompt = `,"prompt":"go"`
	tell("PreToolUse", use)
	tell("UserPromptSubmit", prompt)
	tell("PreToolUse", use)
	tell("UserPromptSubmit", `,"prompt":""`) // by which Qwen Code announces what a tool gave back
	tell("PostToolUse", use+`,"tool_result":{"text_result_for_llm":"hi\n<shellId: 1 completed with exit code 0>"}`)
	tell("UserPromptSubmit", prompt)
	tell("PreToolUse", use)
	tell("PostToolUse", use+`,"tool_result":{"text_result_for_llm":"hi\n<shellId: 27 completed with exit code 0>"}`)
	tell("UserPromptSubmit", `,"prompt":""`)
	tell("PreToolUse", use)
	if len(flows) != 4 || flows[0] != "s" || flows[1] != "s" || flows[2] == "s" || flows[3] != flows[2] {
		t.Errorf("asked for flows %q", flows)
	}
	if len(results) != 2 || results[0].IsZero() || results[0] != results[1] {
		t.Errorf("results were %v, want them to be the same", results)
	}
}

// TestHookOfCline holds what is made of inputs that Cline 3.0.65 handed to its hooks, and how
// it is refused a call.
func TestHookOfCline(t *testing.T) {
	var asked events.Event
	ask := func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
		asked = *ev
		return &events.Verdict{Action: events.Deny, Reason: "repetition_detected"}, nil
	}
	var told []string
	record := func(_ context.Context, lines [][]byte) error {
		for _, line := range lines {
			told = append(told, string(line))
		}
		return nil
	}
	h := newHook(ask, record, func(err error) { t.Error(err) }, time.Now)
	tell := func(body string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", HookPath, strings.NewReader(body)))
		return strings.TrimSpace(w.Body.String())
	}
	const about = `{"clineVersion":"","timestamp":"2026-11-23T00:43:46.051Z","taskId":"conv_1","sessionContext":{"rootSessionId":"17_p"},"userId":"unknown","agent_id":"agent_1","parent_agent_id":null,`
	answer := tell(about + `"hookName":"tool_call","iteration":1,"tool_call":{"id":"call_0","name":"run_commands","input":{"commands":["echo hi"]}},"preToolUse":{"toolName":"run_commands"}}`)
	if !strings.HasPrefix(answer, `{"cancel":true,"errorMessage":"weir repetition_detected`) {
		t.Errorf("answered %s", answer)
	}
	if asked.Tool.Name != "run_commands" || asked.Tool.ArgsHash.IsZero() || asked.ConversationID != "17_p" {
		t.Errorf("asked for %+v", asked)
	}
	if answer := tell(about + `"hookName":"tool_result","tool_result":{"id":"call_0","name":"run_commands","input":{"commands":["echo hi"]},"output":[{"query":"echo hi","result":"hi\n","success":true}]}}`); answer != "{}" || len(told) != 1 {
		t.Errorf("of a result: answered %s, told %q", answer, told)
	}
	if answer := RefuseHook([]byte(about+`"hookName":"prompt_submit","userPromptSubmit":{"prompt":"go"}}`), "away"); !answer.Empty() {
		t.Errorf("a prompt was refused: %+v", answer)
	}
	if answer := RefuseHook([]byte(about+`"hookName":"tool_call","tool_call":{"id":"call_0"}}`), "away"); !answer.Cancel {
		t.Errorf("a call was not refused: %+v", answer)
	}
}

// TestHookOpenedBy names in headers who started the agent, as weir-hook finds it.
func TestHookOpenedBy(t *testing.T) {
	f := func(baggage, traceparent, parent, root string) {
		t.Helper()
		var asked events.Event
		h := newHook(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
			asked = *ev
			return &events.Verdict{Action: events.Allow}, nil
		}, nil, func(err error) { t.Error(err) }, time.Now)
		r := httptest.NewRequest("POST", HookPath, strings.NewReader(`{"session_id":"s","prompt_id":"p","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{},"tool_use_id":"u"}`))
		r.Header.Set("Baggage", baggage)
		r.Header.Set("Traceparent", traceparent)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if asked.ParentCorrelationID != parent || asked.RootCorrelationID != root || asked.CorrelationID != "p" {
			t.Errorf("baggage %q, traceparent %q: flow %q of %q in the tree of %q", baggage, traceparent, asked.CorrelationID, asked.ParentCorrelationID, asked.RootCorrelationID)
		}
	}
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f("", "", "", "s")
	f("user=7", "", "", "s")
	f("weir.parent_correlation_id=s", "", "", "s") // itself
	f("weir.parent_correlation_id=a%2Cb", trace, "a,b", "")
	f("correlation_id=f,root_correlation_id=top", "", "f", "top")
	f("", trace, "0af7651916cd43dd8448eb211c80319c", "")
}

// TestHooksKeepNoInputs sends uses of tools without ids, whose inputs and sessions are long:
// what is remembered until they end is not what they say.
func TestHooksKeepNoInputs(t *testing.T) {
	h := newHook(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		return &events.Verdict{Action: events.Allow}, nil
	}, func(context.Context, [][]byte) error { return nil }, func(err error) { t.Error(err) }, time.Now)
	h.Begins = func(context.Context, *events.Event) *events.Verdict { return nil }
	const times, size = 16, 512 << 10
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range times {
		long := fmt.Sprint(i) + strings.Repeat("x", size)
		for _, body := range []string{
			fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"t","tool_input":{"x":%q}}`, long),
			fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","session_id":%q,"prompt":"go"}`, long),
		} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", HookPath, strings.NewReader(body)))
		}
	}
	if grown := heap() - before; grown > times*size/4 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	runtime.KeepAlive(h)
}

// TestHooksTellLooks holds that an agent that looks again at a running task is distinguished from
// one that repeats itself. It counts when the call is checked, by what hooks reported of the one before.
func TestHooksTellLooks(t *testing.T) {
	at := time.UnixMilli(1795357207000)
	var again []string
	h := newHook(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
		again = append(again, ev.Tool.RetryOf)
		return &events.Verdict{Action: events.Allow}, nil
	}, func(context.Context, [][]byte) error { return nil }, func(err error) { t.Error(err) }, func() time.Time { return at })
	hook := func(event string, n int, more string) {
		body := fmt.Sprintf(`{"hook_event_name":%q,"session_id":"s","prompt_id":"p","tool_name":"TaskOutput","tool_use_id":"toolu_%d","tool_input":{"task_id":"b1","block":false}%s}`, event, n, more)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", HookPath, strings.NewReader(body)))
	}
	for n, status := range []string{"running", "running", "completed", "completed"} {
		at = at.Add(12 * time.Second)
		hook("PreToolUse", n, "")
		hook("PostToolUse", n, fmt.Sprintf(`,"tool_response":{"task":{"status":%q,"output":""}}`, status))
	}
	if want := []string{"", "toolu_0", "toolu_1", ""}; !slices.Equal(again, want) {
		t.Errorf("the calls repeat %q, want %q", again, want)
	}
}
