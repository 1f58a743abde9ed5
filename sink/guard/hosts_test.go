package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// hostPrograms are the programs of TestHosts by language.
var hostPrograms = map[string]string{"python": "hosts.py", "typescript": "hosts.mjs"}

// TestHosts runs guards in programs that do what programs do: they fork, keep the processor to
// themselves, close what they have closed. The programs say what is wrong.
func TestHosts(t *testing.T) {
	for _, of := range []struct {
		language string
		cases    []string
	}{
		{"python", []string{"fork", "ids", "blocked", "closed", "unsolicited", "busy", "granted", "names", "threads", "logs", "dropped", "away"}},
		{"typescript", []string{"ids", "blocked", "closed", "required", "logs", "dropped"}},
	} {
		for _, l := range languages() {
			if l.name != of.language {
				continue
			}
			t.Run(l.name, func(t *testing.T) {
				command := l.command(t)
				for _, name := range of.cases {
					t.Run(name, func(t *testing.T) {
						runsHost(t, append(command[:1:1], "testdata/"+hostPrograms[of.language], command[2], name))
					})
				}
			})
		}
	}
}

func runsHost(t *testing.T, command []string) {
	weir := guardtest.New()
	weir.Give(events.Verdict{CorrelationID: "f", Action: "deny", Reason: events.SelfCall})
	weir.Answer(func(ev *events.Event) *events.Verdict {
		if ev.CorrelationID == "stop g" {
			weir.Give(events.Verdict{CorrelationID: "g", Action: "deny", Reason: events.SelfCall})
		}
		return nil
	})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer unsolicited" && r.URL.Path == "/v1/check" {
			answersTwice(rw)
			return
		}
		if r.Header.Get("Authorization") == "Bearer unknown" {
			http.Error(rw, "{}", http.StatusUnauthorized)
			return
		}
		if r.Header.Get("Authorization") == "Bearer busy" {
			http.Error(rw, "{}", http.StatusServiceUnavailable)
			return
		}
		weir.ServeHTTP(rw, r)
	}))
	defer server.Close()
	defer weir.Set(guardtest.Away) // so that streams end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, command[0], append(command[1:], server.URL)...)
	run.WaitDelay = time.Second // forked children may hold the output open
	run.Stderr = os.Stderr
	if out, err := run.Output(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("%v: %s", err, out)
	}
	seen := make(map[string]bool)
	for _, ev := range weir.Asks() {
		if seen[ev.ID] {
			t.Errorf("the id %s was given to two asks", ev.ID)
		}
		seen[ev.ID] = true
	}
}

// TestEndsUnclosed holds that a Python program which ends without closing its guard loses no report.
func TestEndsUnclosed(t *testing.T) {
	weir := guardtest.New()
	server := httptest.NewServer(weir)
	defer server.Close()
	defer weir.Set(guardtest.Away) // so that streams end
	run := exec.CommandContext(t.Context(), found(t, "python3"), "testdata/hosts.py", "python", "ends", server.URL)
	if out, err := run.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%v: %s", err, out)
	}
	var flows []string
	for _, ev := range weir.Reports() {
		flows = append(flows, ev.CorrelationID)
	}
	slices.Sort(flows)
	if want := []string{"a program", "fork", "spawn"}; !slices.Equal(flows, want) {
		t.Errorf("reports of %q arrived, want those of %q", flows, want)
	}
}

// answersTwice refuses, and says on the same connection that the next call may be made, which
// was not checked yet.
func answersTwice(rw http.ResponseWriter) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(err)
	}
	for _, body := range []string{`{"verdict":{"id":"a","mode":"enforce","action":"deny","reason_code":"self_call"}}`, `{"verdict":{"id":"a","mode":"enforce","action":"allow"}}`} {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	_ = conn.(*net.TCPConn).CloseWrite() // the test waits for what comes unasked, and the end is that at the latest
}

