package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/mcpserver"
	"weir/events"
)

// mcpOver connects the Go SDK's client to weir mcp on its standard streams.
func mcpOver(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan int, 1)
	errs := newWatched()
	env := cli.Env{In: toServer, Out: fromServer, Err: errs, Getenv: func(string) string { return "" }, Now: time.Now}
	go func() {
		ended <- program().Main(context.Background(), env, append([]string{"mcp"}, args...))
		fromServer.Close()
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, errs)
	}
	t.Cleanup(func() {
		session.Close()
		fromClient.Close()
		if code := <-ended; code != 0 {
			t.Errorf("weir mcp: exit code %d\n%s", code, errs)
		}
	})
	return session
}

// use calls a tool and returns its text and its value.
func use(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (text string, value map[string]any, failed bool) {
	t.Helper()
	got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if len(got.Content) > 0 {
		text = got.Content[0].(*mcp.TextContent).Text
	}
	raw, err := json.Marshal(got.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &value); err != nil && !got.IsError {
		t.Fatalf("%s: %v in %s", tool, err, raw)
	}
	return text, value, got.IsError
}

// mcpTools are the tools by their names, of which the first are those of the recovery system.
var mcpTools = []string{"admin_rescue_agent", "detect_stuck_agents", "direct_resume_if_safe", "leave_note", "list_agents", "request_rescue_for_agent", "search_knowledge_graph",
	"backtest_limits", "explain_flow", "list_flows", "propose_limits", "remaining_limits", "why_was_i_stopped"}

// runForMCP is a weir with a loop that was stopped and an agent that reports to be stuck.
func runForMCP(t *testing.T) (r *running, flow, intake, admin string) {
	t.Helper()
	dir := t.TempDir()
	tokens := map[string]string{"intake": strings.Repeat("intake00", 5), "admin": strings.Repeat("admin000", 5)}
	var args []string
	for name, token := range tokens {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+name+"-token-file", file)
	}
	limits := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: recovery\nrules:\n  ping_pong_same: {max: 6}\n  max_total_calls: {max: 50}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = startRun(t, append(args, "--state", filepath.Join(dir, "state"), "--limits", limits)...)
	send := func(body []byte) {
		q, err := http.NewRequest(http.MethodPost, r.url+"/v1/events", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/x-ndjson")
		q.Header.Set("Authorization", "Bearer "+tokens["intake"])
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("HTTP %d: %s", resp.StatusCode, text)
		}
	}
	status := events.Event{ID: "s", Source: "test", Time: events.StampOf(time.Now().Add(-4 * time.Minute)), Kind: events.AgentStatus, From: events.Party{Agent: "planner"},
		AgentState: &events.AgentState{Status: "active", Margin: "comfortable", Coherence: 0.9, HasCoherence: true, Risk: 0.1, HasRisk: true}}
	send(status.AppendJSON(nil))
	send(loopOfNow(t))
	flow = r.stopped().CorrelationID
	return r, flow, filepath.Join(dir, "intake"), filepath.Join(dir, "admin")
}

