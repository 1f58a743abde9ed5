package otlp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// endpoint answers requests in turn, the last answer for ever, and keeps what it took.
type endpoint struct {
	answers []int
	says    string
	got     []record
	header  http.Header
	path    string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.header, e.path = r.Header, r.URL.Path
	code := e.answers[0]
	if len(e.answers) > 1 {
		e.answers = e.answers[1:]
	}
	b, _ := io.ReadAll(r.Body)
	w.WriteHeader(code)
	if code != 200 {
		return
	}
	var q request
	if json.Unmarshal(b, &q) == nil {
		e.got = append(e.got, q.ResourceLogs[0].ScopeLogs[0].LogRecords...)
	}
	_, _ = io.WriteString(w, e.says)
}

func exporter(t *testing.T, e *endpoint, path string) *Exporter {
	t.Helper()
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	x, err := New(Options{URL: server.URL + path, Header: http.Header{"Authorization": {"Bearer x"}}, Refusals: 2, Now: func() time.Time { return time.Unix(5, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// verdict is one that stops, with more members or others.
func verdict(t *testing.T, more string) []byte {
	t.Helper()
	v := map[string]any{"id": "a-1", "time": "2026-11-20T14:00:04.000Z", "mode": "enforce", "scope": map[string]string{"kind": "flow", "id": "f"}, "action": "deny",
		"effective": "now", "reason_code": "a2a_ping_pong", "message": "m"}
	if err := json.Unmarshal([]byte("{"+more+"}"), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *record) said(key string) string {
	for _, a := range r.Attributes {
		if a.Key == key && a.Value.String != nil {
			return *a.Value.String
		}
	}
	return ""
}

// TestRecordsSayWhatTheCallBelongsTo holds that log events can be searched by all scopes of a call.
func TestRecordsSayWhatTheCallBelongsTo(t *testing.T) {
	r := recordOf(&events.Verdict{ProjectID: "project", TeamID: "team", TenantID: "tenant", ConversationID: "conversation", TaskID: "task"}, time.Now())
	for key, want := range map[string]string{"weir.project_id": "project", "weir.team_id": "team", "weir.tenant_id": "tenant", "weir.task_id": "task", "gen_ai.conversation.id": "conversation"} {
		if got := r.said(key); got != want {
			t.Errorf("%s is %q", key, got)
		}
	}
}

// TestDelivery sends again what was not taken, drops what is refused for good, and counts what an
// endpoint says that it did not keep.
func TestDelivery(t *testing.T) {
	f := func(answers []int, says string, tries int, delivered, failures, dropped int64) {
		t.Helper()
		e := &endpoint{answers: answers, says: says}
		x := exporter(t, e, "")
		n := 0
		for err := error(io.EOF); err != nil && n < 9; n++ {
			err = x.Export(t.Context(), [][]byte{verdict(t, ""), []byte("{"), verdict(t, "")})
		}
		c := x.Counts()
		if n != tries || c.Delivered.Load() != delivered || c.Failures.Load() != failures || c.Dropped.Load() != dropped+int64(n) { // one cannot be read, each time
			t.Errorf("%v: %d tries, %d delivered, %d failures, %d dropped", answers, n, c.Delivered.Load(), c.Failures.Load(), c.Dropped.Load())
		}
		if e.path != "/v1/logs" || e.header.Get("Authorization") != "Bearer x" || e.header.Get("Content-Type") != "application/json" {
			t.Errorf("sent to %s with %v", e.path, e.header)
		}
	}
	f([]int{200}, "{}", 1, 2, 0, 0)
	f([]int{200}, "", 1, 2, 0, 0)
	f([]int{503, 429, 502, 504, 200}, "{}", 5, 2, 4, 0)
	f([]int{401}, "", 2, 0, 2, 2)
	f([]int{307}, "", 2, 0, 2, 2)
	f([]int{200}, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}`, 1, 1, 0, 1)
}

// TestWhoEndedTheRun looks at finish reason, severity and trace of verdicts.
func TestWhoEndedTheRun(t *testing.T) {
	e := &endpoint{answers: []int{200}}
	x := exporter(t, e, "/own/logs")
	const trace, span = "0123456789abcdef0123456789abcdef", "0123456789abcdef"
	f := func(more, finish, severity, trace, span string) {
		t.Helper()
		want := "failed"
		switch {
		case strings.Contains(more, `"hold"`):
			want = "input_required"
		case finish == "" || finish == "cancelled":
			want = finish
		}
		e.got = nil
		if err := x.Export(t.Context(), [][]byte{verdict(t, more)}); err != nil || len(e.got) != 1 {
			t.Fatal(err, len(e.got))
		}
		r := &e.got[0]
		if got := r.said("gen_ai.agent.finish_reason"); got != finish || r.SeverityText != severity || r.TraceID != trace || r.SpanID != span {
			t.Errorf("%s: finish reason %q, %s, trace %q, span %q", more, got, r.SeverityText, r.TraceID, r.SpanID)
		}
		if got := r.said("gen_ai.agent.invocation.status"); got != want {
			t.Errorf("%s: status %q, want %q", more, got, want)
		}
		if e.path != "/own/logs" || r.Time != "1795183204000000000" || r.Observed != "5000000000" {
			t.Errorf("sent to %s: %+v", e.path, r)
		}
	}
	ids := `"trace_id":"` + trace + `","span_id":"` + span + `"`
	f(ids, "guardrail", "ERROR", trace, span)
	f(`"correlation_id":"`+trace+`"`, "guardrail", "ERROR", trace, "")
	f(`"correlation_id":"`+trace+`","trace_id":"LF-7"`, "guardrail", "ERROR", "", "") // an id of another make
	f(`"trace_id":"00000000000000000000000000000000"`, "guardrail", "ERROR", "", "")
	f(`"rule_id":"operator_stop","action":"halt"`, "cancelled", "ERROR", "", "")
	f(`"rule_id":"max_total_calls","unit":"calls","limit":5,"observed":6`, "max_iterations", "ERROR", "", "")
	f(`"rule_id":"max_flow_duration","unit":"s","action":"halt"`, "time_budget", "ERROR", "", "")
	f(`"rule_id":"max_tokens","unit":"tokens","action":"hold"`, "max_tokens", "ERROR", "", "")
	f(`"rule_id":"max_cost","unit":"usd"`, "cost_budget", "ERROR", "", "")
	f(`"effective":"next"`, "", "ERROR", "", "") // the run may end by itself before
	f(`"mode":"shadow"`, "", "INFO", "", "")
	f(`"action":"warn"`, "", "WARN", "", "")
	f(`"action":"throttle"`, "", "WARN", "", "")
	f(`"action":"allow"`, "", "INFO", "", "")
}

func TestHeaders(t *testing.T) {
	h, err := ReadHeader([]byte("# token\nAuthorization: Bearer a:b\n\nx-scope-orgid:7\n"))
	if err != nil || h.Get("Authorization") != "Bearer a:b" || h.Get("X-Scope-OrgID") != "7" {
		t.Error(h, err)
	}
	for _, bad := range []string{"Bearer x", ": v", "a b: c"} {
		if _, err := ReadHeader([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:4318", "grpc://h:4317"} {
		if _, err := New(Options{URL: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
