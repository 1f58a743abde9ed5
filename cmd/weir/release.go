package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
)

// releaseHold is for how long rules leave a flow alone that a person has released: long
// enough to see how it goes on.
const releaseHold = 10 * time.Minute

func releaseCommand() cli.Command {
	return cli.Command{
		Name: "release", Args: "FLOW", Short: "take back what stands against a flow",
		Long: `Takes back all orders against the flow, those of rules and those of people, and keeps
rules from stopping it again for a while. Budgets stay used up: with --for 0 a flow that
was at a limit is stopped again by its next call. weir limits override gives it more.
The running weir has to have an admin token, and wants it.`,
		Examples: []string{`weir flows release order-77 --reason "meant to repeat" --for 30m --token-file admin.token`},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			long := fs.Duration("for", releaseHold, "no rule stops it again for this `DURATION`")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if err := cli.Want(args, 1, 1, "the id of a FLOW"); err != nil {
					return err
				}
				o, err := h.order(env, *long)
				if err != nil {
					return err
				}
				return h.release(ctx, env, args[0], o)
			}
		},
	}
}

func (h *hand) release(ctx context.Context, env *cli.Env, flow string, o api.OperatorOrder) error {
	var a api.OperatorAnswer
	if err := h.give(ctx, env, flowPath(flow, "release"), o, &a); err != nil {
		return err
	}
	return env.Value(a, func() error {
		if _, err := fmt.Fprintf(env.Out, "%s %s", a.Flow, env.Painted("is released", cli.Good)); err != nil {
			return err
		}
		for i, v := range verdictsOf(&a) {
			word := "; taken back: "
			if i > 0 {
				word = ", "
			}
			if _, err := fmt.Fprint(env.Out, word, v.RuleID); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(env.Out); err != nil {
			return err
		}
		if a.New {
			env.Notice("this weir knows nothing of %s: weir flows ls lists what it knows", a.Flow)
		} else if len(a.Verdicts) == 0 {
			env.Notice("nothing stood against it that weir has told of in time; weir flows show %s tells how it stands", a.Flow)
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return nil
	})
}
