package app

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"

	"weir/cmd/internal/clock"
	"weir/sink/guard"
)

// TestPositionsAreOfOneLog rejects a position that a guard has in the log of another process, or of a state
// that was lost.
func TestPositionsAreOfOneLog(t *testing.T) {
	dir := t.TempDir()
	name := func(h hand) string {
		t.Helper()
		return h.do("GET", "/v1/verdicts", "").header.Get("Weir-Log")
	}
	h := beginHand(t, Options{StateDir: dir})
	h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann"}`)
	own := name(h)
	for _, c := range []struct {
		log    string
		status int
	}{{own, 200}, {"", 200}, {"another", 400}} {
		h.want(h.do("GET", "/v1/verdicts", "", "Last-Event-ID", "0", "Weir-Log", c.log), c.status)
	}
	h.stop()
	h = beginHand(t, Options{StateDir: dir})
	if got := name(h); got != own || own == "" {
		t.Errorf("after a restart the log is %q, before %q", got, own)
	}
	if got := name(beginHand(t, Options{})); got == own || got == "" {
		t.Errorf("another log is %q, too", got)
	}
}

// TestGuardBehindALoadBalancer goes from one process to another one, whose log has other orders at the
// positions that the guard has read.
func TestGuardBehindALoadBalancer(t *testing.T) {
	first, second := beginHand(t, Options{Clock: clock.System{}}), beginHand(t, Options{Clock: clock.System{}})
	first.stopped(`{"scope":"agent:a","reason":"a test","by":"ann"}`)
	for _, agent := range "bcdef" {
		second.stopped(fmt.Sprintf(`{"scope":"agent:%c","reason":"a test","by":"ann"}`, agent))
	}
	var at atomic.Pointer[url.URL]
	balancer := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at.Load()) }})
	t.Cleanup(balancer.Close)
	at.Store(&url.URL{Scheme: "http", Host: first.Addr()})
	g, err := guard.New(guard.Options{URL: balancer.URL, Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := func(agent string) bool {
		d := g.Check(t.Context(), guard.Call{Flow: "f", From: agent, To: "x"})
		return d.Stopped()
	}
	if !stopped("a") {
		t.Error("the order of the first process is not known")
	}
	at.Store(&url.URL{Scheme: "http", Host: second.Addr()})
	balancer.CloseClientConnections()
	for _, agent := range []string{"f", "b"} {
		for !stopped(agent) {
			if t.Context().Err() != nil {
				t.Fatalf("the order about %s is not known", agent)
			}
			runtime.Gosched()
		}
	}
}
