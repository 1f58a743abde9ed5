package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/events"
)

func TestRefuse(t *testing.T) {
	v := &events.Verdict{ID: "v1", Mode: "enforce", Action: "deny", Reason: "max_tool_calls_exceeded", HTTPStatus: 429, ControlledCutoff: true,
		Limit: amount(10), Observed: amount(11), Message: "Tool call rejected <11>", AgentMessage: "Stop.", Session: "s1", Tool: "search", CorrelationID: "f"}
	call := &Message{ID: json.RawMessage(`7`), Method: "tools/call"}
	list := &Message{ID: json.RawMessage(`"x"`), Method: "prompts/get"}
	send := &Message{ID: json.RawMessage(`2`), Method: "SendMessage"}
	note := &Message{Method: "tools/call"}
	f := func(v *events.Verdict, d DenyFormat, m *Message, status int, contentType, want string) {
		t.Helper()
		r := Refuse(v, d, m)
		var got, wanted any
		if err := json.Unmarshal(r.Body, &got); err != nil {
			t.Fatalf("%s: %v", r.Body, err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if r.Status != status || r.Header.Get("Content-Type") != contentType || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %d %s\n%s\nwant %d %s\n%s", d, r.Status, r.Header.Get("Content-Type"), r.Body, status, contentType, want)
		}
		if r.Header.Get("Weir-Reason") != string(v.Reason) || r.Header.Get("Weir-Verdict") != "v1" || r.Header.Get("Weir-Status") == "" {
			t.Errorf("headers %v", r.Header)
		}
	}
	const (
		flat    = `{"reason_code":"max_tool_calls_exceeded","limit":10,"observed":11,"session":"s1","tool":"search","detail":"Tool call rejected <11>","controlled_cutoff":true}`
		problem = `{"type":"urn:weir:reason:max_tool_calls_exceeded","title":"Max tool calls exceeded","status":429,"detail":"Tool call rejected <11>","instance":"urn:weir:verdict:v1","reason_code":"max_tool_calls_exceeded","action":"deny","limit":10,"observed":11,"session":"s1","tool":"search","controlled_cutoff":true,"agent_message":"Stop.","correlation_id":"f"}`
		tool    = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"Stop."}],"structuredContent":` + flat + `,"isError":true}}`
	)
	f(v, AnyFormat, nil, 429, "application/problem+json", problem)
	f(v, AnyFormat, note, 429, "application/problem+json", problem) // no caller waits for an answer
	f(v, ToolError, note, 429, "application/problem+json", problem)
	f(v, Problem, call, 429, "application/problem+json", problem)
	f(v, Flat, call, 429, "application/json", flat)
	f(v, AnyFormat, call, 200, "application/json", tool)
	f(v, ToolError, call, 200, "application/json", tool)
	f(v, JSONRPC, call, 200, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":4030,"message":"Tool call rejected <11>","data":`+flat+`}}`)
	f(v, AnyFormat, list, 200, "application/json", `{"jsonrpc":"2.0","id":"x","error":{"code":4030,"message":"Tool call rejected <11>","data":`+flat+`}}`)
	f(v, ToolError, send, 200, "application/json", `{"jsonrpc":"2.0","id":2,"error":{"code":4030,"message":"Tool call rejected <11>","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MAX_TOOL_CALLS_EXCEEDED","domain":"weir","metadata":{"agent_message":"Stop.","controlled_cutoff":"true","correlation_id":"f","limit":"10","observed":"11"}}]}}`)

	spent, wait := *v, *v
	spent.HTTPStatus, wait.HTTPStatus, wait.Action, wait.RetryAfterS, wait.ControlledCutoff = 402, 429, "throttle", 7, false
	for _, c := range []struct {
		v                 *events.Verdict
		status, code      int
		retryAfter, retry string
	}{{v, 429, 4030, "", "false"}, {&spent, 402, 4020, "", "false"}, {&wait, 429, 4290, "7", ""}} {
		r, rpc := Refuse(c.v, Problem, nil), Refuse(c.v, JSONRPC, call)
		if r.Status != c.status || r.Header.Get("Retry-After") != c.retryAfter || r.Header.Get("X-Should-Retry") != c.retry || !strings.Contains(string(rpc.Body), fmt.Sprintf(`"code":%d,`, c.code)) {
			t.Errorf("%s: %d %v, %s; want %+v", c.v.Action, r.Status, r.Header, rpc.Body, c)
		}
		grpc := uint64(grpcDenied)
		if c.retryAfter != "" {
			grpc = grpcExhausted
		}
		if want := message(nil, 1, number(nil, 1, grpc)); !bytes.HasPrefix(appendAnswer(nil, r, nil), want) {
			t.Errorf("%s: the answer by gRPC does not begin with code %d", c.v.Action, grpc)
		}
	}

	again := *v
	again.Reason, again.ArgsHash = events.Repetition, "xxh64:4f3a2b9c00112233"
	f(&again, Flat, nil, 429, "application/json", `{"reason_code":"repetition_detected","limit":10,"observed":11,"session":"s1","tool":"search","detail":"same call (tool=search, args-hash=4f3a2b9c) repeated within the last calls","controlled_cutoff":true}`)
	loops := events.Verdict{ID: "v1", Mode: "enforce", Action: "halt", Reason: events.MaxLoops, HTTPStatus: 429, ControlledCutoff: true, Limit: amount(3), Observed: amount(3),
		Message: "Loop limit exceeded: 3 loops reached for task t9", TaskID: "t9", LoopCount: 3, ProjectID: "p", MemoryTraceID: "m", Agent: "hal", DelegationDepth: 1}
	f(&loops, Flat, nil, 429, "application/json", `{"reason_code":"max_loops_exceeded","limit":3,"observed":3,"detail":"Loop limit exceeded: 3 loops reached for task t9","controlled_cutoff":true,"status":"error","reason":"Loop limit exceeded","loop_count":3,"task_id":"t9","project_id":"p","memory_trace_id":"m","agent_id":"hal","delegation_depth":1}`)
	deep := events.Verdict{ID: "v1", Mode: "enforce", Action: "deny", Reason: events.MaxDelegationDepth, HTTPStatus: 429, ControlledCutoff: true, Limit: amount(2), Observed: amount(2),
		Message: "Delegation depth exceeded: 2 levels reached for delegation to d", From: "c", To: "d", DelegationDepth: 2}
	f(&deep, Flat, nil, 429, "application/json", `{"reason_code":"max_delegation_depth_exceeded","limit":2,"observed":2,"session":"c","detail":"Delegation depth exceeded: 2 levels reached for delegation to d","controlled_cutoff":true,"status":"error","reason":"Delegation depth exceeded","agent_id":"d","delegation_depth":2}`)
}

