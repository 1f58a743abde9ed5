package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSecondPerson holds that a stop that waits for a second person is a finding, and is listed with all that it
// says until another person confirms it.
func TestSecondPerson(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ann, bob := file("ann", strings.Repeat("secret-ann", 4)), file("bob", strings.Repeat("secret-bob", 4))
	settings := file("switch.yaml", "two-persons: [all]\n")
	if code, _, errs := weir(t, "", "run", "--in-memory", "--switch-file", settings); code == 0 || !strings.Contains(errs, "two-persons needs --access-file with at least two principals that may stop") {
		t.Errorf("without an access file: exit code %d, %s", code, errs)
	}
	access := file("access.yaml", fmt.Sprintf("ann: {token-file: %s, roles: [operate, observe]}\nbob: {token-file: %s, roles: [operate, observe]}\n", ann, bob))
	r := startRun(t, "--in-memory", "--access-file", access, "--switch-file", settings)
	defer r.end(syscall.SIGTERM)
	f := func(code int, token string, parts []string, args ...string) string {
		t.Helper()
		got, out, errs := weir(t, "", append(args, "--server", r.url, "--token-file", token)...)
		if got != code {
			t.Errorf("weir %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, errs)
		}
		for _, part := range parts {
			if !strings.Contains(out+errs, part) {
				t.Errorf("weir %s: %q is not in\n%s%s", strings.Join(args, " "), part, out, errs)
			}
		}
		return out
	}
	f(3, ann, []string{"is not stopped yet"}, "stop", "all", "--reason", "a test", "--for", "2h", "--except", "agent:billing")
	f(3, ann, []string{"is not stopped yet"}, "stop", "all", "--reason", "another", "--wait", "10s")
	f(3, ann, []string{"is not stopped yet"}, "flows", "stop", "--all", "--reason", "a third")
	f(0, bob, []string{"all except agent:billing", "waits", "for 2h0m0s", "ann", "a test", "weir orders confirm"}, "orders", "ls")
	var line struct {
		ID, Reason string
		Except     []string
		ForS       int64 `json:"for_s"`
		Waits      bool  `json:"waits_for_second_person"`
	}
	first, _, _ := strings.Cut(f(0, bob, nil, "orders", "ls", "-o", "json"), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || !line.Waits || line.Reason != "a test" || line.ForS != 7200 || len(line.Except) != 1 {
		t.Errorf("%s: %+v, %v", first, line, err)
	}
	f(0, bob, []string{"is stopped until"}, "orders", "confirm", line.ID)
	if out := f(0, bob, []string{"stopped"}, "orders", "ls"); strings.Contains(out, "waits") {
		t.Errorf("a proposal that is void is listed: %s", out)
	}
}

// TestOrdersOfAnOlderWeir lists orders where the stops that wait cannot be read: an older weir has none, and any
// other answer is an error.
func TestOrdersOfAnOlderWeir(t *testing.T) {
	for status, code := range map[int]int{http.StatusNotFound: 0, http.StatusForbidden: 1, http.StatusInternalServerError: 1} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/orders" {
				_, _ = w.Write([]byte(`{"orders":[]}`))
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"detail":"the reason"}`))
		}))
		got, _, errs := weir(t, "", "orders", "ls", "--server", server.URL)
		server.Close()
		if got != code || strings.Contains(errs, "the reason") != (code != 0) {
			t.Errorf("where the stops that wait are answered by %d: exit code %d, want %d\n%s", status, got, code, errs)
		}
	}
}
