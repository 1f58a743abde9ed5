// Package sdks holds refusals to what the official clients of language models, of MCP and of A2A,
// and the engine of n8n, make of them: who is told that waiting does not help must not try again.
package sdks

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/events"
	"weir/sink/check"
)

// installed is the variable that names the folder of install.sh.
const installed = "WEIR_SDKS"

// folder returns the folder of install.sh. Without one it skips the test.
func folder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(installed)
	if dir == "" {
		t.Skip("the SDKs are not installed; run: make sdks")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// refusal is what weir answers.
type refusal struct {
	name    string
	verdict events.Verdict
	before  bool // as it was answered before statuses said whether waiting helps
	retried bool // whether clients should try again
}

func refusals() []refusal {
	order := func(action events.Action, reason events.Reason, status int, retryAfter int64) events.Verdict {
		return events.Verdict{ID: "v", Mode: "enforce", Action: action, Reason: reason, HTTPStatus: status, RetryAfterS: retryAfter, ControlledCutoff: retryAfter == 0, Message: "no", AgentMessage: "n"}
	}
	budget, pattern, literal := order("halt", events.MaxCost, 402, 0), order("deny", events.PingPong, 403, 0), order("deny", events.MaxTurns, 429, 0)
	was := literal
	return []refusal{
		{"rate: 429, Retry-After", order("throttle", events.CallRate, 429, 1), false, true},
		{"budget before: 429", was, true, true},
		{"budget: 402", budget, false, false},
		{"pattern: 403", pattern, false, false},
		{"held: 402", order("hold", events.MaxCost, 402, 0), false, false},
		{"literal: 429", literal, false, false},
	}
}

// counted answers as a gateway that asks weir does, and counts the calls.
type counted struct {
	refusal refusal
	mu      sync.Mutex
	calls   int
	flows   map[string]bool // that calls said they were of
	asTool  bool            // calls of tools are refused by their result
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var rpc check.Message
	_ = json.Unmarshal(body, &rpc) // what is no JSON-RPC is the call of a model
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case rpc.Method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"test","version":"1"}}}`, rpc.ID)
		return
	case rpc.Method == "tools/list":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, rpc.ID)
		return
	case strings.HasPrefix(rpc.Method, "notifications/"):
		w.WriteHeader(http.StatusAccepted)
		return
	}
	c.mu.Lock()
	c.calls++
	c.flows[r.Header.Get("X-Correlation-Id")] = true
	c.mu.Unlock()
	format, call := check.Problem, (*check.Message)(nil)
	if c.asTool {
		format, call = check.AnyFormat, &rpc
	}
	reply := check.Refuse(&c.refusal.verdict, format, call)
	maps.Copy(w.Header(), reply.Header)
	if c.refusal.before {
		w.Header().Del("X-Should-Retry")
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body)
}

// TestRetries runs each SDK at each refusal. It prints a table of how often each tried
// again.
func TestRetries(t *testing.T) {
	dir := folder(t)
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-48s", "tried again")
	for _, r := range refusals() {
		fmt.Fprintf(&table, " | %s", r.name)
	}
	python, node := languages(dir)
	for _, language := range []struct {
		name    string
		command []string
	}{{"Python", python}, {"TypeScript", node}} {
		sdks := []string{"openai", "anthropic", "google", "mcp", "a2a"}
		if language.name == "TypeScript" {
			sdks = append(sdks, "mcp-client", "n8n")
		}
		for _, sdk := range sdks {
			t.Run(language.name+"_"+sdk, func(t *testing.T) {
				var refusing []*counted
				args := append(language.command[1:len(language.command):len(language.command)], sdk)
				for _, r := range refusals() {
					c := &counted{refusal: r, flows: map[string]bool{}}
					server := httptest.NewServer(c)
					defer server.Close()
					refusing, args = append(refusing, c), append(args, server.URL)
				}
				run := exec.CommandContext(t.Context(), language.command[0], args...) // one, because it takes long to load some of them
				var errs strings.Builder
				run.Stderr = &errs
				run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}
				out, err := run.Output()
				name, _, _ := strings.Cut(string(out), "\n")
				cells := ""
				for _, c := range refusing {
					r := c.refusal
					if err != nil || c.calls == 0 {
						t.Errorf("MISSING, or it did not call: %v, %d calls: %s%.2000s", err, c.calls, out, errs.String())
						return
					}
					cells += fmt.Sprintf(" | %*d", len(r.name), c.calls-1)
					if sdk == "n8n" {
						// It tries again whatever a node failed of. All tries are one execution,
						// so who names that as the flow has one budget for them.
						if c.calls != 3 || len(c.flows) != 1 {
							t.Errorf("%s: %d tries in the flows %v, want 3 in one", r.name, c.calls, c.flows)
						}
						continue
					}
					// Clients of language models know the header; others go by the status alone.
					knows := sdk == "openai" || sdk == "anthropic"
					if !r.retried && c.calls > 1 && (knows || r.verdict.HTTPStatus != http.StatusTooManyRequests) {
						t.Errorf("%s: tried again %d times, although waiting does not help", r.name, c.calls-1)
					}
					if r.retried && c.calls == 1 && knows {
						t.Errorf("%s: did not try again", r.name)
					}
				}
				fmt.Fprintf(&table, "\n%-48s%s", language.name+" "+name, cells)
			})
		}
	}
	t.Log(table.String())
}

// languages are how the SDKs of each are run.
func languages(dir string) (python, node []string) {
	return []string{filepath.Join(dir, "python", "bin", "python"), "testdata/retries.py"}, []string{"node", "testdata/retries.mjs", filepath.Join(dir, "node")}
}

// TestMCPClientsReadWhatIsLeft refuses a tool by its result, in which each client of MCP has to find
// the reason and what is left of the limits.
func TestMCPClientsReadWhatIsLeft(t *testing.T) {
	dir := folder(t)
	r := refusals()[2]
	r.verdict.Remaining = []events.Remaining{{RuleID: "max_tool_calls", Left: 0, Limit: 5, Unit: "calls"}}
	python, node := languages(dir)
	for _, command := range [][]string{append(python, "mcp"), append(node, "mcp"), append(node, "mcp-client")} {
		c := &counted{refusal: r, flows: map[string]bool{}, asTool: true}
		server := httptest.NewServer(c)
		defer server.Close()
		run := exec.CommandContext(t.Context(), command[0], append(command[1:], server.URL)...)
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}
		out, err := run.CombinedOutput()
		name, text, _ := strings.Cut(string(out), "\n")
		var result struct {
			IsError bool
			Meta    map[string][]events.Remaining `json:"_meta"`
		}
		if jerr := json.Unmarshal([]byte(text), &result); err != nil || jerr != nil || !result.IsError {
			t.Errorf("%s: %v, %v: %.2000s", name, err, jerr, text)
			continue
		}
		if left := result.Meta["weir/remaining"]; len(left) != 1 || left[0] != r.verdict.Remaining[0] || c.calls != 1 {
			t.Errorf("%s reads that %v are left, after %d calls: %s", name, left, c.calls, text)
		}
		t.Logf("%s reads %.400s", name, text)
	}
}
