package app

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/guard"
)

// guarded is a weir, and a guard that follows it.
type guarded struct {
	*running
	*guard.Guard
	sent atomic.Int64
}

func beginGuarded(t *testing.T, limits analyzer.Limits) *guarded {
	t.Helper()
	r := begin(t, Options{Limits: limits, Clock: clock.System{}, Heartbeat: 50 * time.Millisecond, AdminTokenFile: tokenFile(t, adminSecret)})
	g, err := guard.New(guard.Options{URL: "http://" + r.Addr(), Source: "guard", Token: adminSecret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	both := &guarded{running: r, Guard: g}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return both
}

// send reports a call that was made, as a dispatcher does that asks nothing.
func (g *guarded) send(c guard.Call) {
	g.t.Helper()
	n := g.sent.Add(1)
	ev := events.Event{ID: fmt.Sprint("sent-", n), Source: "dispatcher", Time: events.StampOf(time.Now()), CorrelationID: c.Flow, Kind: events.AgentCall,
		From: events.Party{Agent: c.From}, To: events.Party{Agent: c.To}, HadWork: events.Yes}
	if c.Tool != "" {
		ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, c.Tool
	}
	resp, err := http.Post("http://"+g.Addr()+"/v1/events", "application/json", bytes.NewReader(ev.AppendJSON(nil)))
	if err != nil {
		g.t.Error(err)
		return
	}
	_ = resp.Body.Close()
}

// settled waits until the guard knows every order that was given for what was sent, as
// it does while an agent works.
func (g *guarded) settled() {
	g.t.Helper()
	g.folded()
	orders := int64(0)
	for _, line := range g.verdictLines() {
		if strings.Contains(line, `"mode":"enforce"`) && !strings.Contains(line, `"action":"warn"`) {
			orders++
		}
	}
	for g.Guard.Counts().Orders.Load() < orders {
		if err := g.t.Context().Err(); err != nil {
			g.t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// only are limits of which one rule is on.
func only(t *testing.T, rule string) analyzer.Limits {
	t.Helper()
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {"+rule+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// TestLeaks is the table of what gets past a limit of ten calls.
func TestLeaks(t *testing.T) {
	const limit, callers, each = 10, 16, 4
	rules := []struct {
		rule string
		call func(i int) guard.Call
	}{
		{"max_total_calls: {max: 10}", func(i int) guard.Call { return guard.Call{Flow: "f", From: "a", To: "b"} }},
		{"max_tool_calls: {max: 10}", func(i int) guard.Call { return guard.Call{Flow: "f", From: "a", Tool: "t"} }},
		{"max_unique_sessions: {max: 11}", func(i int) guard.Call { return guard.Call{Flow: "f", From: "hub", To: fmt.Sprint("w", i)} }},
		{"call_rate_per_flow: {max: 10, window: 1m}", func(i int) guard.Call { return guard.Call{Flow: "f", From: "a", To: "b"} }},
	}
	for _, row := range rules {
		t.Run(strings.SplitN(row.rule, ":", 2)[0], func(t *testing.T) {
			f := func(how string, exact bool, allowed func(g *guarded, c guard.Call) bool, parallel bool) {
				t.Helper()
				g := beginGuarded(t, only(t, row.rule))
				var made atomic.Int64
				if !parallel {
					for i := range 2 * limit {
						if allowed(g, row.call(i)) {
							made.Add(1)
						}
					}
				} else {
					var group sync.WaitGroup
					for caller := range callers {
						group.Go(func() {
							for i := range each {
								if allowed(g, row.call(caller*each+i)) {
									made.Add(1)
								}
							}
						})
					}
					group.Wait()
				}
				g.folded()
				counts := g.App.Counts().Sum().Fold
				leaked, defied := counts.Leaked, int64(0)
				for at := range events.ReasonCount {
					defied += counts.Of(at).Defied
				}
				t.Logf("%-26s made %d of %d; told: %d in flight when the order went out, %d after it", how, made.Load(), limit, leaked, defied)
				over := made.Load() - limit
				if exact && over != 0 || over < 0 || leaked+defied != over {
					t.Errorf("%s: %d calls were made past a limit of %d, and %d and %d are told of", how, over, limit, leaked, defied)
				}
			}
			check := func(settle bool) func(*guarded, guard.Call) bool {
				return func(g *guarded, c guard.Call) bool {
					d := g.Check(g.t.Context(), c)
					if d.Stopped() {
						return false
					}
					g.send(c)
					if settle {
						g.settled()
					}
					return true
				}
			}
			ask := func(g *guarded, c guard.Call) bool {
				d := g.Ask(g.t.Context(), c)
				return !d.Stopped()
			}
			f("Check, one after the other", true, check(true), false)
			f("Ask, one after the other", true, ask, false)
			f("Ask, 16 at a time", true, ask, true)
			f("Check, 16 at a time", false, check(false), true)
		})
	}
}

// TestGuardsReport looks at what the log holds of a refusal from memory.
func TestGuardsReport(t *testing.T) {
	g := beginGuarded(t, only(t, "max_total_calls: {max: 1}"))
	c := guard.Call{Flow: "f", From: "a", To: "b"}
	g.send(c)
	g.settled()
	for range 3 {
		if d := g.Check(t.Context(), c); !d.Stopped() || d.Observed != 2 || d.Limit != 1 {
			t.Errorf("decided %+v", d)
		}
	}
	for g.Guard.Counts().Acked.Load() < 3 {
		if t.Context().Err() != nil {
			t.Fatal("the refusals are not reported")
		}
		runtime.Gosched()
	}
	g.folded()
	if n := g.App.Counts().Sum().Fold.Attempts; n != 3 {
		t.Errorf("%d attempts are counted", n)
	}
	if err := g.Release(t.Context(), "f", "ann", "a false alarm", time.Minute); err != nil {
		t.Fatal(err)
	}
	for d := g.Check(t.Context(), c); d.Stopped(); d = g.Check(t.Context(), c) {
		if t.Context().Err() != nil {
			t.Fatal("the flow is not released")
		}
	}
}
