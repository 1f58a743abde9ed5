package app

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/intake"
	"weir/events"
)

// secretOf is the token of a principal in these tests.
func secretOf(name string) string { return strings.Repeat(name+"-", 40)[:40] }

// people starts an app with principals; one line for each says what it may do.
func people(t *testing.T, o Options, may map[string]string) *running {
	t.Helper()
	o.AccessFile = writePeople(t, t.TempDir(), may)
	return begin(t, o)
}

// writePeople writes an access file and its tokens.
func writePeople(t *testing.T, dir string, may map[string]string) string {
	t.Helper()
	var text strings.Builder
	for name, what := range may {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secretOf(name)), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s: {token-file: %s, %s}\n", name, name, what)
	}
	path := filepath.Join(dir, "access.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *running) as(name, method, path, body string, header ...string) reply {
	r.t.Helper()
	if name != "" {
		header = append(header, "Authorization", "Bearer "+secretOf(name))
	}
	return r.do(method, path, body, header...)
}

// TestRoles asks everything by everybody, also on this machine without a name.
func TestRoles(t *testing.T) {
	r := people(t, Options{Authz: true}, map[string]string{"tom": "roles: ingest", "dan": "roles: ask", "eve": "roles: observe", "ann": "roles: operate", "root": "roles: admin"})
	event, order := lines(call("f", 1, "a", "b")), `{"reason":"a test"}`
	r.want(r.as("root", "POST", "/v1/events", event), 202)
	for _, x := range []struct{ method, path, body, who string }{
		{"POST", "/v1/events", event, "tom root"},
		{"POST", "/v1/notes", `{"author":"a","summary":"s"}`, "tom root"},
		{"POST", "/v1/traces", `{}`, "tom root"},
		{"POST", "/runs/batch", `{}`, "tom root"},
		{"GET", "/info", "", "tom eve ann root"},
		{"POST", "/v1/check", event, "dan root"},
		{"POST", "/v1/check/stream", event, "dan root"},
		{"POST", "/v1/asks", event, "dan root"},
		{"POST", "/v1/hook", `{}`, "dan root"},
		{"POST", "/authz/envoy", "", "dan root"},
		{"GET", "/v1/limits", "", "dan eve ann root"},
		{"GET", "/v1/verdicts", "", "dan eve ann root"},
		{"GET", "/v1/flows", "", "eve ann root"},
		{"GET", "/v1/flows/f", "", "eve ann root"},
		{"GET", "/v1/agents", "", "eve ann root"},
		{"GET", "/v1/deadletters", "", "eve ann root"},
		{"GET", "/v1/inspect/limits", "", "eve ann root"},
		{"POST", "/v1/inspect/play", "{}", "eve ann root"},
		{"POST", "/v1/flows/f/stop", order, "ann root"},
		{"POST", "/v1/inspect/release?flow=f", order, "ann root"},
		{"POST", "/v1/orders", `{"scope":"flow:none","reason":"a test"}`, "ann root"},
		{"POST", "/v1/agents/a/rescue", `{"admin":true,"reason":"r","by":"b"}`, "root"}, // of the senders who operates
		{"POST", "/-/reload", "", "root"},
		{"GET", "/healthz", "", "tom dan eve ann root nobody"},
	} {
		for _, who := range []string{"tom", "dan", "eve", "ann", "root", "", "nobody"} {
			got := r.as(who, x.method, x.path, x.body)
			if x.path == "/authz/envoy" {
				got = r.do(x.method, x.path, x.body, "Weir-Token", secretOf(who))
			}
			let := got.status != http.StatusUnauthorized && (got.status != http.StatusForbidden || !strings.Contains(got.body, "takes the role"))
			if want := strings.Contains(" "+x.who+" ", " "+who+" ") || x.path == "/healthz"; let != want {
				t.Errorf("%q: %s %s: %d %s", who, x.method, x.path, got.status, got.body)
			}
		}
	}
}

// TestOrdersInTheNameOfWhoGivesThem has a known principal give an order for another.
func TestOrdersInTheNameOfWhoGivesThem(t *testing.T) {
	r := people(t, Options{}, map[string]string{"ann": "roles: operate", "proxy": "roles: operate"})
	r.want(r.as("ann", "POST", "/v1/flows/f/stop", `{"reason":"a test"}`), 202, `"by":"ann"`)
	r.want(r.as("ann", "POST", "/v1/flows/f/stop", `{"reason":"a test","by":"bob"}`), 202, `"by":"ann/bob"`)
	r.want(r.as("proxy", "POST", "/v1/flows/f/stop", `{"reason":"a test"}`, "X-Forwarded-User", "ann"), 202, `"by":"proxy/ann"`)
}

