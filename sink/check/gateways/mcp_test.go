//go:build linux

package gateways

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/cmd/weirtest"
)

// TestMCPClients looks at what the callers of the official MCP clients see of a refusal,
// in each format, through Envoy.
func TestMCPClients(t *testing.T) {
	binary := build(t)
	dir, err := filepath.Abs(os.Getenv(binaries))
	if err != nil {
		t.Fatal(err)
	}
	python, node := filepath.Join(dir, "python"), filepath.Join(dir, "node")
	if _, err := os.Stat(filepath.Join(python, "mcp")); err != nil {
		t.Skip("MISSING: the MCP SDK for Python, which has the server, too; run: make gateways")
	}
	g, behind := all()[0], mcpServer(t, python)
	hits := new(atomic.Int64)
	c := throughTo(t, g, binary, "profile: none\nrules: {max_tool_calls: {max: 1}}\n", hits, behind)
	// Clients with sessions open a stream by GET and end it by DELETE, which count as calls.
	withStream := throughTo(t, g, binary, "profile: none\nrules: {max_tool_calls: {max: 2}}\n", hits, behind)

	type seen struct {
		Kind, Text, Reason string
		Error              bool
	}
	f := func(client, format string, want seen, command func(try int) []string) {
		t.Helper()
		var got seen
		for tries := 1; ; tries++ {
			line := command(tries)
			run := exec.Command(line[0], line[1:]...)
			run.Env = append(os.Environ(), "PYTHONPATH="+python)
			var errs strings.Builder
			run.Stderr = &errs
			out, err := run.Output()
			got = seen{}
			jerr := json.Unmarshal(out, &got)
			// The stream of a session may come behind the second call, and is refused then.
			if err == nil && jerr == nil && (got.Kind == want.Kind && got.Reason == want.Reason || tries == 3) {
				break
			}
			// On a loaded machine a connection breaks now and then, and the SDK ends its
			// program: nothing was seen of a refusal, so it is tried in another flow.
			t.Logf("%s, %s: %v %v\n%s%s", client, format, err, jerr, out, errs.String())
			if tries == 3 {
				t.Errorf("%s, %s: nothing is seen in %d tries", client, format, tries)
				return
			}
		}
		t.Logf("%-18s %-10s %-9s reason %-24q %.110q", client, format, got.Kind, got.Reason, got.Text)
		if got.Kind != want.Kind || got.Error != want.Error || got.Reason != want.Reason || !strings.Contains(got.Text, want.Text) {
			t.Errorf("%s, %s: saw %+v, want %+v", client, format, got, want)
		}
	}
	const reason = "max_tool_calls_exceeded"
	model := seen{"result", "The call was refused by the flow guard (" + reason, reason, true}
	typed := seen{"exception", "2 tool calls in the flow (max 1)", reason, true}
	typedStream := seen{"exception", "3 tool calls in the flow (max 2)", reason, true}
	for _, format := range []struct {
		name, path           string
		python, legacy, node seen
	}{
		{"tool_error", "/mcp", model, model, model},
		{"jsonrpc", "/jsonrpc/mcp", typed, typedStream, typedStream},
		{"problem", "/problem/mcp", seen{"exception", "", "", true}, seen{"exception", "", "", true}, seen{"exception", "agent_message", "", true}},
		{"bare", "/bare/mcp", seen{"exception", "", "", true}, seen{"exception", "", "", true}, seen{"exception", reason, "", true}},
	} {
		f("python 2.3.0 auto", format.name, format.python, func(try int) []string {
			return []string{"python3", "testdata/mcp_client.py", c.url + format.path, "auto", fmt.Sprint(format.name, "auto", try), "1"}
		})
		f("python 2.3.0 legacy", format.name, format.legacy, func(try int) []string {
			return []string{"python3", "testdata/mcp_client.py", withStream.url + format.path, "legacy", fmt.Sprint(format.name, "legacy", try), "2"}
		})
		if _, err := os.Stat(node); err != nil {
			t.Log("MISSING: the MCP SDK for TypeScript; NOT TESTED")
			continue
		}
		f("typescript 1.32.2", format.name, format.node, func(int) []string { // each run is a session of its own
			return []string{"node", "testdata/mcp_client.mjs", node, withStream.url + format.path}
		})
	}
}

