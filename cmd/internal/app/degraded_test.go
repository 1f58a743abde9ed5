package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// TestDegradedMode puts weir behind by a log that takes no line, and asks meanwhile: the
// answers come, by what was known, and say so; so do health, metrics and the order's answer.
func TestDegradedMode(t *testing.T) {
	h := pumptest.NewStuckLog()
	h.At("stall")
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: delegation\ndegraded: {after: 1s, until: 5s, percent: 50, scale: [call_rate_per_flow]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{LimitsFile: limits, Logger: slog.New(h), Metrics: "127.0.0.1:0"})
	ask := func(n int, status int, parts ...string) reply {
		t.Helper()
		from, to := "a", "b"
		if n%2 == 1 {
			from, to = to, from
		}
		got := r.do("POST", "/v1/check", string(call("f", n, from, to).AppendJSON(nil)))
		r.want(got, status, parts...)
		return got
	}
	for n := range 6 {
		if got := ask(n, 200); strings.Contains(got.body, "degraded") || got.header.Get("Weir-Degraded") != "" {
			t.Fatalf("in quiet times: %s", got.body)
		}
	}
	r.want(r.do("GET", "/readyz", ""), 200, `"ready":true`)

	r.want(r.do("POST", "/v1/events", lines(selfCall("stall", 1))), 202)
	<-h.Stuck
	r.want(r.do("POST", "/v1/events", lines(call("more", 1, "x", "y"))), 202)
	r.untilDegraded(true)
	r.want(r.do("GET", "/readyz", ""), 200, `"ready":true`, `"degraded":[{"reason":"behind","since":"`, `"partitions":[0]`)
	r.scraped(`weir_degraded{reason="behind"} 1`, `weir_degraded{reason="load"} 0`, "weir_degraded_begun_total 1", "weir_ready 1")

	// Of the 20 calls that the limits allow, ten are left of which six were made.
	for n := 6; n < 10; n++ {
		if got := ask(n, 200, `"degraded":"behind"`); got.header.Get("Weir-Degraded") != "behind" {
			t.Errorf("header %v", got.header)
		}
	}
	ask(10, 429, `"degraded":"behind"`, `"reason_code":"call_rate_exceeded"`, `"limit":10`)
	ask(11, 429)
	// The first call of another flow is refused or allowed as ever.
	r.want(r.do("POST", "/v1/check", string(call("g", 1, "a", "b").AppendJSON(nil))), 200, `"degraded":"behind"`)
	r.want(r.do("POST", "/v1/check", string(selfCall("h", 1).AppendJSON(nil))), 400, "self_call")
	r.scraped(`weir_degraded_answers_total{answer="allowed"} 5`, `weir_degraded_answers_total{answer="refused"} 3`, "weir_degraded_unlogged_total 0")

	h.Free()
	r.untilDegraded(false)
	r.want(r.do("GET", "/readyz", ""), 200, `"ready":true`)
	if got := r.do("GET", "/readyz", ""); strings.Contains(got.body, "degraded") {
		t.Errorf("the mode has ended, and is told of: %s", got.body)
	}
	// What was answered has been counted: ten calls, and the eleventh to the twentieth pass.
	r.folded()
	r.want(r.do("GET", "/v1/flows/f", ""), 200, `"hops":10`)
	ask(12, 200)
	if got := ask(13, 200); strings.Contains(got.body, "degraded") {
		t.Errorf("the mode has ended, and is told of: %s", got.body)
	}
}

// untilDegraded moves the clock until the mode is on, or off again.
func (r *running) untilDegraded(on bool) {
	r.t.Helper()
	for range 10_000 {
		if (r.degraded.Status() != nil) == on {
			return
		}
		r.fake.Advance(250 * time.Millisecond)
		for range 100 {
			runtime.Gosched()
		}
	}
	r.t.Fatalf("degraded mode does not become %t", on)
}

// TestDegradedByLoad has limits shrink under load: the same mode for another reason.
func TestDegradedByLoad(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: none\nwarn_only: []\nrules: {max_total_calls: {max: 8}}\nload: {high: 20, low: 5, percent: 50, scale: [max_total_calls]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{LimitsFile: limits, Metrics: "127.0.0.1:0"})
	for n := range 21 {
		r.want(r.do("POST", "/v1/events", lines(call(fmt.Sprint("crowd", n), 1, "a", "b"))), 202)
	}
	for n := range 4 {
		r.want(r.do("POST", "/v1/check", string(call("f", n, "a", "b").AppendJSON(nil))), 200, `"degraded":"load"`)
	}
	r.want(r.do("POST", "/v1/check", string(call("f", 5, "a", "b").AppendJSON(nil))), 402, `"degraded":"load"`, `"limit":4`)
	r.want(r.do("GET", "/readyz", ""), 200, `"degraded":[{"reason":"load","partitions":[0]}]`)
	r.scraped(`weir_degraded{reason="load"} 1`)
	var v events.Verdict
	if err := events.DecodeVerdict([]byte(r.verdictLines()[0]), &v); err != nil || v.Degraded != events.DegradedLoad {
		t.Errorf("the order does not say so: %+v, %v", v, err)
	}
	// Five minutes later nothing is left of it.
	r.fake.Advance(5 * time.Minute)
	late := call("quiet", 1, "a", "b")
	late.Time = events.StampOf(r.fake.Now())
	r.want(r.do("POST", "/v1/check", string(late.AppendJSON(nil))), 200)
	late.ID += "again"
	if got := r.do("POST", "/v1/check", string(late.AppendJSON(nil))); strings.Contains(got.body, "degraded") {
		t.Errorf("there is no load any more: %s", got.body)
	}
	r.want(r.do("GET", "/readyz", ""), 200)
}
