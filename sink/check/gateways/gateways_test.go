//go:build linux

// Package gateways holds weir to the gateways that ask it: the real programs, each with
// the configuration in testdata, which is what their users copy.
package gateways

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/cmd/weirtest"
	real "weir/cmd/weirtest/gateway"
)

// binaries is the folder that install.sh has filled.
const binaries = "WEIR_GATEWAYS"

// program returns the path of a gateway.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(binaries)
	if dir == "" {
		t.Skipf("MISSING: %s, the folder that install.sh fills; run: make gateways", binaries)
	}
	path, err := filepath.Abs(filepath.Join(dir, "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("MISSING: %s; NOT TESTED behind it", name)
	}
	return path
}

// process is a program that runs until the test ends.
func process(t *testing.T, path string, args ...string) *bufio.Scanner {
	t.Helper()
	_, lines := spawn(t, path, args...)
	return lines
}

// spawn is process for those who do more to it than to read what it says.
func spawn(t *testing.T, path string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(path, args...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	return cmd, bufio.NewScanner(out)
}

// ports are what a gateway is configured with, and the weir behind it.
type ports struct {
	real.Settings

	binary string
	weir   *weirtest.Weir
}

// build builds weir.
func build(t *testing.T) (binary string) {
	t.Helper()
	if os.Getenv(binaries) == "" {
		program(t, "") // says what is missing
	}
	return weirtest.Binary(t)
}

// startWeir runs weir with limits.
func startWeir(t *testing.T, binary, limits string) (p ports) {
	t.Helper()
	p.Folder, p.Weir, p.GRPC, p.binary = t.TempDir(), "0", "0", binary
	p.limit(t, limits)
	p.run(t)
	return p
}

// limit writes the limits that weir goes by.
func (p *ports) limit(t *testing.T, limits string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.Folder, "limits.yaml"), []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts weir where it was, or on any ports.
func (p *ports) run(t *testing.T) {
	t.Helper()
	p.weir = weirtest.RunWith(t, weirtest.Options{Binary: p.binary}, "--listen", "127.0.0.1:"+p.Weir, "--authz", "--authz-grpc", "127.0.0.1:"+p.GRPC,
		"--limits", filepath.Join(p.Folder, "limits.yaml"), "--state", filepath.Join(p.Folder, "state"))
	_, p.GRPC, _ = net.SplitHostPort(p.weir.Address("gateways are answered by gRPC"))
	_, p.Weir, _ = net.SplitHostPort(strings.TrimPrefix(p.weir.URL, "http://"))
}

// gateway is a program that stands before the tools.
type gateway struct {
	name   string
	start  func(t *testing.T, p *ports) *bufio.Scanner
	body   bool // it sends bodies along
	intact bool // a refusal's body comes through as weir wrote it
	path   string
	closed bool
}

func all() []gateway {
	starts := func(g real.Program) func(*testing.T, *ports) *bufio.Scanner {
		return func(t *testing.T, p *ports) *bufio.Scanner {
			path := program(t, g.Name)
			args, err := g.Configure("testdata", &p.Settings)
			if err != nil {
				t.Fatal(err)
			}
			return process(t, path, args...)
		}
	}
	return []gateway{
		{"envoy by gRPC", starts(real.Envoy), true, true, "/bare/mcp", false},
		{"envoy by HTTP", starts(real.EnvoyHTTP), true, true, "/mcp", false},
		{"traefik", starts(real.Traefik), true, true, "/mcp", false},
		{"caddy", starts(real.Caddy), false, true, "/mcp", false},
		{"nginx", starts(real.Nginx), false, false, "/mcp", false},
	}
}

// client calls tools through a gateway.
type client struct {
	denied int // the status of a refusal; 0 is 429, as the profile gateway says it
	*testing.T
	gateway
	url  string
	hits *atomic.Int64 // of the tools
	weir *ports
	n    int
}

// call calls a tool once and returns what the client sees.
func (c *client) call(session, turn, tool, args string) (int, string, http.Header) {
	c.Helper()
	c.n++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"q":%q}}}`, c.n, tool, args)
	r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+c.path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", session)
	if turn != "" {
		r.Header.Set("X-Goal-Turn", turn)
	}
	if !c.body {
		sum := sha256.Sum256([]byte(args))
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", tool)
		r.Header.Set("X-Args-Hash", "sha256:"+hex.EncodeToString(sum[:]))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

func (c *client) passes(session, turn, tool, args string) {
	c.Helper()
	before := c.hits.Load()
	if status, text, _ := c.call(session, turn, tool, args); status != 200 || text != "tool" || c.hits.Load() != before+1 {
		c.Errorf("%s %s %s: %d %s, want it to pass", session, tool, args, status, text)
	}
}

func (c *client) refused(session, turn, tool, args, want string) {
	c.Helper()
	before := c.hits.Load()
	status, text, header := c.call(session, turn, tool, args)
	if c.hits.Load() != before {
		c.Errorf("%s %s %s: the tool was called", session, tool, args)
	}
	if !c.intact { // only what the gateway's own configuration writes
		want, _, _ = strings.Cut(want, ",")
	}
	if status != cmp.Or(c.denied, http.StatusTooManyRequests) || !strings.HasPrefix(text, want) || !json.Valid([]byte(text)) || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		c.Errorf("%s %s %s: %d %s %s, want %s", session, tool, args, status, header.Get("Content-Type"), text, want)
	}
}

// ready waits until the gateway passes requests on that are no calls.
func (c *client) ready(lines *bufio.Scanner) {
	c.Helper()
	ended := make(chan string, 1)
	go func() {
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		ended <- strings.Join(said, "\n")
	}()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/.well-known/ready", nil)
		if err != nil {
			c.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				c.hits.Store(0)
				return
			}
		}
		select {
		case text := <-ended:
			c.Fatalf("the gateway ended: %s", text)
		case <-ctx.Done():
			c.Fatal("the gateway is not ready in time")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// through starts weir and the gateway before a tool.
func through(t *testing.T, g gateway, binary, limits string) *client {
	t.Helper()
	hits := new(atomic.Int64)
	return throughTo(t, g, binary, limits, hits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		_, _ = io.WriteString(w, "tool")
	}))
}

func throughTo(t *testing.T, g gateway, binary, limits string, hits *atomic.Int64, tool http.Handler) *client {
	t.Helper()
	tools := httptest.NewServer(tool)
	t.Cleanup(tools.Close)
	p := startWeir(t, binary, limits)
	p.Closed, p.Users = g.closed, real.Users("alice", "bob", "carol", "dave", "erin", "frank")
	_, p.Tools, _ = net.SplitHostPort(tools.Listener.Addr().String())
	p.Listen = weirtest.Port(t)
	c := &client{T: t, gateway: g, url: "http://127.0.0.1:" + p.Listen, hits: hits, weir: &p}
	c.ready(g.start(t, &p))
	return c
}

// TestScenarios plays the four scenarios of the gateway system through each gateway.
func TestScenarios(t *testing.T) {
	binary := build(t)
	for _, g := range all() {
		t.Run(strings.ReplaceAll(g.name, " ", "_"), func(t *testing.T) {
			c := through(t, g, binary, "profile: gateway\n")
			for i := range 5 {
				c.passes("s1", "1", "search", fmt.Sprint(i))
			}
			for i := range 10 {
				c.passes("s2", fmt.Sprint(i/4), "search", fmt.Sprint(i))
			}
			c.refused("s2", "2", "search", "10", `{"reason_code":"max_tool_calls_exceeded","limit":10,"observed":11,"session":"s2","tool":"search"`)
			for i, tool := range []string{"search", "fetch", "calculate", "search"} {
				c.passes("s3", "", tool, fmt.Sprint(i))
			}
			c.refused("s3", "", "fetch", "4", `{"reason_code":"max_chain_depth_exceeded","limit":4,"observed":5,"session":"s3","tool":"fetch"`)
			c.passes("s4", "1", "search", "same")
			c.refused("s4", "1", "search", "same", `{"reason_code":"repetition_detected"`)
			if n := c.hits.Load(); n != 20 {
				t.Errorf("the tools were called %d times, want 20", n)
			}
		})
	}
}

// TestSoftRefusal sees a refusal that the model reads come through Envoy.
func TestSoftRefusal(t *testing.T) {
	g := all()[0]
	g.path = "/mcp"
	c := through(t, g, build(t), "profile: none\nrules: {max_tool_calls: {max: 1}}\n")
	c.passes("s", "1", "search", "0")
	status, text, header := c.call("s", "1", "search", "1")
	var answer struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Type, Text string }
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 || answer.ID != 2 || !answer.Result.IsError ||
		header.Get("Content-Type") != "application/json" || !strings.HasPrefix(answer.Result.Content[0].Text, "The call was refused by the flow guard") {
		t.Errorf("%d %v %s (%v)", status, header, text, err)
	}
	if n := c.hits.Load(); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}