// TestTenants holds who is bound to some flows or sources to them, on every way in and out.
func TestTenants(t *testing.T) {
	r := people(t, Options{Authz: true, Metrics: "127.0.0.1:0"}, map[string]string{
		"one": "roles: admin, flows: [one-*]", "two": "roles: admin, flows: [two-*, shared]", "src": "roles: [ingest, ask], sources: [s-*]", "root": "roles: admin"})
	mine, theirs := "one-1", "two-1"
	send := func(who string, ev *events.Event, status int) {
		t.Helper()
		r.want(r.as(who, "POST", "/v1/events", lines(ev)), status)
	}
	send("one", call(mine, 1, "a", "b"), 202)
	send("two", call(theirs, 1, "a", "b"), 202)
	send("one", call(theirs, 2, "a", "b"), 400)
	none := call(mine, 3, "a", "b")
	none.CorrelationID = ""
	send("one", none, 400)
	r.want(r.as("src", "POST", "/v1/check", `{"kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"}}`), 400, `for example \"source\": \"s-1\"`)
	for _, above := range []func(*events.Event){func(ev *events.Event) { ev.ParentCorrelationID = theirs }, func(ev *events.Event) { ev.RootCorrelationID = theirs },
		func(ev *events.Event) {
			ev.CorrelationSource, ev.RootCorrelationID, ev.ConversationID = events.CorrelationPrompt, mine, theirs
		}} {
		child := call(mine, 4, "a", "b")
		above(child)
		send("one", child, 400)
	}
	order := `{"reason":"a test"}`
	for _, x := range []struct{ method, path, body string }{
		{"GET", "/v1/flows/%s", ""}, {"GET", "/v1/flows/%s/events", ""}, {"POST", "/v1/flows/%s/stop", order}, {"POST", "/v1/flows/%s/release", order},
		{"POST", "/v1/flows/%s/grant", `{"calls":3,"for_s":9,"reason":"r"}`}, {"GET", "/v1/inspect/flow?flow=%s", ""}, {"GET", "/v1/inspect/timeline?flow=%s", ""},
		{"GET", "/v1/inspect/events?flow=%s", ""}, {"GET", "/v1/inspect/case?flow=%s", ""}, {"POST", "/v1/inspect/stop?flow=%s", order}, {"GET", "/v1/verdicts?flow=%s", ""},
	} {
		if got := r.as("one", x.method, fmt.Sprintf(x.path, theirs), x.body); got.status != 403 {
			t.Errorf("%s %s of another's flow: %d %s", x.method, x.path, got.status, got.body)
		}
		if got := r.as("one", x.method, fmt.Sprintf(x.path, mine), x.body); got.status >= 300 {
			t.Errorf("%s %s of his own flow: %d %s", x.method, x.path, got.status, got.body)
		}
	}
	// What two parameters of the same name say is not looked at one way and answered another.
	if got := r.as("one", "GET", "/v1/inspect/flow?flow="+mine+"&flow="+theirs, ""); strings.Contains(got.body, theirs) {
		t.Errorf("two flows in one question: %s", got.body)
	}
	r.want(r.as("two", "POST", "/v1/flows/"+theirs+"/stop", order), 202)
	for _, path := range []string{"/v1/flows", "/v1/verdicts", "/v1/flows?q=two", "/v1/flows?sort=near"} {
		got := r.as("one", "GET", path, "")
		if r.want(got, 200); strings.Contains(got.body, "two-") {
			t.Errorf("GET %s tells of another's flows: %s", path, got.body)
		}
	}
	for _, x := range []struct{ method, path, body string }{{"POST", "/v1/orders", `{"scope":"all","reason":"r"}`}, {"GET", "/v1/deadletters", ""}, {"GET", "/v1/agents", ""}, {"GET", "/v1/notes", ""},
		{"POST", "/v1/traces", "{}"}, {"POST", "/runs/batch", "{}"}, {"POST", "/-/reload", ""}, {"POST", "/v1/asks", lines(call(mine, 9, "a", "b"))}, {"POST", "/v1/inspect/backtest", ""},
		{"POST", "/v1/overrides", `{"scope":"flow","scope_id":"two-1","rule":"max_total_calls","stop":500,"reason":"r","for_s":9}`}} {
		if got := r.as("one", x.method, x.path, x.body); got.status != 403 {
			t.Errorf("%s %s, which is about everybody's flows: %d %s", x.method, x.path, got.status, got.body)
		}
	}
	for _, form := range []string{"%s", "%s\n%s"} {
		ask := call(theirs, 7, "a", "b")
		ask.Ask = true
		body, kind := strings.TrimSpace(lines(ask)), "application/json"
		if form != "%s" {
			body, kind = body+"\n"+body, "application/x-ndjson"
		}
		if got := r.as("one", "POST", "/v1/check", body, "Content-Type", kind); strings.Contains(got.body, `"verdict":{`) || got.status == 200 && !strings.Contains(got.body, "none of those of one") {
			t.Errorf("an ask in another's flow: %d %s", got.status, got.body)
		}
	}
	// Sources.
	for source, status := range map[string]int{"s-1": 202, "other": 400, "": 400} {
		ev := call(mine, 20, "a", "b")
		ev.ID, ev.Source = "src"+source, source
		send("src", ev, status)
	}
	for _, path := range []string{"/v1/traces", "/runs/batch", "/runs/multipart", "/v1/hook", "/v1/notes"} {
		if got := r.as("src", "POST", path, "{}", "Content-Type", "application/json"); got.status != 403 {
			t.Errorf("%s says no source, and is open to who is bound to some: %d %s", path, got.status, got.body)
		}
	}
}

