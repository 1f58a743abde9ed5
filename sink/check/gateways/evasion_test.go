//go:build linux

package gateways

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	real "weir/cmd/weirtest/gateway"
)

// TestEvasion plays callers that bring an id of their own choice with each call, through
// each gateway, against a limit of ten calls. Whoever has a name at the gateway is counted
// by it; who has none, by where it is.
func TestEvasion(t *testing.T) {
	binary := build(t)
	for _, g := range all() {
		t.Run(strings.ReplaceAll(g.name, " ", "_"), func(t *testing.T) {
			c := through(t, g, binary, "profile: gateway\n")
			serial := 0
			forged := func(int) []string { // by all that could name a flow or a caller
				serial++
				i, id := serial, fmt.Sprint("forged-", serial)
				return []string{"X-Correlation-Id", id, "Correlation-Id", id, "Baggage", "correlation_id=" + id, "X-Session-Id", id, "X-Agent-Id", id,
					"X-Task-Id", id, "X-Forwarded-User", id, "X-Forwarded-For", fmt.Sprint("10.0.0.", i), "X-Real-Ip", fmt.Sprint("10.0.0.", i),
					"Weir-Principal", id, "Traceparent", fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)}
			}
			for _, evasion := range []struct {
				about, user string
				headers     func(i int) []string
			}{
				{"a new id for each call", "alice", func(i int) []string { return []string{"X-Correlation-Id", fmt.Sprint("new-", i)} }},
				{"no ids", "bob", func(int) []string { return nil }},
				{"forged ids", "carol", forged},
				{"an id of the flow of somebody else", "dave", func(int) []string {
					return []string{"X-Correlation-Id", "principal:erin", "Mcp-Session-Id", "principal:erin", "Weir-Principal", "erin"}
				}},
				{"many sessions of one principal", "erin", func(i int) []string { return []string{"Mcp-Session-Id", fmt.Sprint("session-", i)} }},
				{"forged ids of nobody", "", forged},
			} {
				if n := c.tries(evasion.user, real.Password, 14, func(i int) []string {
					return append(evasion.headers(i), "X-Goal-Turn", fmt.Sprint(i/4))
				}); n != 10 {
					t.Errorf("%s: %d of 14 calls passed, want 10", evasion.about, n)
				}
			}
			// Who does not know the password uses up nothing of whose name it is.
			if n := c.tries("frank", "guess", 14, func(i int) []string { return []string{"X-Goal-Turn", fmt.Sprint(i / 4)} }); n != 0 {
				t.Errorf("%d calls passed with a wrong password", n)
			}
			// Back and forth between two turns is a new turn each time: five of them, and then
			// the four calls that may be chained in the last.
			if n := c.tries("frank", real.Password, 14, func(i int) []string {
				return []string{"X-Correlation-Id", fmt.Sprint("flap-", i), "X-Goal-Turn", fmt.Sprint(i % 2)}
			}); n != 9 {
				t.Errorf("two turns in turn: %d of 14 calls passed, want 9", n)
			}
		})
	}
}

// tries calls the tool so many times with arguments of its own each time, as a user of the
// gateway or as nobody, and returns how many calls came through to it.
func (c *client) tries(user, password string, n int, headers func(i int) []string) int {
	c.Helper()
	before := c.hits.Load()
	path := "/mcp"
	if user != "" {
		path = "/users/mcp"
	}
	for i := range n {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":%d}}}`, i)
		r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+path, strings.NewReader(body))
		if err != nil {
			c.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		r.Header.Set("Content-Type", "application/json")
		if !c.body {
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "search")
		}
		for h := headers(i); len(h) > 0; h = h[2:] {
			r.Header.Set(h[0], h[1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			c.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return int(c.hits.Load() - before)
}
