package check

import (
	"context"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestHookCountsModelCallsFirst holds that what the model used is in the log before the check of what it then
// does, once, and also if that is refused.
func TestHookCountsModelCallsFirst(t *testing.T) {
	var log []string
	h := newHook(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
		log = append(log, "check "+ev.Tool.CallID)
		if ev.Tool.CallID == "2" {
			return &events.Verdict{Mode: "enforce", Action: "deny", Reason: events.SelfCall}, nil
		}
		return &events.Verdict{Action: events.Allow}, nil
	}, func(_ context.Context, lines [][]byte) error {
		for _, line := range lines {
			var ev events.Event
			if err := events.Decode(line, &ev); err != nil {
				return err
			}
			if ev.Ask {
				t.Errorf("%s is a check", line)
			}
			log = append(log, fmt.Sprintf("%s of %s in %s: %d", ev.Kind, ev.From.Agent, ev.CorrelationID, ev.Usage.Input))
		}
		return nil
	}, func(err error) { t.Error(err) }, time.Now)
	put := func(event, more string) {
		body := fmt.Sprintf(`{"hook_event_name":"%s","session_id":"s","prompt_id":"p"%s}`, event, more)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", HookPath, strings.NewReader(body)))
	}
	calls := `,"model_calls":[{"id":"m1","input_tokens":1},{"id":"m2","input_tokens":2}]`
	put("PreToolUse", `,"tool_name":"Bash","tool_use_id":"1","tool_input":{"command":"ls"}`+calls)
	put("PreToolUse", `,"tool_name":"Bash","tool_use_id":"2","tool_input":{"command":"ls"}`+strings.Replace(calls, "}]", `},{"id":"m3","input_tokens":3}]`, 1))
	put("PreToolUse", `,"tool_name":"Bash","tool_use_id":"3","tool_input":{"command":"ls"}`+strings.Replace(calls, "}]", `},{"id":"m3","input_tokens":3}]`, 1))
	put("Stop", `,"model_calls":[{"id":"m3","input_tokens":3},{"id":"m4","input_tokens":4}]`)
	want := []string{"llm.call of claude-code in p: 2", "check 1", "llm.call of claude-code in p: 3", "check 2", "check 3", "llm.call of claude-code in p: 4", "agent.return of claude-code in p: 0"}
	if !reflect.DeepEqual(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}
