package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/orders"
	"weir/events/byhand"
)

// drillCommand is weir drill: a stop that refuses nothing.
func drillCommand() cli.Command {
	return cli.Command{
		Name: "drill", Args: "SCOPE", Wants: cli.Wants(1, 1, "a SCOPE, such as all or agent:NAME"), Short: "test weir stop without stopping anything",
		Long: `Gives an order that takes the way of weir stop and refuses no call. It waits until all
guards and members have confirmed the order, and releases it. The report names each guard
and member that has not confirmed, and so would not obey a stop. The exit code is 1 then.
Without a connected guard it proves nothing about programs that make calls, and says so.

` + scopeHelp + `

The settings of --switch-file can run drills on a schedule.`,
		Examples: []string{`weir drill all --reason "weekly test" --token-file admin.token`},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			wait := fs.Duration("wait", 10*time.Second, "wait at most this `DURATION` for all guards to confirm, at most 30s")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				scope, err := byhand.ParseScope(args[0])
				if err != nil {
					return cli.Usage("%v", err)
				}
				by, err := h.signed(env)
				if err != nil {
					return err
				}
				asked := api.OrderDrill{Scope: scope, Reason: *h.reason, By: by}
				if asked.WaitS, err = seconds("wait", *wait); err != nil {
					return err
				}
				return h.drill(ctx, env, asked)
			}
		},
	}
}

func (h *hand) drill(ctx context.Context, env *cli.Env, asked api.OrderDrill) error {
	var a orders.DrillReport
	if err := h.give(ctx, env, "/v1/order-drills", asked, &a); err != nil {
		return err
	}
	if err := env.Value(a, func() error { return printDrill(env, &a) }); err != nil {
		return err
	}
	if !a.Complete {
		return cli.Exit(cli.CodeFailure)
	}
	return nil
}

func printDrill(env *cli.Env, a *orders.DrillReport) error {
	r := a.Receipt
	have := cli.Count(int64(r.Members), "process") + " of weir and " + cli.Count(int64(r.Guards), "guard")
	if a.Complete {
		_, err := cli.Fprintf(env.Out, "%s would obey a stop of %s, within %d ms; nothing was stopped\n", have, a.Scope, a.TookMS)
		if err == nil && a.Unproven != "" {
			_, err = cli.Fprintf(env.Out, "not proven: %s\n", a.Unproven)
		}
		return err
	}
	if _, err := cli.Fprintf(env.Out, "%s would obey a stop of %s; these would not:\n", have, a.Scope); err != nil {
		return err
	}
	for _, m := range r.Missing {
		if _, err := cli.Fprintf(env.Out, "  guard %s (%s): %s\n", m.Guard, m.Instance, m.Why); err != nil {
			return err
		}
	}
	for _, why := range r.Unreached {
		if _, err := cli.Fprintf(env.Out, "  %s\n", why); err != nil {
			return err
		}
	}
	return nil
}
