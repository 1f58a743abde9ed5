package guard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// twoMembers are two members of a group, of which the first one ends after a check of the flow "end". The
// second one refuses the flow "moved", so that a test knows which one answers. That a guard is stale between
// them lasts too short to be seen for sure.
type twoMembers struct {
	url   string
	beats atomic.Int64 // that the second one has heard
}

func newTwoMembers(t *testing.T) *twoMembers {
	m := &twoMembers{}
	var servers []*httptest.Server
	var weirs []*guardtest.Weir
	for range 2 {
		w := guardtest.New()
		w.Give(events.Verdict{CorrelationID: "f", Action: "deny", Reason: events.SelfCall})
		weirs = append(weirs, w)
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/guards" {
				if w == weirs[1] {
					m.beats.Add(1)
				}
				rw.WriteHeader(http.StatusNoContent)
				return
			}
			w.ServeHTTP(rw, r)
		}))
		servers = append(servers, s)
		t.Cleanup(func() {
			w.Set(guardtest.Away) // so that streams end
			_ = s.Config.Close()
		})
	}
	weirs[0].Answer(func(ev *events.Event) *events.Verdict {
		if ev.CorrelationID == "end" {
			go func() { _ = servers[0].Config.Close() }()
		}
		return nil
	})
	weirs[1].Answer(func(ev *events.Event) *events.Verdict {
		if ev.CorrelationID == "stop g" {
			weirs[1].Give(events.Verdict{CorrelationID: "g", Action: "deny", Reason: events.SelfCall})
		}
		if ev.CorrelationID == "moved" {
			return &events.Verdict{CorrelationID: "moved", Action: "deny", Reason: events.SelfCall}
		}
		return nil
	})
	m.url = servers[0].URL + ", " + servers[1].URL + "/"
	return m
}

// TestGuardMovesOn has the member that a guard uses end: its next checks are answered by another one,
// and so are orders and heartbeats.
func TestGuardMovesOn(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		m := newTwoMembers(t)
		g, err := New(Options{URL: m.url, Source: "mover"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		if err := g.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Ask(t.Context(), Call{Flow: "end", From: "a", To: "b"})
		for d := (Decision{}); !d.Stopped(); d = g.Ask(t.Context(), Call{Flow: "moved", From: "a", To: "b"}) {
			if t.Context().Err() != nil {
				t.Fatal("no check reaches the other member")
			}
		}
		for range 20 {
			if d := g.Ask(t.Context(), Call{Flow: "h", From: "a", To: "b"}); d.Source != FromWeir {
				t.Fatalf("a check is answered by %s", d.Source)
			}
		}
		g.Ask(t.Context(), Call{Flow: "stop g", From: "a", To: "b"})
		for d := g.Check(t.Context(), Call{Flow: "g", From: "a", To: "b"}); !d.Stopped(); d = g.Check(t.Context(), Call{Flow: "g", From: "a", To: "b"}) {
			if t.Context().Err() != nil {
				t.Fatal("the order of the other member does not come")
			}
			runtime.Gosched()
		}
		m.heard(t)
	})
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			m := newTwoMembers(t)
			command := l.command(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run := exec.CommandContext(ctx, command[0], "testdata/"+hostPrograms[l.name], command[2], "moves", m.url)
			run.Stderr = os.Stderr
			if out, err := run.Output(); err != nil || strings.TrimSpace(string(out)) != "" {
				t.Errorf("%v: %s", err, out)
			}
			m.heard(t)
		})
	}
}

// TestGuardTriesEachMemberOnce gives guards that follow nothing three addresses, of which the first reaches
// nothing and the second answers with 503. A check goes to each address once, and is then decided locally.
func TestGuardTriesEachMemberOnce(t *testing.T) {
	asks := map[string]func(t *testing.T, url, want string){"go": func(t *testing.T, url, want string) {
		g, err := newGuard(Options{URL: url, Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.closeIdle)
		if d := g.Ask(t.Context(), Call{Flow: "h", From: "a", To: "b"}); d.Source.String() != want {
			t.Errorf("the check is answered by %s, want %s", d.Source, want)
		}
	}}
	for _, l := range languages() {
		asks[l.name] = func(t *testing.T, url, want string) {
			command := l.command(t)
			run := exec.CommandContext(t.Context(), command[0], "testdata/"+hostPrograms[l.name], command[2], "tries", url, want)
			run.Stderr = os.Stderr
			if out, err := run.Output(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	for name, ask := range asks {
		for want, busy := range map[string]int64{"weir": 1, "stale_open": 2} {
			t.Run(name+"/"+want, func(t *testing.T) {
				t.Parallel()
				gone := httptest.NewServer(nil)
				gone.Close()
				var tried atomic.Int64
				second := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/v1/check" {
						tried.Add(1)
					}
					http.Error(rw, "{}", http.StatusServiceUnavailable)
				}))
				defer second.Close()
				third := second
				if want == "weir" {
					third = httptest.NewServer(guardtest.New())
					defer third.Close()
				}
				ask(t, gone.URL+","+second.URL+","+third.URL, want)
				if n := tried.Load(); n != busy {
					t.Errorf("addresses that answer with 503 get the check %d times, want %d", n, busy)
				}
			})
		}
	}
}

// heard waits until the second member has heard the guard.
func (m *twoMembers) heard(t *testing.T) {
	t.Helper()
	for m.beats.Load() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the other member hears no heartbeat")
		}
		runtime.Gosched()
	}
}

// TestAddresses rejects what is no address, also behind one that is.
func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "http://a,", "http://a,b", "ftp://a", "http://a,http://"} {
		if _, err := New(Options{URL: bad}); err == nil {
			t.Errorf("%q counts as addresses", bad)
		}
	}
	a, err := parseAddresses("http://a/, https://b/x")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"http://a", "https://b/x", "http://a"} {
		at, turn := a.present()
		if at != want {
			t.Errorf("turn %d: %s, want %s", n, at, want)
		}
		a.leave(turn)
		a.leave(turn) // of another goroutine that saw the same
	}
}
