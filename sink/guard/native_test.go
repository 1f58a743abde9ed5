package guard

import (
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/events"
	"weir/events/fingerprint"
	"weir/sink/sign"
)

// driven is a guard of any language that runs commands, one at a time.
type driven interface {
	do(command map[string]any) map[string]any
	end() // after it has sent its reports
}

// native is the guard of this package in the place of one of another language.
type native struct {
	*testing.T
	o      Options
	g      *Guard
	logged noted
}

// nativeOf is a guard with the words that guards of other languages get in their command line, which is JSON.
func nativeOf(t *testing.T, words string) *native {
	t.Helper()
	var o struct {
		StaleS     float64 `json:"stale_s"`
		AskS       float64 `json:"ask_s"`
		Faulty     bool    `json:"faulty"`
		Keys       string  `json:"keys"`
		MostOrders int     `json:"most_orders"`
	}
	o.StaleS, o.AskS = 1, 1
	if err := json.Unmarshal([]byte(words), &o); err != nil {
		t.Fatal(err)
	}
	n := &native{T: t}
	n.o = Options{Source: "go", MostOrders: o.MostOrders, StaleAfter: time.Duration(o.StaleS * float64(time.Second)), AskTimeout: time.Duration(o.AskS * float64(time.Second)), Logger: slog.New(slog.NewTextHandler(&n.logged, nil))}
	if o.Faulty {
		n.o.Observe = func(Call, Decision) { panic("an observer that fails") }
	}
	if o.Keys != "" {
		keys, err := sign.Read(o.Keys)
		if err != nil {
			t.Fatal(err)
		}
		n.o.Keys = keys
	}
	return n
}

func (n *native) open(url string) {
	n.o.URL = url
	var err error
	if n.g, err = New(n.o); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(n.g.Close)
}

func (n *native) end() { n.g.Close() }

// nativeCommand is a command with what it may say.
type nativeCommand struct {
	Do         string          `json:"do"`
	URL        string          `json:"url"`
	MostOrders int             `json:"most_orders"`
	Call       callText        `json:"call"`
	Flow       string          `json:"flow"`
	Arguments  json.RawMessage `json:"arguments"`
	Message    string          `json:"message"`
	Result     string          `json:"result"`
	Error      string          `json:"error"`
	Tokens     int64           `json:"tokens"`
}

func (n *native) do(command map[string]any) map[string]any {
	n.Helper()
	text, err := json.Marshal(command)
	if err != nil {
		n.Fatal(err)
	}
	var c nativeCommand
	if err := json.Unmarshal(text, &c); err != nil {
		n.Fatal(err)
	}
	switch c.Do {
	case "open":
		if n.g != nil {
			n.g.Close()
		}
		n.o.MostOrders = c.MostOrders
		n.open(c.URL)
	case "state":
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		counts := n.g.Counts()
		return map[string]any{"stale": n.g.Stale(), "orders": float64(counts.Orders.Load()), "bounds": float64(n.g.bounds.Load().Calls), "unsigned": float64(counts.Unsigned.Load()),
			"forged": float64(counts.Forged.Load()), "replayed": float64(counts.Replayed.Load()), "unreadable": float64(counts.Unreadable.Load()), "peak_mib": float64(memory.Sys >> 20)}
	case "check":
		d := n.g.Check(n.Context(), c.Call.call())
		return told(&d)
	case "ask":
		d := n.g.Ask(n.Context(), c.Call.call())
		return told(&d)
	case "begin":
		return n.begin(&c)
	case "spent":
		n.g.Spent(n.Context(), Call{Flow: "f", From: "a"}, "m", events.Usage{Known: true, Input: 7, Output: 3, CacheRead: 6, CacheCreation: 5, CacheHour: 4, Reasoning: 2, CacheInInput: events.No, CostMicroUSD: 500_000})
	case "release":
		if err := n.g.Release(n.Context(), c.Flow, "ann", "a false alarm", time.Minute); err != nil {
			n.Error(err)
		}
	case "close":
		n.g.Close()
		return map[string]any{"logged": n.logged.lines()}
	default:
		n.Fatalf("the guard of Go cannot %s", c.Do)
	}
	return nil
}

// begin makes a call and reports its outcome, as package guarded does.
func (n *native) begin(c *nativeCommand) map[string]any {
	call := c.Call.call()
	if len(c.Arguments) > 0 {
		var text string
		if json.Unmarshal(c.Arguments, &text) == nil {
			c.Arguments = json.RawMessage(text)
		}
		call.ArgsHash, call.ArgsSim = fingerprint.Args(c.Arguments, nil).String(), fingerprint.ArgsText(c.Arguments).String()
	}
	if c.Message != "" {
		call.ContentHash = fingerprint.Content([]byte(c.Message)).String()
	}
	b := n.g.Begin(n.Context(), call)
	said := c.Result
	o := Outcome{Usage: events.Usage{Known: c.Tokens > 0, Input: c.Tokens}, Size: int64(len(c.Result))}
	if c.Error != "" {
		said, o.Err = c.Error, errors.New(c.Error)
	}
	o.Content, o.Sim = fingerprint.Content([]byte(said)).String(), fingerprint.Text([]byte(said)).String()
	b.Finish(o)
	b.Finish(Outcome{})
	return told(&b.Decision)
}

// noted keeps what a guard logs.
type noted struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *noted) lines() (out []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(n.text.String()) {
		out = append(out, line)
	}
	return out
}