func TestParseDenyFormat(t *testing.T) {
	for _, d := range []DenyFormat{AnyFormat, Problem, Flat, JSONRPC, ToolError} {
		if got, err := ParseDenyFormat(d.String()); got != d || err != nil {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	if d, err := ParseDenyFormat(""); d != AnyFormat || err != nil {
		t.Error(d, err)
	}
	if _, err := ParseDenyFormat("gown"); err == nil {
		t.Error("a gown is taken")
	}
}

// TestWhatIsLeft goes through every format, and through what lets calls pass.
func TestWhatIsLeft(t *testing.T) {
	left := []events.Remaining{{RuleID: "max_cost_usd", Left: 0.123456, Limit: 5, Unit: events.UnitUSD},
		{RuleID: "max_flow_duration", Left: 50, Limit: 60, Unit: events.UnitSeconds, Until: events.RFC3339(1795183260_000)}}
	const header = "max_cost_usd;left=0.123;limit=5;unit=usd, max_flow_duration;left=50;limit=60;unit=s;until=@1795183260"
	const object = `[{"rule_id":"max_cost_usd","left":0.123456,"limit":5,"unit":"usd"},{"rule_id":"max_flow_duration","left":50,"limit":60,"unit":"s","until":"2026-11-20T14:01:00.000Z"}]`
	deny := &events.Verdict{ID: "v1", Mode: "enforce", Action: "deny", Reason: "max_turns_exceeded", ControlledCutoff: true, Message: "no", Remaining: left}
	call := &Message{ID: []byte("7"), Method: methodToolsCall}
	for _, c := range []struct {
		dress DenyFormat
		want  string
	}{{Problem, `"remaining":` + object}, {ToolError, `"_meta":{"weir/remaining":` + object + `}`}, {Flat, ""}, {JSONRPC, ""}} {
		r := Refuse(deny, c.dress, call)
		if got := r.Header.Get(RemainingHeader); got != header || !bytes.Contains(r.Body, []byte(c.want)) {
			t.Errorf("%s: %q %s", c.dress, got, r.Body)
		}
	}
	allow := &events.Verdict{ID: "v2", Mode: "enforce", Action: "allow", Reason: "allowed", Remaining: left}
	w := httptest.NewRecorder()
	(&Handler{}).respond(w, nil, &Request{Event: &events.Event{ID: "1"}}, allow, nil, AnyFormat, whole)
	if got := w.Header().Get(RemainingHeader); got != header || !strings.Contains(w.Body.String(), `"remaining":`+object) {
		t.Errorf("allowed: %q %s", got, w.Body)
	}
	a := newAuthz(func(context.Context, *events.Event, []byte) (*events.Verdict, error) { return allow, nil },
		func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, time.Now)
	w = httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("POST", AuthzPath+"envoy", nil))
	if got := w.Header().Get(RemainingHeader); got != header || w.Code != 200 {
		t.Errorf("a gateway: %d %q", w.Code, got)
	}
	told := http.Header{RemainingHeader: {header}}
	option := message(nil, 1, message(message(nil, 1, []byte("weir-remaining")), 2, []byte(header)))
	if got := appendAnswer(nil, nil, told); !bytes.Contains(got, message(message(nil, 2, option), 6, option)) {
		t.Errorf("a gateway by gRPC: %q", got)
	}
}
