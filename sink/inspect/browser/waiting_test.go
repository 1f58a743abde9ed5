package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShowsWhatWaits holds a flow at its limit: the first page lists it without a reload, with its link and the
// tier that was asked, and no longer when the flow is granted more.
func TestShowsWhatWaits(t *testing.T) {
	const token = "admin-0123456789012345678901234567890ab"
	slack := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(slack.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w, b := start(t, "--admin-token-file", file("token", token),
		"--limits", file("limits.yaml", "profile: none\nrules: {max_tool_calls: {max: 2, action: hold}}\n"),
		"--switch-file", file("switch.yaml", "approvals: {url: https://weir.example, grant: 10, tiers: [{name: ops, wait: 1h, slack: \""+slack.URL+"\"}]}\n")), openTab(t)
	b.open(w.url + "/ui/")
	b.until(`document.querySelector(".cards dd")?.textContent === "0"`) // it is opened before the first event
	for i := range 3 {
		body := fmt.Sprintf(`{"kind":"tool.call","correlation_id":"f <1>","from":{"agent":"planner"},"tool":{"name":"search","call_id":"c%d"}}`, i)
		resp, err := http.Post(w.url+"/v1/check", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := []int{200, 200, 402}[i]; err != nil || resp.StatusCode != want {
			t.Fatalf("call %d is answered by %d: %s", i, resp.StatusCode, answer)
		}
	}
	const listed = `document.querySelector("section[aria-labelledby=waiting]")`
	b.until(listed + `?.querySelector("a[href='/ui/flow?id=f%20%3C1%3E']")?.innerText === "f <1>"`)
	b.until(listed + `?.innerText.includes("tier 1 asked")`)
	b.shoot("waiting")
	if axe, err := os.ReadFile(*axeFile); err == nil {
		b.accessible("what waits", axe)
	}
	req, err := http.NewRequest(http.MethodPost, w.url+"/v1/flows/f%20%3C1%3E/grant", strings.NewReader(`{"calls":10,"for_s":600,"reason":"it is honest","by":"ann"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatal(resp, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	b.until(listed + ` === null`)
	b.quiet("what waits")
}
