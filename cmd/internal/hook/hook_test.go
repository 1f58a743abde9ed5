package hook_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/cmd/internal/hook"
	"weir/sink/check"
)

// TestForeignServers sends checks to programs that are no weir, and answer as if all were well: such an
// answer allows nothing.
func TestForeignServers(t *testing.T) {
	const use = `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`
	f := func(what string, serve http.HandlerFunc, says string) {
		t.Helper()
		s := httptest.NewServer(serve)
		defer s.Close()
		for _, closed := range []bool{false, true} {
			var out, errs bytes.Buffer
			code, err := hook.Run(t.Context(), hook.Server{URL: s.URL, Closed: closed}, strings.NewReader(use), &out, &errs)
			refused := strings.Contains(out.String(), `"permissionDecision":"deny"`)
			if err != nil || code != 0 || refused != (closed && says != "") || !closed && !strings.Contains(errs.String(), says) {
				t.Errorf("%s, closed %v: code %d, %v, %q, %q", what, closed, code, err, &out, &errs)
			}
		}
	}
	f("a server that answers everything with an object", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, "is no weir")
	f("a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "is no weir")
	f("a redirect to a page", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}, "is no weir")
	f("no such page", http.NotFound, "HTTP 404")
	f("half an answer of a weir", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(check.HookHeader, "1")
		_, _ = io.WriteString(w, `{"decision":`)
	}, "unexpected end")
	f("a weir that allows", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(check.HookHeader, "1")
		_, _ = io.WriteString(w, "{}")
	}, "")
}
