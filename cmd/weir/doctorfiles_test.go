package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"weir/state"
)

// TestDoctorFiles has doctor look at files, a state and a registry that are well, and at ones that are
// not.
func TestDoctorFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	doctor := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, "", append([]string{"doctor", "--listen", "127.0.0.1:0"}, args...)...)
		if got != code || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q: exit code %d, want %d and %s\n%s%s", args, got, code, want, out, errs)
		}
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(at("verdicts.jsonl"), "")
	write(at("orders"), "not an order\n")
	doctor(0, "ok   verdicts +.* can be written to", "--in-memory", "--verdict-file", at("verdicts.jsonl"))
	doctor(0, "ok   verdicts +.* can be created", "--in-memory", "--verdict-file", at("new"))
	doctor(3, "fail verdicts .*no such file", "--in-memory", "--verdict-file", at("no/where"))
	doctor(3, "fail verdicts .*is a folder", "--in-memory", "--verdict-file", dir)
	doctor(3, "fail orders .*orders:1: ", "--in-memory", "--orders-file", at("orders"))
	doctor(0, "ok   orders .*can be created", "--in-memory", "--orders-file", at("new"))

	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "weir" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`["AVRO"]`))
	}))
	defer registry.Close()
	doctor(3, "fail schemas .*401", "--in-memory", "--schema-registry", registry.URL)
	doctor(0, "ok   schemas .*answers", "--in-memory", "--schema-registry", registry.URL, "--schema-registry-user", "weir")

	folder := at("state")
	s, err := state.Open(folder, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(&state.Checkpoint{Partition: 1, State: []byte(strings.Repeat("state", 100))}); err != nil {
		t.Fatal(err)
	}
	doctor(0, "warn records +a weir runs with .*, but none answers at 127.0.0.1:0", "--state", folder)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	doctor(0, "ok   records +all records and logs", "--state", folder)
	tables, err := filepath.Glob(filepath.Join(folder, "badger", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	text, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/3] ^= 1
	write(tables[0], string(text))
	doctor(3, "fail records .*damaged", "--state", folder)
}

// TestDoctorBesideWeir runs doctor beside a weir with limits of its own, with and without them.
func TestDoctorBesideWeir(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: none\nrules: {max_tool_calls: {max: 5}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// One that wants a token shows neither its limits nor what its sources lack.
	access := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(access, []byte("ann: {token-sha256: "+strings.Repeat("0a", 32)+", roles: [observe]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := startRun(t, "--in-memory", "--access-file", access)
	defer closed.end(syscall.SIGTERM)
	hidden := strings.TrimPrefix(closed.url, "http://")
	if code, out, errs := weirNow(t, "", "doctor", "--in-memory", "--listen", hidden); code != 0 || !strings.Contains(out, "warn access     the weir at "+hidden+" requires a token") || !strings.Contains(out, "the weir at "+hidden+" shows its own to a token alone") ||
		!strings.Contains(out, "the weir at "+hidden+" shows what its sources do not report to the role observe alone") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}

	r := startRun(t, "--in-memory", "--limits", limits)
	defer r.end(syscall.SIGTERM)
	at := strings.TrimPrefix(r.url, "http://")
	for _, x := range []struct {
		want string
		args []string
	}{
		{`warn limits +by the settings given here: profile balanced, version xxh64:\w+; in force at ` + at + `: profile none, version xxh64:\w+, from .*limits.yaml`, nil},
		{`ok   limits +profile none, version xxh64:\w+, in force at ` + at + `, too`, []string{"--limits", limits}},
	} {
		code, out, errs := weirNow(t, "", append([]string{"doctor", "--in-memory", "--listen", at}, x.args...)...)
		if running := "ok   running    a weir runs at " + at; code != 0 || !strings.Contains(out, running) || !regexp.MustCompile(x.want).MatchString(out) {
			t.Errorf("exit code %d, want %q and %q:\n%s%s", code, running, x.want, out, errs)
		}
	}
}
