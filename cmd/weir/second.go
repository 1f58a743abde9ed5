package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/events"
)

// givenOrder is the answer to an order: the order, or a proposal that a second person has to confirm.
type givenOrder struct {
	api.HandOrderView
	Until events.RFC3339 `json:"until,omitzero"`
}

func (g *givenOrder) waits() bool { return g.Until != 0 }

// print says that nothing is stopped, by the exit code as well.
func (g *givenOrder) print(env *cli.Env) error {
	err := env.Value(g, func() error {
		_, err := cli.Fprintf(env.Out, "%s is not stopped yet: a second person has to confirm it until %s\n", scopeText(&g.HandOrderView), g.Until)
		env.Notice("confirm it with: weir orders confirm %s", g.ID)
		return err
	})
	if err != nil {
		return err
	}
	return cli.Exit(cli.CodeFinding)
}

// confirmCommand is weir orders confirm.
func confirmCommand() cli.Command {
	return cli.Command{
		Name: "confirm", Args: "ID", Wants: cli.Wants(1, 1, "the ID of a proposal (see weir orders ls)"), Short: "confirm a stop that needs two persons",
		Long: `Gives a stop that another person has proposed. weir knows persons by the principals
of --access-file. The settings of --switch-file say which stops need two persons,
and how long the first waits. weir orders ls shows the stops that wait.`,
		Examples: []string{"weir orders confirm 0123456789abcdef --token-file ann.token"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			server := client.NewServerFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				var a api.HandOrderView
				if err := proposal(ctx, env, server, http.MethodPost, args[0], &a); err != nil {
					return err
				}
				return env.Value(a, func() error {
					_, err := cli.Fprintf(env.Out, "%s %s until %s\n", scopeText(&a), env.Painted("is stopped", cli.Bad), a.Expires)
					return err
				})
			}
		},
	}
}

// withdrawCommand is weir orders withdraw.
func withdrawCommand() cli.Command {
	return cli.Command{
		Name: "withdraw", Args: "ID", Wants: cli.Wants(1, 1, "the ID of a proposal (see weir orders ls)"), Short: "withdraw a stop that waits for a second person",
		Long:     "The stop is not given.",
		Examples: []string{"weir orders withdraw 0123456789abcdef --token-file ann.token"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			server := client.NewServerFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				var a api.OrderProposal
				if err := proposal(ctx, env, server, http.MethodDelete, args[0], &a); err != nil {
					return err
				}
				return env.Value(a, func() error {
					_, err := cli.Fprintf(env.Out, "the stop of %s is withdrawn\n", a.Scope)
					return err
				})
			}
		},
	}
}

// proposal sends a request about a proposal and decodes the answer.
func proposal(ctx context.Context, env *cli.Env, server *client.ServerFlags, method, id string, out any) error {
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	return wantsAdmin(c.Call(ctx, method, "/v1/order-proposals/"+url.PathEscape(id), nil, out))
}

// waitingStop is a line of weir orders ls about a stop that waits for a second person.
type waitingStop struct {
	api.OrderProposal
	Waits bool `json:"waits_for_second_person"`
}

func (p *waitingStop) cells() []cli.Cell {
	o := api.HandOrderView{Scope: p.Scope, Except: p.Except}
	long := time.Duration(p.ForS) * time.Second
	return []cli.Cell{{Text: p.ID}, {Text: scopeText(&o)}, {Text: "waits"}, {Text: "for " + long.String()}, {Text: p.Until.String()}, {Text: p.By}, {Text: p.Reason}}
}

// waiting returns the stops that wait for a second person.
func waiting(ctx context.Context, c *client.Client) ([]api.OrderProposal, error) {
	var list api.OrderProposalList
	err := c.Get(ctx, "/v1/order-proposals", &list)
	if client.NotFound(err) { // an older weir
		return nil, nil
	}
	return list.Proposals, err
}
