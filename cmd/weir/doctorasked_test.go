package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDoctorAsks has doctor ask for a weir where none runs, where another program answers, where TLS or the token is
// another one, and where all is well. Each line says what was found and what to do.
func TestDoctorAsks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	doctor := func(code int, args []string, wants ...string) {
		t.Helper()
		got, out, errs := weirNow(t, "", append([]string{"doctor", "--in-memory"}, args...)...)
		for _, want := range wants {
			if got != code || !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%q: exit code %d, want %d and %q in\n%s%s", args, got, code, want, out, errs)
			}
		}
	}
	// A port at which nothing listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	doctor(0, []string{"--listen", free}, `(?m)^warn running +nothing answers at http://`+free+` \(GET /readyz: connection refused\)\n +start weir: weir run; .*--server URL`)
	doctor(3, []string{"--server", free}, `fail running +nothing answers at http://`+free)
	doctor(0, []string{"--listen", "127.0.0.1:0"}, `ok   running +not asked: port 0`)

	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	doctor(3, []string{"--server", other.URL}, `fail running +what answers at `+other.URL+` is not weir \(GET /readyz: HTTP 404\)`, "another program has this port")

	secret := certified(t, "weir", time.Now().Add(900*time.Hour))
	byTLS := startRun(t, append(secret, "--in-memory", "--metrics", "", "--self-test", "0")...)
	defer byTLS.end(syscall.SIGTERM)
	host := strings.TrimPrefix(byTLS.url, "http://")
	doctor(0, []string{"--listen", host}, `warn running +http://`+host+` uses TLS, and was asked without`, "https://")
	doctor(3, []string{"--server", "https://" + host}, `fail running +the certificate at https://`+host+` is not trusted: `, "--ca-file FILE")
	for server, want := range map[string]string{"http://" + host: "uses TLS", "https://" + host: "weir doctor --server https://" + host} {
		if code, _, errs := weirNow(t, "", "flows", "ls", "--server", server); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, want 1 and %q: %s", server, code, want, errs)
		}
	}
	doctor(0, []string{"--server", "https://" + host, "--ca-file", secret[1]}, `ok   running +a weir runs at https://`+host)

	access := write("access.yaml", fmt.Sprintf("ann: {token-sha256: %s, roles: [observe]}\nbob: {token-sha256: %s, roles: [ask]}\n", sum("secret of ann"), sum("secret of bob")))
	closed := startRun(t, "--in-memory", "--metrics", "", "--self-test", "0", "--access-file", access)
	defer closed.end(syscall.SIGTERM)
	at := strings.TrimPrefix(closed.url, "http://")
	doctor(3, []string{"--server", "https://" + at}, `fail running +https://`+at+` does not use TLS`)
	doctor(0, []string{"--server", closed.url}, `warn access +the weir at .* requires a token \(HTTP 401 without one\)\n +give one: --token-file FILE`)
	doctor(0, []string{"--listen", at, "--token-file", write("ann", "secret of ann\nsecret of before\n")}, `ok   access +.* knows the token in .*ann: ann; roles: observe`, `ok   limits +profile balanced, version \S+ in force at `+at+`, too`)
	doctor(0, []string{"--listen", at, "--token-file", write("bob", "secret of bob")}, `ok   access +.* bob; roles: ask`, `ok   sources +the weir at `+at+` shows what its sources do not report to the role observe alone`)
	doctor(3, []string{"--listen", at, "--token-file", write("eve", "secret of eve")}, `fail access +the weir at .* does not know the token in .*eve \(HTTP 401\)`)
	limits := write("limits.yaml", "profile: none\n")
	tokens := startRun(t, "--in-memory", "--metrics", "", "--self-test", "0", "--intake-token-file", write("intake", strings.Repeat("secret", 8)), "--limits", limits)
	defer tokens.end(syscall.SIGTERM)
	doctor(0, []string{"--server", tokens.url}, `warn access +.* accepts clients like this one without a token, but no checks of theirs; roles: observe\n +give programs a token`)
	write("limits.yaml", "profile: nothing\n")
	tokens.signals <- syscall.SIGHUP
	tokens.stderr.await(t, "the limits stay as they were", tokens.ended)
	doctor(3, []string{"--server", tokens.url, "--limits", limits}, `fail limits +.*limits.yaml`, `warn limits +the weir at .* did not take up its changed limits, and keeps version xxh64:`)
	doctor(3, []string{"--listen", at, "--token-file", filepath.Join(folder, "none")}, `fail running +the token: .*none: no such file`)
}

func sum(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}
