// Package checktest sends checks to a weir by stream, batch and request, and holds that each gets
// one answer, which is its own.
package checktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
)

// The kinds of checks. A weir that plants panics does so in flows with Panic in their names.
const (
	Allowed = "allowed"
	Refused = "refused"
	Held    = "held" // a call of a tool, by HeldLimits
	Wrong   = "wrong"
	Panic   = "panic"
)

// HeldLimits has a flow wait for a person with its first call of a tool.
const HeldLimits = "profile: balanced\nrules: {max_tool_calls: {stop: 1, action: hold}}\n"

// Checks are lines that ask, each in a flow of its own, and what their answers have to be.
type Checks struct {
	// Excused are statuses that any check may have, as while a peer is away.
	Excused []int

	lines [][]byte
	calls []guard.Call
	flows []string
	kinds []string
}

var statusOf = map[string]int{Allowed: http.StatusOK, Refused: http.StatusBadRequest, Held: http.StatusPaymentRequired, Wrong: http.StatusBadRequest, Panic: http.StatusInternalServerError}

// New makes so many checks of the kinds.
func New(random *rand.Rand, name string, count int, kinds ...string) *Checks {
	c := new(Checks)
	for n := range count {
		kind := kinds[random.IntN(len(kinds))]
		flow := fmt.Sprintf("%s-%s-%d", name, kind, n)
		ev := pumptest.Call(flow, n, "a-"+flow, "b-"+flow)
		switch kind {
		case Refused:
			ev = pumptest.SelfCall(flow, n)
		case Held:
			ev.Kind, ev.Tool.Name = events.ToolCall, "t"
		}
		line := ev.AppendJSON(nil)
		if kind == Wrong {
			line = line[:len(line)-1]
		}
		c.calls = append(c.calls, guard.CallIn(ev))
		c.lines, c.flows, c.kinds = append(c.lines, line), append(c.flows, flow), append(c.kinds, kind)
	}
	return c
}

// Count returns how many checks are of a kind.
func (c *Checks) Count(kind string) (n int) {
	for _, k := range c.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// answered holds that the body is that to a check: a verdict names its flow.
func (c *Checks) answered(t testing.TB, n, status int, body string) {
	t.Helper()
	if n < 0 || n >= len(c.lines) {
		t.Errorf("an answer to line %d of %d", n+1, len(c.lines))
		return
	}
	if slices.Contains(c.Excused, status) {
		return
	}
	verdict := c.kinds[n] == Allowed || c.kinds[n] == Refused || c.kinds[n] == Held
	if status != statusOf[c.kinds[n]] || verdict != strings.Contains(body, `"correlation_id":"`+c.flows[n]+`"`) {
		t.Errorf("the answer to %s has status %d and body %s", c.flows[n], status, body)
	}
}

// answer is one line of a stream or a batch.
type answer struct {
	Line, Status int
	Body         json.RawMessage
}

// Stream sends all checks on one stream, cut anywhere, and reads one answer to each.
// half is called when half of the answers have come; it may be nil.
func (c *Checks) Stream(t testing.TB, address string, random *rand.Rand, half func()) {
	body, out := io.Pipe()
	defer out.Close()
	go func() {
		text := append(bytes.Join(c.lines, []byte{'\n'}), '\n')
		for len(text) > 0 {
			part := min(len(text), 1+random.IntN(64<<10))
			if _, err := out.Write(text[:part]); err != nil {
				return
			}
			text = text[part:]
		}
		_ = out.Close()
	}()
	resp, err := http.Post("http://"+address+check.StreamPath, "application/x-ndjson", body)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	seen := make(map[int]bool)
	in := json.NewDecoder(resp.Body)
	for len(seen) < len(c.lines) {
		var got answer
		if err := in.Decode(&got); err != nil || seen[got.Line] {
			t.Errorf("%d of %d answers, then line %d: %v", len(seen), len(c.lines), got.Line, err)
			return
		}
		seen[got.Line] = true
		c.answered(t, got.Line-1, got.Status, string(got.Body))
		if half != nil && len(seen) == (len(c.lines)+1)/2 {
			half()
		}
	}
	if in.More() {
		t.Error("more answers than lines")
	}
}

// Batch sends all checks, at most check.MostAsks, in one request.
func (c *Checks) Batch(t testing.TB, address string) {
	resp, err := http.Post("http://"+address+"/v1/check", "application/x-ndjson", bytes.NewReader(bytes.Join(c.lines, []byte{'\n'})))
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	in := json.NewDecoder(resp.Body)
	for n := range c.lines {
		var got answer
		if err := in.Decode(&got); err != nil {
			t.Errorf("%d of %d answers: %v", n, len(c.lines), err)
			return
		}
		c.answered(t, n, got.Status, string(got.Body))
	}
	if in.More() {
		t.Error("more answers than lines")
	}
}

// Requests sends each check in a request of its own.
func (c *Checks) Requests(t testing.TB, address string) {
	for n, line := range c.lines {
		resp, err := http.Post("http://"+address+"/v1/check", "application/json", bytes.NewReader(line))
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Error(err)
			return
		}
		c.answered(t, n, resp.StatusCode, string(body))
	}
}

// Guard sends all checks at one time by a Go guard, whose decisions have to be those of weir: only
// Allowed and Held are for it.
func (c *Checks) Guard(t testing.TB, address string) {
	g, err := guard.New(guard.Options{URL: "http://" + address, Quiet: true, AskTimeout: 5 * time.Minute})
	if err != nil {
		t.Error(err)
		return
	}
	defer g.Close()
	var all sync.WaitGroup
	for n, call := range c.calls {
		all.Go(func() {
			d := g.Ask(t.Context(), call)
			held := d.Action == events.Hold && d.Verdict.CorrelationID == c.flows[n]
			if d.Source != guard.FromWeir || d.Stopped() != (c.kinds[n] == Held) || d.Stopped() != held {
				t.Errorf("the decision about %s is %s by %s, by %+v", c.flows[n], d.Action, d.Source, d.Verdict)
			}
		})
	}
	all.Wait()
}