// TestIDsOfOneSource gives no id twice, also when guards of one Source ask at the same moment.
func TestIDsOfOneSource(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		g, err := newGuard(Options{URL: "http://weir.test", Source: "planners"})
		if err != nil {
			t.Fatal(err)
		}
		var ev events.Event
		g.stampEvent(&ev, 1)
		if seen[ev.ID] {
			t.Errorf("the id %s was given twice", ev.ID)
		}
		seen[ev.ID] = true
	}
}

// TestFullTable takes a later revision of an order that it holds when there is no room for
// another one: the order would end too early otherwise.
func TestFullTable(t *testing.T) {
	g, err := newGuard(Options{URL: "http://weir.test", Quiet: true, MostOrders: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	g.now = func() time.Time { return now }
	g.state.Store(fresh)
	give := func(flow string, revision int, until string) {
		g.take(fmt.Appendf(nil, `{"id":"of-%s","revision":%d,"mode":"enforce","action":"deny","correlation_id":%q,"scope":{"kind":"flow","id":%q},"expires_at":%q}`, flow, revision, flow, flow, until), "")
	}
	give("f", 1, "2026-11-20T14:01:00Z")
	give("g", 1, "2026-11-20T15:00:00Z")
	give("f", 2, "2026-11-20T15:00:00Z")
	now = now.Add(2 * time.Minute)
	if d := g.Check(t.Context(), Call{Flow: "f", From: "a", To: "b"}); !d.Stopped() || g.counts.LeftOut.Load() != 1 {
		t.Errorf("decided %s, %d orders left out, want the order to stand and 1", d.Action, g.counts.LeftOut.Load())
	}
}

// TestReportsThatWaitAreBounded holds that refusals beyond the 1,024 that wait are dropped and counted.
func TestReportsThatWaitAreBounded(t *testing.T) {
	g, err := newGuard(Options{URL: guardtest.URL}) // nothing sends them
	if err != nil {
		t.Fatal(err)
	}
	g.table.Take(&events.Verdict{ID: "v", Mode: events.ModeEnforce, Action: "deny", CorrelationID: "f", Scope: events.Scope{Kind: events.ScopeFlow, ID: "f"}})
	for n := range 1026 {
		d := g.Check(t.Context(), Call{Flow: "f", From: "a", To: "b"})
		if dropped := g.Counts().AcksDropped.Load(); !d.Stopped() || dropped != int64(max(0, n+1-1024)) {
			t.Fatalf("refusal %d: %s, %d dropped", n+1, d.Action, dropped)
		}
	}
}

// TestAskStreamFaults asks so often that a stream is opened, which misbehaves, until the guard
// has left it: in the end weir has answered.
func TestAskStreamFaults(t *testing.T) {
	for _, f := range guardtest.AskStreamFaults() {
		t.Run(strings.ReplaceAll(f.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			weir := f.Serve()
			server := httptest.NewServer(weir)
			t.Cleanup(func() {
				server.CloseClientConnections()
				go server.Close()
			})
			g, err := New(Options{URL: server.URL, AskTimeout: askTimeout})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for {
				over := weir.Over()
				stopped, other := g.Ask(ctx, Call{Flow: "f", From: "a", To: "b"}), g.Ask(ctx, Call{Flow: "g", From: "a", To: "b"})
				if over && stopped.Source == FromWeir && stopped.Stopped() && other.Source == FromWeir && !other.Stopped() {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("a stopped flow: %s by %s, another: %s by %s; it is over: %t", stopped.Action, stopped.Source, other.Action, other.Source, over)
				}
			}
		})
	}
}

// TestAskStreamHoldsLittle keeps no more than a fixed number of checks for a weir that takes none.
// Further checks then do without the stream.
func TestAskStreamHoldsLittle(t *testing.T) {
	s := newAskStream(func() {})
	gone, leave := context.WithCancel(t.Context())
	leave()
	line := make([]byte, 1<<16)
	for n := 0; ; n++ {
		_, _, err := s.ask(gone, line)
		if errors.Is(err, errUnsent) {
			break
		}
		if n > 2*mostUnsent/len(line) {
			t.Fatalf("%d bytes wait to be sent, want %d at most", len(s.out), mostUnsent)
		}
	}
}