// mcpServer starts an MCP server of the official SDK and returns what stands before it, which
// also answers whether it is there.
func mcpServer(t *testing.T, python string) http.Handler {
	t.Helper()
	port := weirtest.Port(t)
	server := exec.Command("python3", "testdata/mcp_server.py", port)
	server.Env, server.Stderr = append(os.Environ(), "PYTHONPATH="+python), os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	// The server stands behind the tool that the gateway's test looks for.
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
	behind.FlushInterval = -1
	behind.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") { // answered when the server is there
			r.URL.Path = "/mcp"
			probe := &probeWriter{header: http.Header{}}
			behind.ServeHTTP(probe, r)
			if probe.status == http.StatusBadGateway {
				w.WriteHeader(http.StatusBadGateway)
			}
			return
		}
		behind.ServeHTTP(w, r)
	})
}

// TestMCPWithoutSessions has the official client speak the revision of MCP that has no sessions:
// each request says in headers what it is, and in _meta to which trace and flow it belongs. A
// tool that has its caller look again is no loop, and neither are polls of a task; a call that is
// the same each time is.
func TestMCPWithoutSessions(t *testing.T) {
	binary := build(t)
	python, err := filepath.Abs(filepath.Join(os.Getenv(binaries), "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(python, "opentelemetry", "sdk")); err != nil {
		t.Skip("MISSING: the SDKs of MCP and of OpenTelemetry for Python; run: make gateways")
	}
	var mu sync.Mutex
	came := map[string]int{}
	server := mcpServer(t, python)
	c := throughTo(t, all()[0], binary, "profile: balanced\n", new(atomic.Int64), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		what := strings.TrimSpace(r.Header.Get("Mcp-Method") + " " + r.Header.Get("Mcp-Name"))
		came[what]++
		if bytes.Contains(body, []byte(`"traceparent":"00-`)) && bytes.Contains(body, []byte("correlation_id=stateless")) && r.Header.Get("Mcp-Session-Id") == "" {
			came[what+" in a trace and a flow"]++
		}
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	run := exec.Command("python3", "testdata/mcp_stateless.py", c.url+"/mcp", "stateless")
	run.Env = append(os.Environ(), "PYTHONPATH="+python)
	var errs strings.Builder
	run.Stderr = &errs
	out, err := run.Output()
	var got struct{ Waits, Polls, Repeats []string }
	if jerr := json.Unmarshal(out, &got); err != nil || jerr != nil {
		t.Fatalf("%v %v\n%s%s", err, jerr, out, errs.String())
	}
	mu.Lock()
	defer mu.Unlock()
	last := got.Repeats[len(got.Repeats)-1]
	t.Logf("%v; a call that is the same each time: %d times, and then %.160q", came, len(got.Repeats)-1, last)
	if n := came["tools/call wait_for in a trace and a flow"]; n != 54 || strings.Join(got.Waits, "") != strings.Repeat("done", 6) {
		t.Errorf("the tool was asked %d times, want 6 calls with 8 looks each: %q", n, got.Waits)
	}
	if came["tasks/get t"]+came["tasks/get"] != 40 || strings.Join(got.Polls, "") != strings.Repeat("Method not found", 40) {
		t.Errorf("not all 40 polls came: %q", got.Polls)
	}
	if n := came["tools/call lookup_order"]; n >= 30 || len(got.Repeats) != n+1 || !strings.Contains(last, "repetition_detected") {
		t.Errorf("a call that is the same each time was made %d times, and then: %q", n, last)
	}
}

// probeWriter keeps the status alone.
type probeWriter struct {
	header http.Header
	status int
}

func (p *probeWriter) Header() http.Header         { return p.header }
func (p *probeWriter) Write(b []byte) (int, error) { return len(b), nil }
func (p *probeWriter) WriteHeader(status int)      { p.status = status }
