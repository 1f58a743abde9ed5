package app

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/api"
	"weir/cmd/internal/pump/pumptest"
)

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	adminSecret  = "admin-0123456789012345678901234567890"
	intakeSecret = "intake-0123456789012345678901234567890"
)

func TestAccess(t *testing.T) {
	event := lines(call("f", 1, "a", "b"))
	open := begin(t, Options{Authz: true})
	tokens := begin(t, Options{Authz: true, AdminTokenFile: tokenFile(t, adminSecret), IntakeTokenFile: tokenFile(t, intakeSecret)})
	f := func(r *running, method, path, body, token string, status int) {
		t.Helper()
		var header []string
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		got := r.do(method, path, body, header...)
		r.want(got, status)
		if status >= 400 {
			r.want(got, status, `"title":"`, `"detail":"`)
			if got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: content type %s", method, path, got.header.Get("Content-Type"))
			}
		}
		if status == 401 && got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: no WWW-Authenticate", method, path)
		}
		if status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", method, path)
		}
	}
	f(open, "POST", "/v1/events", event, "", 202)
	f(open, "POST", "/-/reload", "", "", 403)
	f(open, "POST", "/-/reload", "", adminSecret, 403)
	for _, token := range []string{"", "wrong", adminSecret[:36]} {
		f(tokens, "POST", "/v1/events", event, token, 401)
		f(tokens, "POST", "/v1/check", event, token, 401)
		f(tokens, "POST", "/-/reload", "", token, 401)
	}
	f(tokens, "POST", "/-/reload", "", intakeSecret, 401)
	f(tokens, "POST", "/-/reload", "", adminSecret, 200)
	f(tokens, "POST", "/v1/events", event, intakeSecret, 202)
	f(tokens, "POST", "/v1/events", event, adminSecret, 202)
	f(tokens, "GET", "/v1/flows", "", "", 200)
	f(tokens, "GET", "/healthz", "", "", 200)

	f(open, "GET", "/nothing", "", "", 404)
	f(open, "GET", "/v1", "", "", 404)
	f(open, "GET", "/v1/flows/x/y/z", "", "", 404)
}

func TestHosts(t *testing.T) {
	r := begin(t, Options{Hosts: []string{"weir.internal"}})
	f := func(host string, status int) {
		t.Helper()
		r.want(r.do("GET", "/healthz", "", "Host", host), status)
	}
	f("localhost", 200)
	f("LOCALHOST:8080", 200)
	f("127.0.0.1:1", 200)
	f("[::1]:8080", 200)
	f("weir.internal", 200)
	f("weir.internal.:80", 200)
	f("evil.example", 421)
	f("localhost.evil.example", 421)
	f("127.0.0.1.evil.example:8080", 421)
	r.want(r.do("POST", "/v1/events", "{}", "Sec-Fetch-Site", "cross-site"), 403, "another origin")
	r.want(r.do("POST", "/v1/events", "{}", "Origin", "http://evil.example"), 403, "another origin")
	r.want(r.do("POST", "/v1/events", "{}", "Sec-Fetch-Site", "same-origin"), 400)
}

// TestExportersByGRPC answers clients that send OTLP by gRPC to the port of HTTP with what to set instead.
func TestExportersByGRPC(t *testing.T) {
	r := begin(t, Options{})
	r.want(r.do("POST", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "", "Content-Type", "application/grpc"), 415, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf") {
		t.Errorf("HTTP/2 in the clear is answered with %q, %v", answer, err)
	}
}

