package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard"
)

// TestGuardOfTheRealProgram pauses, kills and restarts weir and looks at what a guard
// decides meanwhile. All states stand in the table of package guard's tests.
func TestGuardOfTheRealProgram(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "weir")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v\n%s", err, out)
	}
	address := freeAddress(t)
	weir := startWeir(t, binary, filepath.Join(dir, "state"), address)
	defer func() {
		_ = weir.Process.Kill()
		_ = weir.Wait()
	}()
	g, err := guard.New(guard.Options{URL: "http://" + address, StaleAfter: 3 * time.Second, AskTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			if ctx.Err() != nil {
				t.Fatal("in vain: ", what)
			}
			runtime.Gosched()
		}
	}
	stopped, free := guard.Call{Flow: "stopped", From: "a", To: "b"}, guard.Call{Flow: "free", From: "a", To: "b"}
	decided := func(when string, d guard.Decision, stopped bool, source guard.Source) {
		t.Helper()
		if d.Stopped() != stopped || d.Source != source {
			t.Errorf("%s: %s by %s, want stopped %v by %s", when, d.Action, d.Source, stopped, source)
		}
	}
	away := func(when string) {
		t.Helper()
		until(when, g.Stale)
		decided(when, g.Check(ctx, stopped), true, guard.FromTable)
		decided(when, g.Check(ctx, free), false, guard.StaleOpen)
		decided(when, g.Ask(ctx, stopped), true, guard.FromTable)
		decided(when, g.Ask(ctx, free), false, guard.StaleOpen)
	}
	back := func(when string) {
		t.Helper()
		until(when, func() bool { return !g.Stale() })
		decided(when, g.Check(ctx, stopped), true, guard.FromTable)
		decided(when, g.Check(ctx, free), false, guard.FromTable)
		until(when+", asked", func() bool { return !g.Stale() && g.Ask(ctx, free).Source == guard.FromWeir })
		decided(when, g.Ask(ctx, stopped), true, guard.FromWeir)
	}

	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	// Two agents hand the same message to and fro until weir has enough of it.
	var lines []byte
	for i := range 8 {
		ev := events.Event{ID: fmt.Sprint("hop-", i), Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: "stopped",
			From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}, HadWork: events.No, Content: events.Hash{Algorithm: events.SHA256, Value: 1}}
		if i%2 == 1 {
			ev.From, ev.To = ev.To, ev.From
		}
		lines = append(ev.AppendJSON(lines), '\n')
	}
	resp, err := http.Post("http://"+address+"/v1/events", "application/x-ndjson", bytes.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("the hops: %s", resp.Status)
	}
	until("the order", func() bool { d := g.Check(ctx, stopped); return d.Stopped() })
	back("up")

	if err := weir.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	away("paused")
	if err := weir.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	back("goes on")

	_ = weir.Process.Kill()
	_ = weir.Wait()
	away("killed")
	weir = startWeir(t, binary, filepath.Join(dir, "state"), address)
	back("restarted")
}
