package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestHookForgetsRefusedAgents has the start of an agent refused, for any reason, and then another agent of its
// kind started. What that one does is its own, and not of the one that never ran.
func TestHookForgetsRefusedAgents(t *testing.T) {
	for name, refuse := range map[string]func() (*events.Verdict, error){
		"by a verdict": func() (*events.Verdict, error) {
			return &events.Verdict{Mode: "enforce", Action: "deny", Reason: events.SelfCall}, nil
		},
		"by a fault of the call": func() (*events.Verdict, error) {
			return nil, &Error{Status: http.StatusConflict, Detail: "the id is in use"}
		},
		"by a fault of weir": func() (*events.Verdict, error) { return nil, errors.New("a fault") },
	} {
		t.Run(name, func(t *testing.T) {
			var asked []*events.Event
			h := newHook(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
				if asked = append(asked, ev); len(asked) == 1 {
					return refuse()
				}
				return &events.Verdict{Action: events.Allow}, nil
			}, func(context.Context, [][]byte) error { return nil }, func(error) {}, time.Now)
			use := func(more string, refused bool) {
				t.Helper()
				w := httptest.NewRecorder()
				body := fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s"%s}`, more)
				h.ServeHTTP(w, httptest.NewRequest("POST", HookPath+"?closed=1", strings.NewReader(body)))
				if got := strings.Contains(w.Body.String(), `"deny"`); got != refused {
					t.Errorf("%s: refused %v, want %v: %s", more, got, refused, w.Body)
				}
			}
			use(`,"tool_name":"Agent","tool_use_id":"1","tool_input":{"prompt":"one"}`, true)
			use(`,"tool_name":"Agent","tool_use_id":"2","tool_input":{"prompt":"two"}`, false)
			use(`,"tool_name":"Bash","tool_use_id":"3","tool_input":{"command":"ls"},"agent_id":"a","agent_type":"general-purpose"`, false)
			if len(asked) != 3 || asked[2].From.ID() != asked[1].To.ID() || asked[2].From.ID() == asked[0].To.ID() {
				t.Errorf("the command is one of %s, want %s", asked[2].From.ID(), asked[1].To.ID())
			}
		})
	}
}
