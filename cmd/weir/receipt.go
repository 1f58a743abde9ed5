package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/orders"
)

// receiptEvery is how often the receipt is asked for.
const receiptEvery = 200 * time.Millisecond

// stopAndWait gives an order and waits until all have confirmed it, or for so long.
func (h *hand) stopAndWait(ctx context.Context, env *cli.Env, o api.HandOrder, most time.Duration) error {
	var given givenOrder
	if err := h.give(ctx, env, "/v1/orders", o, &given); err != nil {
		return err
	}
	a := given.HandOrderView
	if given.waits() {
		return given.print(env)
	}
	c, err := h.Client(env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r, err := waitForReceipt(ctx, c, a.ID)
	if r == nil {
		return fmt.Errorf("%s is stopped until %s, and there is no receipt: %w", scopeText(&a), a.Expires, err)
	}
	if err := env.Value(r, func() error { return printReceipt(env, &a, r) }); err != nil {
		return err
	}
	if !r.Complete {
		return cli.Exit(cli.CodeFailure)
	}
	return nil
}

// waitForReceipt returns the first receipt that is complete, or the last one before ctx ends.
func waitForReceipt(ctx context.Context, c *client.Client, id string) (last *orders.Receipt, err error) {
	for {
		var r orders.Receipt
		if err = c.Get(ctx, "/v1/orders/"+id+"/receipt", &r); err == nil {
			if last = &r; r.Complete {
				return last, nil
			}
		}
		select {
		case <-time.After(receiptEvery):
		case <-ctx.Done():
			return last, err
		}
	}
}

// printReceipt says in sentences what was acknowledged, and by which guards it was not.
func printReceipt(env *cli.Env, a *api.HandOrderView, r *orders.Receipt) error {
	var b strings.Builder
	cli.Fprintf(&b, "%s is stopped until %s\n", scopeText(a), a.Expires)
	if r.Complete {
		cli.Fprintf(&b, "since %s no call in scope was admitted by a check\n", r.Since)
	} else {
		cli.Fprintf(&b, "not confirmed by all: calls in scope may still be made\n")
	}
	cli.Fprintf(&b, "%s of weir and %s have confirmed\n", cli.Count(int64(r.Members), "process"), cli.Count(int64(r.Guards), "guard"))
	for _, m := range r.Missing {
		cli.Fprintf(&b, "  missing: guard %s (%s): %s\n", m.Guard, m.Instance, m.Why)
	}
	if r.More > 0 {
		cli.Fprintf(&b, "  missing: %s more\n", cli.Count(int64(r.More), "guard"))
	}
	for _, why := range r.Unreached {
		cli.Fprintf(&b, "  missing: %s\n", why)
	}
	f := r.Flights
	cli.Fprintf(&b, "in flight at the stop: %d, ended %d (cancelled %d), running %d, unknown %d\n", f.Calls, f.Ended, f.Cancelled, f.Running, f.Unknown)
	for i := range r.Runtimes {
		cli.Fprintf(&b, "  %s\n", runtimeText(&r.Runtimes[i]))
	}
	for i := range f.Open {
		cli.Fprintf(&b, "  not ended: %s\n", openText(&f.Open[i]))
	}
	cli.Fprintf(&b, "calls observed after the stop: %d\n", r.Observed)
	// Each line by itself, because what is printed stays on its line.
	for line := range strings.Lines(b.String()) {
		if _, err := cli.Fprintf(env.Out, "%s\n", strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// openText names a call that has not ended, and says why.
func openText(c *orders.OpenSeen) string {
	to := c.To
	if c.Tool != "" {
		to = "tool " + c.Tool
	}
	text := fmt.Sprintf("flow %s, %s to %s, guard %s (%s): ", c.Flow, cmp.Or(c.From, "a person"), to, c.Guard, c.Instance)
	switch c.Cancel {
	case orders.CancelRequested:
		return text + "it was cancelled and still runs"
	case orders.CancelFailed:
		return text + "cancelling failed: " + c.Why
	}
	return text + "its program gives the guard no way to cancel it"
}

// runtimeText says what a runtime has answered to the request to cancel.
func runtimeText(p *orders.RuntimePart) string {
	switch p.State {
	case orders.RuntimeCancelled:
		text := fmt.Sprintf("runtime %s: took the request to cancel, cancelled %d", p.Runtime, p.Cancelled)
		for _, n := range p.NotCancelled {
			text += fmt.Sprintf("\n    not cancelled: flow %s: %s", n.Flow, n.Why)
		}
		return text
	case orders.RuntimeFailed:
		return fmt.Sprintf("runtime %s: refused to cancel: %s", p.Runtime, p.Why)
	}
	return strings.TrimSuffix(fmt.Sprintf("runtime %s: the request to cancel is not delivered yet: %s", p.Runtime, p.Why), ": ")
}