func TestCheck(t *testing.T) {
	r := begin(t, Options{})
	ask := func(flow string, n int, from, to string) reply {
		t.Helper()
		return r.do("POST", "/v1/check", string(call(flow, n, from, to).AppendJSON(nil)))
	}
	r.want(ask("f", 1, "a", "b"), 200, `{"verdict":{`, `"action":"allow"`)
	refused := r.do("POST", "/v1/check", string(pumptest.SelfCall("f", 2).AppendJSON(nil)))
	r.want(refused, 400, `"type":"urn:weir:reason:self_call"`, `"reason_code":"self_call"`, `"controlled_cutoff":true`, `"instance":"urn:weir:verdict:`)
	if refused.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("content type %s", refused.header.Get("Content-Type"))
	}
	// The same id again, as a dispatcher sends it that did not wait: the same answer,
	// and nothing more in the journal.
	before := len(r.journalLines())
	if again := r.do("POST", "/v1/check", string(pumptest.SelfCall("f", 2).AppendJSON(nil))); again.body != refused.body {
		t.Errorf("asked again: %s", again.body)
	}
	if got := len(r.journalLines()); got != before {
		t.Errorf("the journal has %d more records", got-before)
	}
	// A report with the id of a later check does not keep that check from being counted.
	r.want(r.do("POST", "/v1/events", lines(call("f", 3, "a", "c"))), 202)
	r.want(ask("f", 3, "a", "c"), 200, `"action":"allow"`)
	r.want(r.do("GET", "/v1/flows/f", ""), 200, `"events":4`)
	// Nothing refuses a user.
	user := call("f", 4, "", "b")
	r.want(r.do("POST", "/v1/check", string(user.AppendJSON(nil))), 200, `"action":"allow"`)
	r.want(r.do("POST", "/v1/check", "{"), 400, `"code":"syntax"`)
	r.want(r.do("POST", "/v1/check", `{"id":"1","time":"2026-11-20T14:00:00Z","kind":"flow.end","correlation_id":"f"}`), 422, "/v1/events")
	// Too many calls at once are refused with a time to wait.
	calls, last := 0, reply{status: 200}
	for ; last.status == 200 && calls < 100; calls++ {
		last = ask("rate", 10+calls, "a", "b")
	}
	if last.status != 429 || last.header.Get("Retry-After") == "" || !strings.Contains(last.body, `"action":"throttle"`) {
		t.Errorf("call %d: %d %s", calls, last.status, last.body)
	}
}

// waiting is how many checks wait for the fold.
func (r *running) waiting() int {
	return r.answers.Waiting()
}

