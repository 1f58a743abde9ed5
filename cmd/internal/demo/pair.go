package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/operate"
	"weir/events"
	"weir/sink/guard"
)

// pair is two agents that cannot stop to thank each other, and what stands between them.
//
// Nothing of it is made up: two servers, a running weir and the guard that dispatchers use.
type pair struct {
	env    *cli.Env
	agents map[string]string // address by name
	// Only calls that were sent.
	calls int
}

// playPair starts a weir in memory and two agents, each a server of its own, and lets
// them talk through a dispatcher until weir cuts it short.
//
// The port is any that is free. pace is how long each agent takes for its answer.
func playPair(ctx context.Context, env *cli.Env, pace time.Duration) (err error) {
	a, err := app.New(app.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), operate.Graceful)
		defer cancel()
		err = errors.Join(err, a.Stop(end))
	}()
	// The guard follows the orders and asks before each call, like that of any Go program.
	g, err := guard.New(guard.Options{URL: client.URLOf(a.Addr()), Source: "demo"})
	if err != nil {
		return err
	}
	defer g.Close()
	p := &pair{env: env, agents: map[string]string{}}
	// Each says one sentence, whatever it hears, so the hash of it comes again and again.
	for name, line := range map[string]string{
		"planner": "Thank you, that looks good. Over to you for a last look.",
		"coder":   "Thank you, nothing to add from my side. Over to you.",
	} {
		server, address, err := startAgent(line, pace)
		if err != nil {
			return err
		}
		// Both are open until the talk is over.
		defer server.Close()
		p.agents[name] = address
	}
	if _, err := cli.Fprintf(env.Out, "Two agents, each a server of its own, and between them a dispatcher that asks weir\nbefore each call. They have finished, but they keep thanking each other.\n\n"); err != nil {
		return err
	}
	return p.dispatch(ctx, g)
}

// dispatch is the dispatcher: it checks, sends, and swaps the two, until weir refuses a call.
//
// It reports of each call that no work was done before. A dispatcher knows this best, and
// without it weir has to be more patient (see decision 4).
func (p *pair) dispatch(ctx context.Context, g *guard.Guard) error {
	from, to, text := "planner", "coder", "The report is done. Anything to add?"
	for {
		// weir receives only the hash of the words.
		d := g.Ask(ctx, guard.Call{Flow: "thanks", From: from, To: to, ContentHash: hashOf(text), HadWork: events.No})
		if d.Stopped() {
			return p.cut(from, to, &d)
		}
		answer, err := p.send(ctx, from, to, text)
		if err != nil {
			return err
		}
		from, to, text = to, from, answer
	}
}

// hashOf lets weir know an answer again without reading it.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// send hands a message to an agent and returns what it wants to say next.
func (p *pair) send(ctx context.Context, from, to, text string) (string, error) {
	p.calls++
	if _, err := cli.Fprintf(p.env.Out, "call %-2d  %-7s -> %-7s  %s\n", p.calls, from, to, text); err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.agents[to], strings.NewReader(text))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	// It is a server like any other, so its answer is bounded.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return string(answer), err
}

// cut prints what happened to the call that was refused.
//
// A guard may also stop because it got no answer; then its error is all there is to print.
func (p *pair) cut(from, to string, d *guard.Decision) error {
	// The same error that a dispatcher in Go gets, with all that it says.
	stop, ok := errors.AsType[*guard.Stop](d.Err())
	if !ok {
		return d.Err()
	}
	_, err := cli.Fprintf(p.env.Out, "%s  %-7s -> %-7s  not sent\n\nwhy:             %s\nadvice:          %s\nthe model reads: %s\n",
		p.env.Painted("refused", cli.Bad), from, to, because(stop.Message), stop.Advice, stop.AgentMessage)
	return err
}

// startAgent starts an agent that gives the same answer to whatever it hears.
//
// The caller closes the server. The address is a URL on loopback, with a port that is free.
func startAgent(line string, pace time.Duration) (*http.Server, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(pace): // it thinks
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, line)
	})}
	go func() { _ = s.Serve(l) }() // until it is closed
	return s, client.URLOf(l.Addr().String()), nil
}