// TestReadyNamesNothing asks for the health: names of files and words of the limits are for those who
// may read.
func TestReadyNamesNothing(t *testing.T) {
	limits, followed := limitsFile(t, "profile: balanced\n"), filepath.Join(t.TempDir(), "a-followed-file.jsonl")
	if err := os.WriteFile(followed, []byte(lines(call("f", 1, "a", "b"))), 0o600); err != nil {
		t.Fatal(err)
	}
	r := people(t, Options{LimitsFile: limits, Follow: []intake.Follow{{Path: followed}}}, map[string]string{"eve": "roles: observe", "tom": "roles: ingest", "shop": "roles: observe, flows: [shop-*]"})
	if err := os.WriteFile(limits, []byte("rules: {a_secret_word: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil {
		t.Fatal("limits with an unknown rule are taken")
	}
	for _, who := range []string{"", "nobody", "tom", "shop"} {
		got := r.as(who, "GET", "/readyz", "")
		if r.want(got, 200, `"ok":false`); strings.Contains(got.body, "a_secret_word") || strings.Contains(got.body, "a-followed-file") {
			t.Errorf("%q sees %s", who, got.body)
		}
	}
	r.want(r.as("eve", "GET", "/readyz", ""), 200, "a_secret_word", "a-followed-file")
	if got := r.as("eve", "GET", "/readyz", ""); strings.Contains(got.body, "disk_free_mib") {
		t.Errorf("a state in memory has free disk space: %s", got.body)
	}
}

// TestNarrowedStreams takes flows away from a principal while it follows the verdicts.
func TestNarrowedStreams(t *testing.T) {
	may := map[string]string{"shop": "roles: [observe, ask], flows: [shop-*, wide-*]", "root": "roles: admin"}
	r := people(t, Options{}, may)
	stop := func(flow string) {
		t.Helper()
		r.want(r.as("root", "POST", "/v1/flows/"+flow+"/stop", `{"reason":"a test"}`), 202)
	}
	token := []string{"Authorization", "Bearer " + secretOf("shop")}
	streams := map[string]*viewerOf{
		"ndjson": r.follow("/v1/verdicts?follow=1", token...),
		"sse":    r.follow("/v1/verdicts", append(token, "Accept", "text/event-stream")...),
	}
	one := r.follow("/v1/verdicts?follow=1&flow=wide-1", token...)
	stop("wide-1")
	for _, v := range streams {
		v.until("wide-1")
	}
	one.until("wide-1")
	may["shop"] = "roles: [observe, ask], flows: [shop-*]"
	writePeople(t, filepath.Dir(r.o.AccessFile), may)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	stop("wide-2")
	stop("wide-1")
	stop("shop-1")
	for name, v := range streams {
		seen := len(v.seen)
		v.until("shop-1")
		if text := strings.Join(v.seen[seen:], "\n"); strings.Contains(text, "wide-") {
			t.Errorf("%s: the stream shows a flow that was taken away:\n%s", name, text)
		}
	}
	for one.lines.Scan() {
		if strings.Contains(one.lines.Text(), "wide-1") {
			t.Fatalf("a stream of one flow goes on after the flow was taken away: %s", one.lines.Text())
		}
	}
}

// TestRates lets one use up what it may do; others do as they like.
func TestRates(t *testing.T) {
	r := people(t, Options{}, map[string]string{"tom": "roles: [ingest, ask], rate: 10", "ann": "roles: admin"})
	var many []*events.Event
	for i := range 10 {
		many = append(many, call("f", i, "a", "b"))
	}
	r.want(r.as("tom", "POST", "/v1/events", lines(many...)), 202)
	got := r.as("tom", "POST", "/v1/events", lines(call("f", 50, "a", "b")))
	if r.want(got, 429, "rate"); got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
	}
	r.want(r.as("tom", "POST", "/v1/check", lines(call("f", 51, "a", "b"))), 429)
	r.want(r.as("ann", "POST", "/v1/events", lines(call("g", 1, "a", "b"))), 202)
	// Reading the file again gives nothing back.
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.want(r.as("tom", "POST", "/v1/check", lines(call("f", 51, "a", "b"))), 429)
	r.fake.Advance(time.Second)
	for range 10 {
		r.want(r.as("tom", "POST", "/v1/events", lines(call("f", 50, "a", "b"))), 202)
	}
	r.want(r.as("tom", "POST", "/v1/events", lines(call("f", 50, "a", "b"))), 429)
}

