package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/events"
)

// releaseHold is for how long rules leave a flow alone that a person has released: long
// enough to see how it goes on.
const releaseHold = 10 * time.Minute

// releaseCommand is weir flows release: a person takes back what stands against one flow.
// Budgets are not given back; that is weir flows grant.
func releaseCommand() cli.Command {
	return cli.Command{
		Name: "release", Args: "FLOW", Wants: cli.Wants(1, 1, "the id of a FLOW"), Short: "lift all orders against a flow",
		Long: `Lifts all orders against the flow, those of rules and of people, and keeps rules from
stopping it again for a while. Budgets stay used up: with --for 0 a flow at a limit is
stopped by its next call. weir flows grant gives it more. The running weir must have an
admin token, and requires it.`,
		Examples: []string{`weir flows release order-77 --reason "meant to repeat" --for 30m --token-file admin.token`},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			// Else a flow whose budget is used up would be stopped again by its next call.
			long := fs.Duration("for", releaseHold, "no rule stops it again for this `DURATION`")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				// Here 0 is a duration like any other: it takes orders back and keeps rules
				// from nothing.
				o, err := h.order(env, *long)
				if err != nil {
					return err
				}
				return h.release(ctx, env, args[0], o)
			}
		},
	}
}

// release sends the order and prints which orders were lifted, as far as the fold has come to it
// by the time of the answer.
func (h *hand) release(ctx context.Context, env *cli.Env, flow string, o api.OperatorOrder) error {
	var a api.OperatorAnswer
	// It returns when the order is in the log, which is not yet when the fold has come to it.
	if err := h.give(ctx, env, flowPath(flow, "release"), o, &a); err != nil {
		return err
	}
	return env.Value(a, func() error {
		if _, err := cli.Fprintf(env.Out, "%s %s", a.Flow, env.Painted("is released", cli.Good)); err != nil {
			return err
		}
		// The orders lifted by then; the stream of verdicts reports the rest.
		for i, v := range verdictsOf(&a) {
			// By their rules, each once for each order.
			word := "; taken back: "
			if i > 0 {
				word = ", "
			}
			if _, err := cli.Fprintf(env.Out, "%s%s", word, v.RuleID); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(env.Out); err != nil {
			return err
		}
		if a.New {
			env.Notice("this weir knows nothing of %s: weir flows ls lists what it knows", a.Flow)
		} else if len(a.Verdicts) == 0 {
			env.Notice("weir has not reported yet that an order was lifted; weir flows show %s shows the state", a.Flow)
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return nil
	})
}

// grantCommand is weir flows grant: more of what budgets count, for one flow. Unlike an
// override it says how much more and not up to where, so who grants need not know what was
// used. See decision 62.
func grantCommand() cli.Command {
	return cli.Command{
		Name: "grant", Args: "FLOW", Wants: cli.Wants(1, 1, "the id of a FLOW"), Short: "let a flow use more than its limits, for a while",
		Long: `Gives one flow more than the active limits allow, or more than it has used if that is
higher. Orders of these limits against it are lifted at once. The extra ends when it is
used up or expires; grants add up. The log records author and reason. Calls are those of
tools and between agents. Spawns are subagents and flows of the tree that may start.
Each limit of that measure gets the extra, including those of the flow's tree. Patterns
are not budgets: use weir flows release. The running weir requires its admin token.`,
		Examples: []string{
			`weir flows grant order-77 --calls 20 --until 1h --reason "nearly done"`,
			`weir flows grant order-77 --spawns 3 --until 8h --reason "three helpers are fine"`,
			`weir flows grant order-77 --tokens 200000 --cost 2.50 --until 2026-12-01T00:00:00Z --reason "large order"`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			// 0 grants nothing of it, as does a flag that is not given.
			calls := fs.Int64("calls", 0, "grant `MANY` more calls")
			spawns := fs.Int64("spawns", 0, "let `MANY` more subagents or flows of the tree start")
			tokens := fs.Int64("tokens", 0, "grant `MANY` more tokens")
			cost := fs.Float64("cost", 0, "grant `DOLLARS` more")
			long := fs.Duration("duration", 0, "let it last `DURATION` longer")
			// It always expires, so that no exception lasts for ever.
			until := fs.String("until", "1h", "the extra ends at this `TIME`, such as 2026-12-01T00:00:00Z, or after so long")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				// The server finds the limits that count what is granted, since it knows those
				// in force.
				o := api.GrantOrder{Calls: *calls, Spawns: *spawns, Tokens: *tokens, CostUSD: *cost, Reason: *h.reason}
				// Written so that NaN is refused, too.
				if !(o.CostUSD >= 0 && o.CostUSD <= api.MostGranted) {
					return cli.Usage("--cost %v: want dollars, at most %.0f", o.CostUSD, api.MostGranted)
				}
				// One of them is enough; the others stay as they are.
				if o.Calls <= 0 && o.Spawns <= 0 && o.Tokens <= 0 && o.CostUSD == 0 && *long <= 0 {
					return cli.Usage("nothing is granted").Advise("give --calls, --spawns, --tokens, --cost or --duration, each above 0")
				}
				var err error
				if o.DurationS, err = seconds("duration", *long); err != nil {
					return err
				}
				// How long is tried first: no time of day reads as a duration. Of the two one
				// is sent, and the server counts a duration from when it takes the order.
				if d, wrong := time.ParseDuration(*until); wrong == nil {
					if o.ForS, err = seconds("until", d); err == nil && d == 0 {
						err = cli.Usage("--until %s: the extra would be over at once", *until)
					}
				} else if _, ok := events.ParseStamp(*until); ok {
					o.Expires = *until
				} else {
					err = cli.Usage("--until %s: want a time such as 2026-12-01T00:00:00Z, or how long, such as 1h", *until)
				}
				if err != nil {
					return err
				}
				if o.By, err = h.signed(env); err != nil {
					return err
				}
				return h.grant(ctx, env, args[0], &o)
			}
		},
	}
}

// grant sends the order and says which limits have more: one override for each that counts
// what was granted.
func (h *hand) grant(ctx context.Context, env *cli.Env, flow string, o *api.GrantOrder) error {
	var a api.GrantAnswer
	err := h.give(ctx, env, flowPath(flow, "grant"), o, &a)
	if e, ok := errors.AsType[*client.StatusError](err); ok && e.Status == http.StatusUnprocessableEntity {
		return cli.Failure("no limit in force counts what is granted").Advise("give what the limit counts: --calls, --spawns, --tokens, --cost or --duration; weir explain %s shows the limits", quoted(flow))
	}
	if err != nil {
		return err
	}
	return env.Value(a, func() error {
		if _, err := cli.Fprintf(env.Out, "%s has more of %s until %s\n", a.Flow, strings.Join(a.Rules, ", "), a.Until); err != nil {
			return err
		}
		if a.New {
			env.Notice("this weir has not heard of %s before: it holds for when it comes", a.Flow)
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return nil
	})
}
