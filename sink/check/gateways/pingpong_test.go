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

// TestPingPong plays two agents that only write to each other by A2A through each gateway,
// which cannot know whether they worked in between, and who hides it by new ids.
func TestPingPong(t *testing.T) {
	binary := build(t)
	for _, g := range all() {
		t.Run(strings.ReplaceAll(g.name, " ", "_"), func(t *testing.T) {
			c := through(t, g, binary, "profile: gateway\n")
			// The third round is refused where the gateway sends the text along and it is the
			// same, the sixth where nobody can compare it.
			same := 5
			if !g.body {
				same = 11
			}
			for _, w := range []struct {
				about, user, text string
				headers           func(i int) []string
				want              int
			}{
				{"one id", "alice", "same", func(int) []string { return []string{"X-Correlation-Id", "one"} }, same},
				{"one id, other words", "frank", "", func(int) []string { return []string{"X-Correlation-Id", "two"} }, 11},
				{"a new id for each message", "bob", "same", func(i int) []string { return []string{"X-Correlation-Id", fmt.Sprint("new-", i)} }, same},
				{"no ids", "carol", "same", func(int) []string { return nil }, same},
				{"sessions, traces and addresses of their own", "dave", "same", func(i int) []string {
					return []string{"X-Session-Id", fmt.Sprint("s-", i), "Traceparent", fmt.Sprintf("00-%032x-%016x-01", i+1, i+1), "X-Forwarded-For", fmt.Sprint("10.0.0.", i)}
				}, same},
			} {
				if n := c.writes(w.user, w.text, 20, "ping-"+w.user, "pong-"+w.user, w.headers); n != w.want {
					t.Errorf("%s: %d of 20 messages passed, want %d", w.about, n, w.want)
				}
			}

			// Who takes another name with each message is nobody who answers anybody: messages of
			// one client end at a rate, those to one agent at the flows opened by them.
			c = through(t, g, binary, "profile: gateway\nrules: {call_rate_per_flow: {max: 12}, agent_flow_rate: {max: 6, warn: off}}\n")
			n := 0
			for i := range 20 {
				n += c.writes("erin", "same", 1, fmt.Sprint("mask-", i), fmt.Sprint("face-", i), func(int) []string { return []string{"X-Correlation-Id", fmt.Sprint("masked-", i)} })
			}
			if n != 12 {
				t.Errorf("names of their own for each message: %d of 20 passed, want the 12 of the rate", n)
			}
			// Two agents who are two users, with a new id for each message: no flow holds them
			// both. Six flows may be opened at each; the rule about agents comes a little later.
			n = 0
			for i := range 40 {
				users := [...]string{"alice", "bob"}
				from, to := users[i%2], users[(i+1)%2]
				n += c.writes(from, "same", 1, from, to, func(int) []string { return []string{"X-Correlation-Id", fmt.Sprint("apart-", i)} })
			}
			if n < 12 || n > 20 {
				t.Errorf("two users with a new id for each message: %d of 40 passed, want 12 and a few in flight", n)
			}
		})
	}
}

// writes sends so many messages between two agents in turn, as a user of the gateway, and
// returns how many came through. Without a text each has its own.
func (c *client) writes(user, text string, n int, a, b string, headers func(i int) []string) int {
	c.Helper()
	before := c.hits.Load()
	for i := range n {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		words := text
		if words == "" {
			words = fmt.Sprint("message number ", i, " of many")
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m-%d","parts":[{"kind":"text","text":%q}]}}}`, i, words)
		r, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+"/users/"+to, strings.NewReader(body))
		if err != nil {
			c.Fatal(err)
		}
		r.SetBasicAuth(user, real.Password)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Agent-Id", from)
		r.Header.Set("X-To-Agent", to)
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