func TestMCP(t *testing.T) {
	t.Parallel()
	r, flow, intake, admin := runForMCP(t)
	defer r.end(syscall.SIGTERM)
	s := mcpOver(t, "--server", r.url, "--token-file", intake, "--agent", "writer")
	operator := mcpOver(t, "--server", r.url, "--token-file", admin)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := slices.Sorted(slices.Values(mcpTools)); !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	check := func(s *mcp.ClientSession, failed bool, tool string, args map[string]any, want ...string) map[string]any {
		t.Helper()
		text, value, is := use(t, s, tool, args)
		if is != failed {
			t.Errorf("%s: failed %v, want %v: %s", tool, is, failed, text)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in %q", tool, part, text)
			}
		}
		return value
	}
	type in = map[string]any

	stopped := check(s, false, "why_was_i_stopped", in{"flow_id": flow}, "Flow "+flow+" is stopped", "Do: ", "Left: ")
	if orders := stopped["orders"].([]any); len(orders) == 0 || orders[0].(in)["rule"] == "" {
		t.Errorf("orders are %v", orders)
	}
	check(s, false, "why_was_i_stopped", in{}, "Nothing stops your next call")
	check(operator, false, "why_was_i_stopped", in{}, "Flow "+flow+" is stopped")
	check(s, true, "why_was_i_stopped", in{"flow_id": "nothing"}, "weir knows no flow")
	left := check(s, false, "remaining_limits", in{"flow_id": flow}, "of 50 calls (max_total_calls)")
	if len(left["remaining"].([]any)) == 0 {
		t.Errorf("left is %v", left)
	}
	check(s, false, "list_flows", in{"stopped_only": true}, "1 flow", flow)
	check(s, false, "explain_flow", in{"flow_id": flow}, flow+" is stopped", "evidence  events #2")

	check(s, false, "detect_stuck_agents", nil, "0 stuck, 0 escalated")
	check(s, false, "list_agents", in{"stuck_only": true}, "0 agents")
	check(s, false, "list_agents", in{}, "planner: silent")
	check(s, true, "list_agents", in{"limit": 501}, "want 1 to 500")
	rescued := check(s, false, "request_rescue_for_agent", in{"target_agent_id": "planner", "reason": "no answer"}, "Agent is not stuck - no rescue needed")
	if orders := rescued["orders"].([]any); len(orders) != 1 || orders[0].(in)["action"] != "notify" || rescued["by"] != "writer" {
		t.Errorf("the rescue is %v", rescued)
	}
	check(operator, true, "request_rescue_for_agent", in{"target_agent_id": "planner", "reason": "x"}, "weir does not know who asks")
	check(s, true, "admin_rescue_agent", in{"agent_id": "planner", "reason": "its host is gone"}, "admin token")
	check(operator, false, "admin_rescue_agent", in{"agent_id": "planner", "reason": "its host is gone", "by": "ann"}, "planner: resume. Auto-recovery")
	check(s, false, "list_agents", in{"stuck_only": true}, "planner")
	check(s, false, "leave_note", in{"summary": "its key is lost", "tags": []string{"keys"}, "about_agent_id": "planner", "details": "see vault"}, "Noted about planner by writer")
	check(s, false, "search_knowledge_graph", in{"tags": []string{"keys"}}, "1 notes", "its key is lost - see vault")
	check(s, false, "search_knowledge_graph", in{"query": "VAULT"}, "1 notes")
	check(s, false, "search_knowledge_graph", in{"query": "nothing like it"}, "0 notes")
	check(s, false, "direct_resume_if_safe", in{"reason": "I wait for a key"}, "writer: ")

	log := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(log, loopOfNow(t), 0o600); err != nil {
		t.Fatal(err)
	}
	check(s, false, "backtest_limits", in{"limits": "profile: none", "files": []string{log}}, "Against: 1 stopped", "Proposed: 0 stopped", "Treated differently: 1 flow.")
	check(s, false, "backtest_limits", in{"limits": "profile: none", "text": string(loopOfNow(t))}, "Treated differently: 1 flow.")
	check(s, false, "backtest_limits", in{"limits": "profile: none", "against": "profile: none", "since": "0s"}, "Treated differently: 0 flows.")
	check(s, true, "backtest_limits", in{"limits": "rules: 1", "files": []string{log}}, "limits B")
	check(s, true, "backtest_limits", in{"limits": "profile: none"}, "name one log")
	check(s, true, "backtest_limits", in{"limits": "profile: none", "files": []string{"/nothing"}}, "no such file")
	check(s, false, "propose_limits", in{"files": []string{log}}, "No limits are proposed: the log has 1 honest flows")
	check(s, false, "propose_limits", in{"text": strings.Join(strings.SplitAfter(string(loopOfNow(t)), "\n")[:3], ""), "min_flows": 1}, "profile: recovery")
}

