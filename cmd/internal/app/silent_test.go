//go:build unix

package app

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestFilesThatDoNotAnswer puts pipes that no program writes to in the place of the files that
// weir reads again, as if their disk were unreachable: weir goes on by what it read before.
func TestFilesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	limits, token := limitsFile(t, "profile: balanced\n"), tokenFile(t, adminSecret)
	r := begin(t, Options{LimitsFile: limits, AdminTokenFile: token, Metrics: "127.0.0.1:0"})
	for _, path := range []string{limits, token} {
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		silent, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	reloaded := make(chan error, 1)
	go func() { reloaded <- r.Reload() }()
	answers := func() {
		t.Helper()
		r.want(r.do("GET", "/readyz", ""), 200)
		r.want(r.do("GET", "/v1/limits", ""), 200)
		r.want(r.do("POST", "/v1/flows/f/stop", `{"reason":"a test","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 202)
	}
	answers()
	err := <-reloaded
	for _, path := range []string{limits, token} {
		if err == nil || !strings.Contains(err.Error(), path+": no answer within") {
			t.Errorf("reload: %v; want a word on %s", err, path)
		}
	}
	answers()
	r.want(r.do("GET", "/v1/limits", ""), 200, "no answer within")
	r.stop() // without a wait for the files
}
