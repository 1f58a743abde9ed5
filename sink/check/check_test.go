package check

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/events"
)

func amount(n float64) *float64 { return &n }

func TestHandler(t *testing.T) {
	deny := &events.Verdict{ID: "v1", Mode: "enforce", Action: "deny", Reason: "max_total_calls_exceeded", HTTPStatus: 429, ControlledCutoff: true,
		Limit: amount(100), Observed: amount(101), Message: "Agent call rejected: <b>", Session: "s1", Tool: "search", CorrelationID: "f"}
	throttle := &events.Verdict{ID: "v2", Mode: "enforce", Action: "throttle", Reason: "call_rate_exceeded", RetryAfterS: 7}
	allow := &events.Verdict{ID: "v3", Mode: "enforce", Action: "allow", Reason: "allowed"}
	shadow := &events.Verdict{ID: "v4", Mode: "shadow", Action: "halt", Reason: "self_call"}
	const call = `{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","from":{"session":"a"},"to":{"session":"b"}`
	f := func(body string, v *events.Verdict, status int, want string) *httptest.ResponseRecorder {
		t.Helper()
		h := &Handler{
			Check: oneByOne(func(_ context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
				var again events.Event
				if err := events.Decode(raw, &again); err != nil || !again.Ask || !ev.Ask || again.ID != ev.ID || strings.Contains(string(raw), "\n") {
					t.Errorf("asked with %s (%v)", raw, err)
				}
				if v == nil {
					return nil, ErrTimeout
				}
				return v, nil
			}),
			Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
				status := http.StatusServiceUnavailable
				if e, ok := errors.AsType[*Error](err); ok {
					status = e.Status
				} else if _, ok := errors.AsType[*events.DecodeError](err); ok {
					status = http.StatusBadRequest
				}
				http.Error(w, err.Error(), status)
			},
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body)))
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %d with %s", body, w.Code, w.Body, status, want)
		}
		return w
	}
	f(call+`}`, allow, 200, `{"verdict":{"id":"v3"`)
	f(call+`,"ask":true}`, allow, 200, `"action":"allow"`)
	f(call+",\n \"ask\" : true\n}", shadow, 200, `"mode":"shadow"`)
	w := f(call+`}`, deny, 429, `"type":"urn:weir:reason:max_total_calls_exceeded","title":"Max total calls exceeded","status":429,"detail":"Agent call rejected: <b>","instance":"urn:weir:verdict:v1","reason_code":"max_total_calls_exceeded","action":"deny","limit":100,"observed":101,"session":"s1","tool":"search","controlled_cutoff":true`)
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("content type %q of %s", got, w.Body)
	}
	if got := f(call+`}`, throttle, 429, `"retry_after_s":7`).Header().Get("Retry-After"); got != "7" {
		t.Errorf("retry after %q", got)
	}
	f(call+`}`, nil, 503, "takes too long")
	f(`{}`, allow, 400, "missing_field")
	f(strings.Repeat("x", events.MaxEventBytes+10), allow, 400, "too_long")
	f(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"tick"}`, allow, 400, "reserved_kind")
	f(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"flow.end","correlation_id":"f"}`, allow, 422, "/v1/events")
}