// TestMCPOverHTTP holds each call to the token of its own request.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	r, flow, intake, admin := runForMCP(t)
	defer r.end(syscall.SIGTERM)
	served := start(t, "mcp", "--server", r.url, "--http", "127.0.0.1:0")
	defer func() {
		if code := served.end(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}()
	line := served.stderr.await(t, "MCP: ", served.ended)
	url := strings.TrimSuffix(strings.Fields(line)[1], ",")
	connect := func(token string) *mcp.ClientSession {
		t.Helper()
		hc := &http.Client{Transport: withToken(token)}
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc, DisableStandaloneSSE: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	token := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text, _, failed := use(t, connect(token(intake)), "why_was_i_stopped", map[string]any{"flow_id": flow})
	if failed || !strings.Contains(text, "is stopped") {
		t.Errorf("why: %s", text)
	}
	rescue := map[string]any{"agent_id": "planner", "reason": "its host is gone", "by": "ann"}
	if text, _, failed = use(t, connect(token(intake)), "admin_rescue_agent", rescue); !failed {
		t.Errorf("the intake token may rescue: %s", text)
	}
	if text, _, failed = use(t, connect(token(admin)), "admin_rescue_agent", rescue); failed || !strings.Contains(text, "resume") {
		t.Errorf("the admin token: %s", text)
	}
	if text, _, failed = use(t, connect(token(admin)), "backtest_limits", map[string]any{"limits": "profile: none", "files": []string{intake}}); !failed || !strings.Contains(text, "files are read only where") {
		t.Errorf("a file over HTTP: %s", text)
	}
	// weir lets its own machine read without a token, and so does this server.
	if text, _, failed = use(t, connect(""), "list_agents", nil); failed {
		t.Errorf("without a token on this machine: %s", text)
	}

	// What came by a proxy is not of this machine, whatever token it made up.
	for given, want := range map[string]int{"": 401, "Bearer made-up": 401, "Basic x": 401, "Bearer " + token(intake): 200} {
		q, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Forwarded-For": "192.0.2.1", "Authorization": given} {
			if value != "" {
				q.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("by a proxy with %q: HTTP %d, want %d", given, resp.StatusCode, want)
		}
	}
	for _, args := range [][]string{{"--token-file", intake}, {"--cert-file", intake}} {
		if code, _, errs := weir(t, "", append([]string{"mcp", "--http", "127.0.0.1:0", "--server", r.url}, args...)...); code != 2 && code != 1 || errs == "" {
			t.Errorf("%q with --http: exit code %d, %s", args, code, errs)
		}
	}
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if w != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(w))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPPage holds the page to the tools that there are.
func TestMCPPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("MCP.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if want := slices.Sorted(slices.Values(mcpTools)); !slices.Equal(named, want) {
		t.Errorf("the page names %q, want %q", named, want)
	}
}

// TestMCPBesideHalfOpenConnections has more clients send half a request than there may be connections:
// the oldest of them gives way.
func TestMCPBesideHalfOpenConnections(t *testing.T) {
	t.Parallel()
	r, flow, intake, _ := runForMCP(t)
	defer r.end(syscall.SIGTERM)
	served := start(t, "mcp", "--server", r.url, "--http", "127.0.0.1:0")
	defer served.end(syscall.SIGTERM)
	line := served.stderr.await(t, "MCP: ", served.ended)
	url := strings.TrimSuffix(strings.Fields(line)[1], ",")
	var half []net.Conn
	for range mcpConnections + 20 {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), mcpserver.Path))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		half = append(half, c)
	}
	_ = half[0].SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadAll(half[0]); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest half request is still open")
	}
	token, err := os.ReadFile(intake)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken(string(token))}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if text, _, failed := use(t, s, "why_was_i_stopped", map[string]any{"flow_id": flow}); failed {
		t.Errorf("why: %s", text)
	}
}
