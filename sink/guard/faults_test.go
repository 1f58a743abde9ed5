package guard

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// How long guards wait in these tests: long enough for a loaded machine to say a line.
const (
	staleAfter = time.Second
	askTimeout = 500 * time.Millisecond
)

// mostGrowth is how many MiB the memory of a program may grow while its guard is sent
// many GiB.
const mostGrowth = 160

// TestFaults holds the guards of all languages to everything that is known to go wrong
// at the other end.
func TestFaults(t *testing.T) {
	faulty := fmt.Sprintf(`{"stale_s":%v,"ask_s":%v,"faulty":true}`, staleAfter.Seconds(), askTimeout.Seconds())
	t.Run("go", func(t *testing.T) {
		t.Parallel()                                      // they wait for one another's time-outs otherwise
		defer debug.SetGCPercent(debug.SetGCPercent(100)) // as programs have it, whatever this test runs with
		meetFaults(t, nativeOf(t, faulty))
	})
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			command := l.command(t)
			f := begin(t, guardtest.New(), command, faulty)
			meetFaults(t, f)
			f.end()
		})
	}
}

func meetFaults(t *testing.T, g driven) {
	open := func(t *testing.T, f guardtest.Fault) *guardtest.Faulty {
		weir := f.Serve()
		server := httptest.NewServer(weir)
		t.Cleanup(func() {
			server.CloseClientConnections()
			go server.Close() // it waits for answers that have no end until the guard turns away
		})
		g.do(map[string]any{"do": "open", "url": server.URL, "most_orders": 100})
		return weir
	}
	state := func() map[string]any { return g.do(map[string]any{"do": "state"}) }
	before := -1.0
	for _, f := range guardtest.Faults() {
		t.Run(strings.ReplaceAll(f.Name, " ", "_"), func(t *testing.T) {
			weir, n := open(t, f), 0
			if before < 0 {
				before = state()["peak_mib"].(float64)
			}
			decide := func(how, flow string) string {
				d := g.do(map[string]any{"do": how, "call": map[string]any{"flow": flow, "from": "a", "to": "b"}})
				text := fmt.Sprint(d["action"], " ", d["source"])
				if d["stale"] == true {
					text += " stale"
				}
				return text
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			pause := time.NewTicker(20 * time.Millisecond)
			defer pause.Stop()
			for {
				n++
				over := weir.Over() // is looked at first: what is decided before that proves nothing
				other := fmt.Sprint("g", n)
				got := guardtest.Want{CheckStopped: decide("check", "f"), CheckOther: decide("check", other), Unreadable: f.Want.Unreadable}
				if got.CheckStopped == f.Want.CheckStopped && got.CheckOther == f.Want.CheckOther {
					got.AskStopped, got.AskOther = decide("ask", "f"), decide("ask", other)
				}
				got.Unreadable = min(f.Want.Unreadable, int64(state()["unreadable"].(float64)))
				if over && got == f.Want {
					return
				}
				select {
				case <-pause.C:
				case <-ctx.Done():
					t.Fatalf("got %+v, want %+v; it is over: %v", got, f.Want, over)
				}
			}
		})
	}
	if grown := state()["peak_mib"].(float64) - before; grown > mostGrowth {
		t.Errorf("the program has grown by %.0f MiB, want %d at most", grown, mostGrowth)
	} else {
		t.Logf("the program has grown by %.0f MiB", grown)
	}
}

// TestObserverFails sees that a refusal stays one when the observer of it fails.
func TestObserverFails(t *testing.T) {
	g, err := newGuard(Options{URL: "http://weir.test", Quiet: true, Observe: func(Call, Decision) { panic("an observer that fails") }})
	if err != nil {
		t.Fatal(err)
	}
	g.state.Store(fresh)
	g.table.Take(&events.Verdict{ID: "v", Mode: events.ModeEnforce, Action: "deny", CorrelationID: "f", Scope: events.Scope{Kind: events.ScopeFlow, ID: "f"}})
	d := g.Check(t.Context(), Call{Flow: "f", From: "a", To: "b"})
	if !d.Stopped() || g.counts.Faults.Load() != 1 {
		t.Errorf("decided %s, %d faults", d.Action, g.counts.Faults.Load())
	}
}

// TestFirstCall runs a program that decides one call of a stopped flow and ends: it knows
// the order by then, and ends by itself though weir goes on. When weir is away it goes on, decides,
// and ends, too.
func TestFirstCall(t *testing.T) {
	beats := guardtest.Fault{Name: "no fault"}.Serve() // its stream lives for as long as a client is connected
	up, away := httptest.NewServer(beats), httptest.NewServer(beats)
	defer up.Close()
	defer up.CloseClientConnections() // so that streams end
	away.Close()                      // no process listens at its port
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			for url, want := range map[string]string{up.URL: "deny table\n", away.URL: "allow stale_open\n"} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				run := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], url, `{"once":true}`)...)
				run.Stderr = os.Stderr
				out, err := run.Output()
				if err != nil || string(out) != want {
					t.Errorf("%v: %q, want %q", err, out, want)
				}
			}
		})
	}
}
