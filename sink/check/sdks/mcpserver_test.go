package sdks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestClientsOfTheMCPServer has the official clients of MCP call tools of weir mcp, on its standard
// streams and by HTTP, and prints what each got.
func TestClientsOfTheMCPServer(t *testing.T) {
	dir := folder(t)
	token := strings.Repeat("intake00", 5)
	file := filepath.Join(t.TempDir(), "intake")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := weirtest.Run(t, "--in-memory", "--intake-token-file", file)
	loop(t, weir.URL, token)
	byHTTP := weirtest.Start(t, weirtest.Options{}, "mcp", "--server", weir.URL, "--http", "127.0.0.1:0")
	line := byHTTP.Await("MCP: ")
	address := strings.TrimSuffix(strings.Fields(line[strings.Index(line, "MCP: "):])[1], ",")
	stdio := []string{"stdio", weirtest.Binary(t), "mcp", "--server", weir.URL, "--token-file", file, "--agent", "writer"}
	python, node := filepath.Join(dir, "python", "bin", "python"), filepath.Join(dir, "node")
	calls := `{"name":"why_was_i_stopped","arguments":{"flow_id":"loop"}}
{"name":"leave_note","arguments":{"summary":"its key is lost","tags":["keys"],"agent_id":"writer"}}
{"name":"search_knowledge_graph","arguments":{"tags":["keys"]}}
{"name":"admin_rescue_agent","arguments":{"agent_id":"writer","reason":"x","by":"ann"}}
`
	var table strings.Builder
	for _, sdk := range [][]string{{python, "testdata/tools.py"}, {"node", "testdata/tools.mjs", node, "@modelcontextprotocol/sdk"}, {"node", "testdata/tools.mjs", node, "@modelcontextprotocol/client"}} {
		for _, place := range [][]string{stdio, {"http", address, token}} {
			run := exec.CommandContext(t.Context(), sdk[0], append(sdk[1:len(sdk):len(sdk)], place...)...)
			run.Stdin = strings.NewReader(calls)
			run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}
			var errs strings.Builder
			run.Stderr = &errs
			out, err := run.Output()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if err != nil || len(lines) != 6 {
				t.Errorf("%v %s: %v, %d lines: %s%s", sdk, place[0], err, len(lines), out, errs.String())
				continue
			}
			var tools []string
			if err := json.Unmarshal([]byte(lines[1]), &tools); err != nil || len(tools) != 13 {
				t.Errorf("%s lists the tools %s", lines[0], lines[1])
			}
			for i, want := range []string{"Flow loop is stopped", "Noted about writer by writer", "its key is lost", "admin token"} {
				text, failed := said(t, lines[2+i])
				if !strings.Contains(text, want) || failed != (i == 3) {
					t.Errorf("%s: %q, failed %v; want %q", lines[0], text, failed, want)
				}
				fmt.Fprintf(&table, "\n%-46s %.100s", lines[0], strings.ReplaceAll(text, "\n", " / "))
			}
		}
	}
	t.Log(table.String())
}

// said is the text of a result, and whether it says that the call failed.
func said(t *testing.T, line string) (text string, failed bool) {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
		IsError bool
		Value   json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal([]byte(line), &result); err != nil || len(result.Content) == 0 || !result.IsError && len(result.Value) == 0 {
		t.Errorf("a result is %.300s: %v", line, err)
		return "", false
	}
	return result.Content[0].Text, result.IsError
}

// loop sends calls of a tool with the same result until weir stops the flow.
func loop(t *testing.T, url, token string) {
	t.Helper()
	var body strings.Builder
	now := time.Now().Add(-time.Minute)
	for i := range 12 {
		at := func(more int) string {
			return now.Add(time.Duration(2*i+more) * time.Second).UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&body, `{"id":"c%d","time":%q,"source":"test","kind":"tool.call","correlation_id":"loop","from":{"agent":"writer"},"tool":{"name":"lookup","call_id":"t%d","args_hash":"xxh64:0123456789abcdef"}}`+"\n", i, at(0), i)
		fmt.Fprintf(&body, `{"id":"r%d","time":%q,"source":"test","kind":"tool.result","correlation_id":"loop","from":{"agent":"writer"},"tool":{"name":"lookup","call_id":"t%d"},"content_hash":"xxh64:0123456789abcdef","status":"ok"}`+"\n", i, at(1), i)
	}
	q, err := http.NewRequest(http.MethodPost, url+"/v1/events", strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-ndjson")
	q.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("HTTP %d", resp.StatusCode)
	}
	for { // folding is a moment later
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/flows/loop", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		var view struct{ Status string }
		err = json.NewDecoder(resp.Body).Decode(&view)
		resp.Body.Close()
		if err == nil && view.Status == "stopped" {
			return
		}
	}
}
