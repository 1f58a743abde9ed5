package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/api"
	"weir/events"
)

// company are other members of a group, to which orders alone are passed on.
type company struct {
	members
	addresses, missed []string
}

func (c *company) Others(context.Context) (addresses, missed []string) { return c.addresses, c.missed }

// TestStopAllIsPassedOn stops the flows of other members, too, and tells whom it could
// not reach.
func TestStopAllIsPassedOn(t *testing.T) {
	var others company
	near := beginHand(t, Options{}, func(a *App) {
		a.openBackend = func() (backend, error) {
			a.members = &others
			return a.newBackend()
		}
	})
	far := beginHand(t, Options{})
	strange := begin(t, Options{AdminTokenFile: tokenFile(t, strings.Repeat("another", 8))})
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/v1/asks?stop=all" || r.Header.Get("Authorization") != "" {
			t.Errorf("it is sent %s with %v", r.URL, r.Header)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("all of them"))
	}))
	defer odd.Close()
	for i, h := range []hand{near, far} {
		for _, flow := range []string{"f", "g", "h"}[:i+2] {
			if !h.allowed(flow, 1) {
				t.Fatal("a call is refused")
			}
		}
	}
	others.addresses, others.missed = []string{"http://" + far.Addr() + "/", "http://" + strange.Addr(), odd.URL, "http://127.0.0.1:1"}, []string{"partition 7: nobody"}
	got := near.do("POST", "/v1/flows/stop", `{"all":true,"reason":"a bad release"}`, "Authorization", "Bearer "+adminSecret, "X-Forwarded-User", "carol")
	near.want(got, 202)
	var a api.StopAllAnswer
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		t.Fatal(err)
	}
	if a.Stopped != 5 || a.More || a.By != "carol" || len(a.Missed) != 4 || a.Missed[0] != "partition 7: nobody" ||
		!strings.Contains(a.Missed[1], strange.Addr()+": it answers 401") || !strings.Contains(a.Missed[2], odd.URL) || !strings.Contains(a.Missed[3], "127.0.0.1:1") {
		t.Errorf("answered %+v", a)
	}
	if near.allowed("g", 2) || far.allowed("h", 2) {
		t.Error("a flow goes on")
	}
	for _, line := range far.journalLines() {
		if strings.Contains(line, "operator.stop") && !strings.Contains(line, `"by":"carol"`) {
			t.Errorf("the other has %s", line)
		}
	}
}

// TestStopAllMissesOne has a flow that escaped correlation and whose agent has a name so
// long that no order can be about it.
func TestStopAllMissesOne(t *testing.T) {
	h := beginHand(t, Options{})
	lost := call("", 1, "a", strings.Repeat("x", 256))
	h.want(h.do("POST", "/v1/events", lines(call("f", 1, "a", "b"), lost, call("g", 1, "a", "b")), "Content-Type", "application/x-ndjson"), 202)
	h.folded() // in two more flows
	h.want(h.order("/v1/flows/stop", `{"all":true,"reason":"a test","by":"ann"}`), 202, `"stopped":4,"more":false,"missed":["flow \"agent:xxx`)
	if h.allowed("f", 2) || h.allowed("g", 2) {
		t.Error("a flow goes on")
	}
}

// TestStopAllDespiteClocks stops what was heard of within the idle time, whatever the clocks of
// the senders say, or says that it does not.
func TestStopAllDespiteClocks(t *testing.T) {
	h := beginHand(t, Options{StateDir: t.TempDir()})
	at := func(flow string, ago time.Duration, ask bool) *events.Event {
		ev := call(flow, 1, "a", "b")
		ev.ID, ev.Time, ev.Ask = fmt.Sprint(flow, ago), ev.Time.Add(-ago), ask
		return ev
	}
	h.want(h.do("POST", "/v1/events", lines(
		at("quiet", 9*time.Minute+50*time.Second, false),
		at("slow", 15*time.Minute, false), at("slow five", 5*time.Minute, false),
		at("yesterday", 24*time.Hour, false),
		at("ahead", -59*time.Second, false),
	), "Content-Type", "application/x-ndjson"), 202)
	h.do("POST", "/v1/check", lines(at("very slow", 3*time.Hour, true)), "Content-Type", "application/json")
	stopped := []string{"quiet", "slow", "slow five", "ahead", "very slow"}
	var a api.StopAllAnswer
	got := h.order("/v1/flows/stop", `{"all":true,"reason":"a bad release","by":"ann"}`)
	h.want(got, 202)
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		t.Fatal(err)
	}
	if a.Stopped != len(stopped) || len(a.Missed) != 1 || !strings.Contains(a.Missed[0], `"yesterday"`) {
		t.Errorf("answered %+v", a)
	}
	for _, flow := range stopped {
		if h.allowed(flow, 9) {
			t.Errorf("%s goes on", flow)
		}
	}
	// A machine whose clock is slow is refused by its own time, too.
	got = h.do("POST", "/v1/check", lines(at("slow", 14*time.Minute, true)), "Content-Type", "application/json")
	if got.status != http.StatusForbidden {
		t.Errorf("a check of the slow machine: %d %s", got.status, got.body)
	}
}
