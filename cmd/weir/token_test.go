package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Commands that ask a weir without the token that it wants say by which flag to give it.
func TestCommandsNameTheTokenFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, wrong := filepath.Join(dir, "token"), filepath.Join(dir, "wrong")
	for path, secret := range map[string]string{token: strings.Repeat("secret", 8), wrong: strings.Repeat("public", 8), filepath.Join(dir, "access.yaml"): "ann: {token-file: token, roles: admin}\n"} {
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := startRun(t, "--in-memory", "--access-file", filepath.Join(dir, "access.yaml"))
	defer r.end(syscall.SIGTERM)
	for _, args := range [][]string{{"backup", filepath.Join(dir, "b")}, {"flows", "ls"}, {"orders", "ls"}, {"agents", "ls"}, {"budgets", "ls"}, {"costs"}, {"explain", "f"}, {"flows", "stop", "f", "--reason", "r"}} {
		for _, more := range [][]string{nil, {"--token-file", wrong}} {
			code, _, errs := weir(t, "", append(append(args[:len(args):len(args)], "--server", r.url), more...)...)
			if code != 1 || !strings.Contains(errs, "give the file with it: --token-file FILE, or WEIR_TOKEN_FILE") || strings.Contains(errs, "Bearer") {
				t.Errorf("weir %v %v: exit code %d\n%s", args, more, code, errs)
			}
		}
	}
	code, out, errs := weir(t, "", "access", "whoami", "--server", r.url, "--token-file", token)
	if !regexp.MustCompile(`^you are +ann\nroles +(ingest|ask|observe|operate|admin) +[a-z, ]+\n`).MatchString(out) || code != 0 {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}
