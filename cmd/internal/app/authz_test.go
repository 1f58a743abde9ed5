package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
)

func profile(t *testing.T, name string) analyzer.Limits {
	t.Helper()
	limits, err := limitfile.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// TestGatewayScenarios plays the four scenarios of the gateway system through the
// routes of gateways.
func TestGatewayScenarios(t *testing.T) {
	r := begin(t, Options{Limits: profile(t, "gateway"), Authz: true, IntakeTokenFile: tokenFile(t, intakeSecret)})
	n := 0
	f := func(session, turn, tool, args string, status int, parts ...string) {
		t.Helper()
		n++
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"q":%q}}}`, n, tool, args)
		header := []string{"Host", "shop.example", "Mcp-Session-Id", session, "Weir-Deny", "bare", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site", "Weir-Token", intakeSecret}
		if turn != "" {
			header = append(header, "X-Goal-Turn", turn)
		}
		r.want(r.do("POST", "/authz/envoy/mcp", body, header...), status, parts...)
	}
	for i := range 5 {
		f("s1", "1", "search", fmt.Sprint(i), 200)
	}
	for i := range 10 {
		f("s2", fmt.Sprint(i/4), "search", fmt.Sprint(i), 200)
	}
	f("s2", "2", "search", "10", 429, `"reason_code":"max_tool_calls_exceeded","limit":10,"observed":11,"session":"s2","tool":"search"`, `"controlled_cutoff":true`)
	for i, tool := range []string{"search", "fetch", "calculate", "search"} {
		f("s3", "", tool, fmt.Sprint(i), 200)
	}
	f("s3", "", "fetch", "4", 429, `"reason_code":"max_chain_depth_exceeded","limit":4,"observed":5`)
	f("s4", "1", "search", "same", 200)
	f("s4", "1", "search", "same", 429, `"reason_code":"repetition_detected"`, `"detail":"same call (tool=search, args-hash=`)
}

// TestGatewayLimitsAreHot changes the limits between two calls.
func TestGatewayLimitsAreHot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(most int) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, "profile: none\nrules: {max_tool_calls: {max: %d}}\n", most), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(10)
	r := begin(t, Options{Authz: true, LimitsFile: path, AdminTokenFile: tokenFile(t, adminSecret)})
	ask := func(i, status int) {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":%d}}}`, i)
		r.want(r.do("POST", "/authz/traefik", body, "Mcp-Session-Id", "s"), status)
	}
	for i := range 5 {
		ask(i, 200)
	}
	write(5)
	r.want(r.do("POST", "/-/reload", "", "Authorization", "Bearer "+adminSecret), 200)
	ask(5, 402)
}

// TestPagesAreNoGateways sends what a page in a browser can send to a weir on the same
// machine, across sites or under a name of its own.
func TestPagesAreNoGateways(t *testing.T) {
	r := begin(t, Options{Authz: true})
	f := func(method string, status int, header ...string) {
		t.Helper()
		before := len(r.journalLines())
		r.want(r.do(method, "/authz/envoy/x", "", append(header, "X-Session-Id", "s")...), status)
		if got := len(r.journalLines()) - before; got > 0 && status != 200 {
			t.Errorf("%q: %d records in the journal", header, got)
		}
	}
	for _, method := range []string{"GET", "POST", "PUT"} {
		f(method, 200)
		f(method, 200, "Sec-Fetch-Site", "same-origin")
		f(method, 403, "Sec-Fetch-Site", "cross-site")
		f(method, 403, "Sec-Fetch-Site", "same-site")
		f(method, 421, "Host", "evil.example")
		f(method, 421, "Host", "evil.example", "Weir-Token", "any")
	}
	f("GET", 403, "Origin", "https://evil.example")
	f("POST", 403, "Origin", "https://evil.example")
	f("POST", 403, "Origin", "https://evil.example", "Weir-Token", "any")

	off := begin(t, Options{})
	off.want(off.do("POST", "/authz/envoy/x", ""), 404, "nothing at /authz/envoy/x")
}