func TestCheckTimesOut(t *testing.T) {
	r := begin(t, Options{})
	r.folded()
	release := r.pump().Hold() // the pump stands still
	done := make(chan reply)
	go func() { done <- r.do("POST", "/v1/check", lines(call("f", 1, "a", "b"))) }()
	for r.waiting() == 0 {
		<-r.fake.Asked()
	}
	r.passTime(func() {
		got := <-done
		r.want(got, 503, "takes too long")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
	release()
	if n := r.waiting(); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
	r.folded()
	r.want(r.do("POST", "/v1/check", lines(call("f", 1, "a", "b"))), 200, `"action":"allow"`)
}

func TestHealth(t *testing.T) {
	r := begin(t, Options{})
	r.folded()
	release := r.pump().Hold() // the pump hangs
	r.want(r.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
	r.fake.Advance(time.Hour)
	r.want(r.do("GET", "/healthz", ""), 503, `"ok":false`)
	release()
	r.folded()
	r.want(r.do("GET", "/healthz", ""), 200, `"ok":true`)
}

func TestReload(t *testing.T) {
	path := limitsFile(t, "profile: balanced\n")
	r := begin(t, Options{LimitsFile: path, AdminTokenFile: tokenFile(t, adminSecret)})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version := func() string {
		t.Helper()
		r.folded()
		var got api.LimitsAnswer
		r.get("/v1/limits", &got)
		if len(got.Document) == 0 || got.Profile == "" || got.Pending != "" {
			t.Errorf("limits %+v", got)
		}
		return got.Version
	}
	first := version()
	changes := func() (n int) {
		t.Helper()
		for _, line := range r.journalLines() {
			if strings.Contains(line, `"kind":"limits.set"`) {
				n++
			}
		}
		return n
	}
	if n := changes(); n != 1 {
		t.Fatalf("the journal was told of %d limits at the start", n)
	}
	// A bad file keeps the old limits and says so.
	write("profile: balanced\nmax_dept: 4\n")
	r.want(r.do("POST", "/-/reload", "", "Authorization", "Bearer "+adminSecret), 422, "max_dept")
	r.want(r.do("GET", "/v1/limits", ""), 200, `"ok":false`, "max_dept", first)
	r.want(r.do("GET", "/readyz", ""), 200, `"ok":false`, "max_dept")
	if got := version(); got != first {
		t.Errorf("version %s after a bad file, was %s", got, first)
	}
	// A good one is found by itself.
	write("profile: balanced\nrules:\n  self_call: {mode: off}\n")
	r.passTime(func() {
		for changes() < 2 {
			<-r.fake.Asked()
		}
	})
	r.untilDegraded(false) // hours may have passed while the fold came to one record
	second := version()
	if second == first {
		t.Error("the new limits are not in force")
	}
	r.want(r.do("GET", "/v1/limits", ""), 200, `"ok":true`)
	r.want(r.do("POST", "/v1/check", lines(selfCall("off", 1))), 200, `"action":"allow"`)
	// The old ones again, at once.
	write("profile: balanced\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := version(); got != first || changes() != 3 {
		t.Errorf("version %s after %d changes, want %s after 3", got, changes(), first)
	}
	r.want(r.do("POST", "/v1/check", lines(selfCall("on", 1))), 400, "self_call")
	// A file that is gone is a bad file.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.want(r.do("POST", "/-/reload", "", "Authorization", "Bearer "+adminSecret), 422, "no such file")
	if got := version(); got != first {
		t.Errorf("version %s without a file, was %s", got, first)
	}
}

// TestLimitsSurvive restarts with the same, then with other limits.
func TestLimitsSurvive(t *testing.T) {
	dir, path := t.TempDir(), limitsFile(t, "profile: balanced\nrules:\n  self_call: {mode: off}\n")
	count := func(r *running) (n int) {
		for _, line := range r.journalLines() {
			if strings.Contains(line, `"kind":"limits.set"`) {
				n++
			}
		}
		return n
	}
	for i, want := range []struct{ changes, status int }{{1, 200}, {1, 200}, {2, 400}, {2, 400}} {
		if i == 2 {
			if err := os.WriteFile(path, []byte("profile: balanced\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := begin(t, Options{StateDir: dir, LimitsFile: path})
		r.want(r.do("POST", "/v1/check", lines(pumptest.SelfCall("f", i))), want.status)
		if n := count(r); n != want.changes {
			t.Errorf("start %d: %d limits in the journal, want %d", i, n, want.changes)
		}
		r.stop()
	}
}

func TestStream(t *testing.T) {
	r := begin(t, Options{})
	for i := range 3 {
		r.want(r.do("POST", "/v1/events", lines(selfCall(fmt.Sprint("f", i), i))), 202)
	}
	r.folded()
	all := r.verdictLines()
	if len(all) < 3 {
		t.Fatalf("verdicts %q", all)
	}
	if got := r.do("GET", "/v1/verdicts", "").header.Get("Weir-Next"); got != fmt.Sprint(len(all)) {
		t.Errorf("Weir-Next %q of %d", got, len(all))
	}
	f := func(query string, want ...string) {
		t.Helper()
		got := r.do("GET", "/v1/verdicts"+query, "")
		r.want(got, 200)
		if got.body != strings.Join(append(slices.Clone(want), ""), "\n") {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	f("?since=1", all[1:]...)
	f("?since=-1", all[len(all)-1])
	f("?since=-100", all...)
	f("?since=now")
	f("?flow=f1", all[1])
	f("?flow=none")
	r.want(r.do("GET", "/v1/verdicts?since=99", ""), 400, "not a position")
	r.want(r.do("GET", "/v1/verdicts?since=x", ""), 400, "not a position")
	r.want(r.do("GET", "/v1/verdicts", "", "Last-Event-ID", "99"), 400, "not a position")

	// A stream that is cut and resumed misses nothing.
	stream := r.follow("/v1/verdicts", "Accept", "text/event-stream")
	stream.until("id: 1")
	stream.cancel()
	resumed := r.follow("/v1/verdicts", "Accept", "text/event-stream", "Last-Event-ID", "1")
	resumed.until("id: 2")
	if got := resumed.until("data: "); got != "data: "+all[2] {
		t.Errorf("resumed with %s", got)
	}
	r.want(r.do("POST", "/v1/events", lines(selfCall("f9", 9))), 202)
	resumed.until(`"correlation_id":"f9"`)
	plain := r.follow("/v1/verdicts?follow=1&since=now")
	r.want(r.do("POST", "/v1/events", lines(selfCall("f10", 10))), 202)
	plain.until(`"correlation_id":"f10"`)
	r.passTime(func() { resumed.until(": heartbeat") })
	// Streams do not hold up the end.
	r.stop()
	for plain.lines.Scan() {
	}
	for resumed.lines.Scan() {
	}
}

func TestStreamsAreLimited(t *testing.T) {
	r := begin(t, Options{Streams: 1})
	r.follow("/v1/verdicts", "Accept", "text/event-stream").until("retry")
	r.want(r.do("GET", "/v1/verdicts?follow=1", ""), 429, "viewers")
	r.want(r.do("GET", "/v1/verdicts", ""), 200)
}
