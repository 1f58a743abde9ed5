package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// pageBlock returns the fenced block of the section about approvals that has a text, without indentation.
func pageBlock(t *testing.T, kind, has string) string {
	t.Helper()
	page, err := os.ReadFile("OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Approvals\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for {
		_, rest, ok := strings.Cut(section, "```"+kind+"\n")
		if !ok {
			t.Fatalf("the section has no block of %s with %q", kind, has)
		}
		block, after, _ := strings.Cut(rest, "```")
		if section = after; strings.Contains(block, has) {
			return regexp.MustCompile("(?m)^   ").ReplaceAllString(block, "")
		}
	}
}

// TestApprovalsPage follows the page: the settings are valid, a flow is held, the message comes, the link is
// opened, and the flow goes on.
func TestApprovalsPage(t *testing.T) {
	t.Parallel()
	messages := make(chan string, 10)
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		messages <- string(body)
	}))
	defer slack.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("slack.url", slack.URL+"\n")
	settings := write("switch.yaml", pageBlock(t, "yaml", "approvals:"))
	limits := write("limits.yaml", strings.Replace(pageBlock(t, "yaml", "max_tool_calls"), "max: 300", "max: 2", 1))
	token := write("admin.token", strings.Repeat("t", 40))
	if code, out, errs := weir(t, "", "orders", "validate", settings); code != 0 || !strings.Contains(out, "is valid: 0 drills, 0 runtimes, 2 tiers of approvals\n  ops: 10m0s by Slack\n  lead: 20m0s by e-mail\n  then: deny\n") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := weir(t, "", "orders", "validate", write("wrong.yaml", "approvals: {url: x, tier: []}\n")); code == 0 || !strings.Contains(errs, "wrong.yaml:1:21") || !strings.Contains(errs, "did you mean tiers?") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	r := startRun(t, "--in-memory", "--limits", limits, "--switch-file", settings, "--admin-token-file", token)
	defer r.end(syscall.SIGTERM)
	ask := func(n string) int {
		t.Helper()
		body := `{"id":"m-` + n + `","time":"2026-11-20T14:00:04Z","kind":"tool.call","correlation_id":"f1","from":{"agent":"planner"},"tool":{"name":"search","call_id":"c-` + n + `","args_hash":"xxh64:000000000000000` + n + `"}}`
		resp, err := http.Post(r.url+"/v1/check", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if a, b, c := ask("1"), ask("2"), ask("3"); a != 200 || b != 200 || c != 402 {
		t.Fatalf("answered by %d, %d, %d", a, b, c)
	}
	var m struct {
		Blocks []struct{ Elements []struct{ URL string } }
	}
	if err := json.Unmarshal([]byte(<-messages), &m); err != nil {
		t.Fatal(err)
	}
	link := m.Blocks[len(m.Blocks)-1].Elements[0].URL
	link = r.url + strings.TrimPrefix(link, "https://weir.example.com")
	resp, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(page), "<button") {
		t.Fatalf("status %d: %s", resp.StatusCode, page)
	}
	if code, out, errs := weir(t, "", "approvals", "--server", r.url); code != 0 || !strings.Contains(out, "calls f1") && !strings.Contains(out, "flow f1") || !strings.Contains(out, "tier 1 asked") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if got := ask("4"); got != 402 {
		t.Errorf("opening the link lets a call pass: %d", got)
	}
	if resp, err = http.Post(link, "application/x-www-form-urlencoded", strings.NewReader("name=Ann")); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := ask("5"); resp.StatusCode != 200 || got != 200 {
		t.Errorf("the answer is %d, the next call %d", resp.StatusCode, got)
	}
	if code, out, errs := weir(t, "", "approvals", "--all", "--server", r.url); code != 0 || !strings.Contains(out, "approved by ") ||
		!strings.Contains(out, "calls f1") && !strings.Contains(out, "flow f1") || !strings.Contains(out, "held for a person") && !strings.Contains(out, "waits for a person") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