func TestGatewaysShowTheirToken(t *testing.T) {
	r := begin(t, Options{Authz: true, IntakeTokenFile: tokenFile(t, intakeSecret)})
	f := func(status int, header ...string) {
		t.Helper()
		r.want(r.do("GET", "/authz/nginx", "", append(header, "X-Session-Id", "s")...), status)
	}
	f(401)
	f(401, "Authorization", "Bearer "+intakeSecret) // is the client's
	f(401, "X-Api-Key", intakeSecret)
	f(401, "Weir-Token", "wrong")
	f(200, "Weir-Token", intakeSecret)
}

// TestHooks plays inputs of hooks.
func TestHooks(t *testing.T) {
	fake := clock.NewFake()
	r := begin(t, Options{Clock: fake, Limits: profile(t, "gateway")})
	f := func(input string, wants ...string) string {
		t.Helper()
		fake.Advance(time.Second)
		got := r.do("POST", "/v1/hook", input)
		r.want(got, 200, wants...)
		return strings.TrimSpace(got.body)
	}
	claude := func(event, call, command string) string {
		return fmt.Sprintf(`{"session_id":"2b9d","transcript_path":"…","cwd":"…","permission_mode":"default","hook_event_name":%q,"prompt_id":"31fa","agent_id":"a1be","agent_type":"general-purpose","tool_name":"Bash","tool_input":{"command":%q},"tool_response":"done","tool_use_id":%q}`, event, command, call)
	}
	nothing := func(got string) {
		t.Helper()
		if got != "{}" {
			t.Errorf("answered %s", got)
		}
	}
	nothing(f(`{"session_id":"2b9d","hook_event_name":"UserPromptSubmit","prompt_id":"31fa","prompt":"go"}`))
	nothing(f(`{"session_id":"2b9d","hook_event_name":"SessionStart"}`))
	for i := range 4 {
		nothing(f(claude("PreToolUse", fmt.Sprint("t", i), fmt.Sprint("ls ", i))))
		nothing(f(claude("PostToolUse", fmt.Sprint("t", i), fmt.Sprint("ls ", i))))
	}
	got := f(claude("PreToolUse", "t4", "ls 4"))
	var answer struct {
		Output struct {
			Event    string `json:"hookEventName"`
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Output.Event != "PreToolUse" || answer.Output.Decision != "deny" ||
		!strings.HasPrefix(answer.Output.Reason, "weir max_chain_depth_exceeded: ") || strings.Contains(answer.Output.Reason, "ls 4") {
		t.Errorf("refused with %s (%v)", got, err)
	}

	open := func(event, command, more string) string {
		return fmt.Sprintf(`{"event_type":%q,"tool_name":"terminal","tool_input":{"command":%q},"tool_output":%s,"message":null,"session_id":"oh","working_dir":"/","metadata":{}}`, event, command, more)
	}
	nothing(f(`{"event_type":"UserPromptSubmit","tool_name":null,"tool_input":null,"tool_output":null,"message":"go","session_id":"oh","working_dir":"/","metadata":{}}`))
	nothing(f(open("PreToolUse", "ls", "null")))
	nothing(f(open("PostToolUse", "ls", `"a b"`)))
	f(open("PreToolUse", "ls", "null"), `{"decision":"deny","reason":"weir repetition_detected: `)

	var kinds []string
	for _, line := range r.journalLines() {
		var ev struct {
			Kind, Source, Time string
			From               struct{ Session, Agent string }
			Tool               struct {
				CallID string `json:"call_id"`
			}
			Ask bool
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(ev.Source, "openhands") {
			kinds = append(kinds, fmt.Sprint(ev.Kind, " ", ev.From.Agent, " ", ev.Ask))
		}
		if strings.Contains(line, "ls") && strings.Contains(line, "command") {
			t.Errorf("content is in the journal: %s", line)
		}
	}
	if got, want := strings.Join(kinds, ", "), "agent.call  false, tool.call openhands true, tool.result openhands false, tool.call openhands true"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}

	nothing(f(`{`))
	nothing(f(`{"hook_event_name":"PreToolUse","tool_name":"Bash"}`))
	r.want(r.do("POST", "/v1/hook?closed=1", `{`), 200, `"permissionDecision":"deny"`)
}
