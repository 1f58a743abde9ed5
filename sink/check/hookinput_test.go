package check

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestHookFlows tells of two prompts in a session of a program that has no ids for them.
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
	h := NewHook(ask, record, func(err error) { t.Error(err) }, func() time.Time { return time.UnixMilli(1795357207000) })
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