// records reads an audit log.
func records(t *testing.T, path string) (list []access.Record) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var r access.Record
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, in.Bytes())
		}
		for _, c := range in.Bytes() {
			if c < ' ' || c > '~' {
				t.Fatalf("the audit log has the byte %#x, which a terminal may obey: %q", c, in.Bytes())
			}
		}
		list = append(list, r)
	}
	return list
}

// TestAudit gives orders, and tries to, in each way that there is.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	r := people(t, Options{StateDir: dir, Authz: true}, map[string]string{"tom": "roles: ingest", "ann": "roles: admin"})
	operator := events.Event{ID: "o-1", Source: "tool", Kind: events.OperatorStop, CorrelationID: "g", Time: events.StampOf(r.fake.Now()), Operator: &events.Operator{Reason: "by an event", By: "ann"}}
	said := r.as("ann", "POST", "/v1/flows/f/stop", `{"reason":"loops\u001b[2J\u202e","for_s":60}`)
	r.want(said, 202)
	r.want(r.as("ann", "POST", "/v1/flows/f/stop", `{}`), 400)
	r.want(r.as("tom", "POST", "/v1/flows/f/release", `{"reason":"let me"}`), 403)
	r.want(r.as("", "POST", "/v1/flows/f/release", `{"reason":"let me"}`), 401)
	r.want(r.as("tom", "POST", "/v1/events", lines(&operator)), 400)
	r.want(r.as("ann", "POST", "/v1/events", lines(&operator)), 202)
	r.want(r.as("tom", "POST", "/v1/agents/x/rescue", `{"admin":true,"reason":"r","by":"tom"}`), 403)
	r.want(r.as("ann", "POST", "/v1/agents/x/rescue", `{"admin":true,"reason":"r"}`), 202)
	r.want(r.as("ann", "POST", "/-/reload", ""), 200)
	path := filepath.Join(dir, "audit.jsonl")
	var told []string
	for _, x := range records(t, path) {
		told = append(told, fmt.Sprintf("%s %s %s %d %s", x.Stage, x.Principal, x.Kind, x.Status, x.By))
		if x.Peer == "" || x.Time.IsZero() {
			t.Errorf("%+v says not from where or when", x)
		}
	}
	want := []string{"asked ann  0 ", "answered ann operator.stop 202 ann", "asked ann  0 ", "answered ann  400 ann", "refused tom  403 ", "refused   401 ", "refused tom operator.stop 400 ann",
		"asked ann operator.stop 0 ann", "refused tom  403 ", "asked ann  0 ", "answered ann rescue.request 202 ann", "asked ann  0 ", "answered ann  200 "}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	// A client that tries often does not fill the disk, and is counted.
	for range 50 {
		r.want(r.as("", "POST", "/v1/flows/f/release", `{"reason":"let me"}`), 401)
	}
	r.fake.Advance(time.Second)
	r.want(r.as("", "POST", "/v1/flows/f/release", `{"reason":"let me"}`), 401)
	all := records(t, path)
	if last := all[len(all)-1]; len(all) > len(want)+12 || last.LeftOut < 40 {
		t.Errorf("%d records, the last %+v", len(all), last)
	}
	// It is rotated by name, and an order that cannot be recorded is not given.
	if err := errors.Join(os.Rename(path, path+".1"), r.Reload()); err != nil {
		t.Fatal(err)
	}
	r.want(r.as("ann", "POST", "/v1/flows/f/release", `{"reason":"r"}`), 202)
	if n := len(records(t, path)); n != 2 {
		t.Errorf("%d records after a rotation", n)
	}
	if err := r.audit.Close(); err != nil {
		t.Fatal(err)
	}
	r.want(r.as("ann", "POST", "/v1/flows/h/stop", `{"reason":"r"}`), 503, "audit log")
	r.want(r.as("ann", "POST", "/v1/events", lines(&operator)), 503, "audit log")
	if lines := strings.Join(r.journalLines(), "\n"); strings.Contains(lines, `"h"`) {
		t.Error("an order that is not told of was given")
	}
	if err := r.audit.Reopen(); err == nil { // the old file cannot be closed twice
		t.Error("the audit log was closed, and is not")
	}
}
