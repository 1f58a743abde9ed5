//go:build linux

package gateways

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWeirAway holds each gateway to the table of README.md: what becomes of a call while
// weir is killed, paused, back, and without room on its disk. A gateway remembers
// nothing, so that it makes no difference whether the call was refused before.
func TestWeirAway(t *testing.T) {
	binary := build(t)
	f := func(g gateway, killed, paused, full int) {
		t.Helper()
		name := strings.ReplaceAll(g.name, " ", "_")
		if g.closed {
			name += "_closed"
		}
		t.Run(name, func(t *testing.T) {
			c := through(t, g, binary, "profile: none\nrules: {max_tool_calls: {max: 1}}\n")
			c.denied = http.StatusPaymentRequired // a budget that is used up, by default
			n := 0
			up := func() {
				t.Helper()
				n++
				session := fmt.Sprint("session ", n)
				c.passes(session, "1", "search", "0")
				c.refused(session, "1", "search", "1", `{"reason_code":"max_tool_calls_exceeded"`)
			}
			away := func(when string, want int) {
				t.Helper()
				for _, session := range []string{"session 1", "another"} {
					before := c.hits.Load()
					status, text, _ := c.call(session, "1", "search", "2")
					if passed := c.hits.Load() > before; status != want || passed != (want == http.StatusOK) {
						t.Errorf("%s: %d %s, passed %v; want %d", when, status, text, passed, want)
					}
				}
			}
			up()
			p := c.weir
			p.weir.Signal(syscall.SIGSTOP)
			stopped(t, p.weir.Cmd.Process.Pid)
			away("paused", paused)
			p.weir.Signal(syscall.SIGCONT)
			c.isBack()
			up()

			p.kill()
			away("killed", killed)
			p.run(t)
			c.isBack()
			up()

			p.kill()
			folder := filepath.Join(p.Folder, "state")
			if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1g"); err != nil {
				t.Skipf("MISSING: the right to mount a small disk (%v); NOT TESTED when it is full", err)
			}
			t.Cleanup(func() {
				p.kill()
				if err := syscall.Unmount(folder, 0); err != nil {
					t.Error(err)
				}
			})
			p.run(t)
			c.isBack()
			up()
			resize := func(size string) {
				t.Helper()
				if err := syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
					t.Fatal(err)
				}
			}
			resize("256m")
			p.isFull(t)
			away("full", full)
			resize("1g")
			c.isBack()
			up()
		})
	}
	for _, g := range all() {
		switch {
		case strings.HasPrefix(g.name, "envoy"):
			f(g, 200, 200, 200)
			g.closed = true
			f(g, 403, 403, 403)
		case g.name == "traefik": // waits for 30 s, which cannot be changed
			f(g, 500, 500, 503)
		case g.name == "caddy":
			f(g, 502, 504, 503)
		default:
			f(g, 500, 500, 500)
		}
	}
}

// stopped waits until the process stands still: a thread of it may still run when the
// signal is given.
func stopped(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			return
		}
		<-again.C
	}
}

// isFull waits until weir has found that its disk is full, which what was asked a moment ago need not
// have told it.
func (p *ports) isFull(t *testing.T) {
	t.Helper()
	resp, err := http.Post("http://127.0.0.1:"+p.Weir+"/v1/events", "application/json", strings.NewReader(eventOf(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode < 500 {
		t.Fatalf("an event is answered with %s on a full disk", resp.Status)
	}
}

// kill ends weir without a warning.
func (p *ports) kill() {
	p.weir.Kill()
}

// isBack waits until weir answers for the gateway again. It asks as a flow of its own.
func (c *client) isBack() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		// The second call of a session is refused by weir and by nobody else.
		session := fmt.Sprint("is back ", c.n)
		c.call(session, "1", "search", "0")
		if status, _, _ := c.call(session, "1", "search", "1"); status == cmp.Or(c.denied, http.StatusTooManyRequests) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			c.Fatal("weir does not come back for the gateway")
		}
	}
}
