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
	"weir/events/byhand"
)

// scopeHelp says what a scope is.
const scopeHelp = `SCOPE is all, or one of tenant, team, project, principal, service, agent, tool, model,
tree and flow with a value behind a colon. In a value * stands for any text and ? for one
character: agent:billing-*. Quote it.`

// stopScopeCommand is weir stop: an order by hand about a scope.
func stopScopeCommand() cli.Command {
	return cli.Command{
		Name: "stop", Args: "SCOPE", Wants: cli.Wants(1, 1, "a SCOPE, such as all or agent:NAME"), Short: "stop all calls, or those of a tenant, an agent, a tool and so on",
		Long: `Refuses every check of the scope until the order expires or is released. That includes
flows, agents and schedules that begin later, and a user's message. A second order for
the same scope replaces the first.

` + scopeHelp + `

An exception of agents (--except agent:NAME) holds for calls of which caller and callee
are excepted. The running weir has to have an admin token, and wants it.

With --wait the exit code is 1 if a guard or a member of weir has not confirmed the order
in time. The receipt names each. The order is in force all the same. The exit code is 3 if
nothing is stopped yet, because a second person has to confirm the order.`,
		Examples: []string{
			`weir stop all --reason "runaway bill" --wait 10s --token-file admin.token`,
			`weir stop all --reason "bad release" --for 2h --except agent:billing --token-file admin.token`,
			`weir stop 'agent:crawler-*' --reason "ignores robots.txt" --token-file admin.token`,
			`weir stop tool:shell --within tenant:acme --reason "audit" --token-file admin.token`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			long := fs.Duration("for", events.DefaultStop, "it lasts for this `DURATION`")
			scopes := newScopeFlags(fs)
			wait := fs.Duration("wait", 0, "wait at most this `DURATION` for all guards to confirm, and print the receipt")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				order, err := scopes.order(env, h, args, *long)
				if err != nil {
					return err
				}
				if *wait > 0 {
					return h.stopAndWait(ctx, env, order, *wait)
				}
				return h.stopScope(ctx, env, order)
			}
		},
	}
}

// scopeFlags are the flags that say which calls of a scope are meant.
type scopeFlags struct{ within, except *[]string }

func newScopeFlags(fs *pflag.FlagSet) *scopeFlags {
	return &scopeFlags{fs.StringArray("within", nil, "only calls that are also in this `SCOPE`; repeatable"),
		fs.StringArray("except", nil, "allow calls of this `SCOPE`; repeatable")}
}

// order builds the request to weir.
func (s *scopeFlags) order(env *cli.Env, h *hand, args []string, long time.Duration) (o api.HandOrder, err error) {
	if o.Scope, err = byhand.ParseScope(args[0]); err != nil {
		return o, cli.Usage("%v", err)
	}
	for _, list := range []struct {
		flag  string
		texts []string
		to    *[]byhand.Scope
	}{{"within", *s.within, &o.Within}, {"except", *s.except, &o.Except}} {
		for _, text := range list.texts {
			scope, err := byhand.ParseScope(text)
			if err != nil {
				return o, cli.Usage("--%s: %v", list.flag, err)
			}
			*list.to = append(*list.to, scope)
		}
	}
	given, err := h.order(env, long)
	if err != nil {
		return o, err
	}
	if given.ForS == 0 {
		return o, cli.Usage("--for 0: an order that ends at once stops nothing")
	}
	o.Reason, o.By, o.ForS = given.Reason, given.By, given.ForS
	return o, nil
}

// stopScope gives the order.
func (h *hand) stopScope(ctx context.Context, env *cli.Env, o api.HandOrder) error {
	var given givenOrder
	if err := h.give(ctx, env, "/v1/orders", o, &given); err != nil {
		return err
	}
	a := given.HandOrderView
	if given.waits() {
		return given.print(env)
	}
	return env.Value(a, func() error {
		if _, err := cli.Fprintf(env.Out, "%s %s until %s\n", scopeText(&a), env.Painted("is stopped", cli.Bad), a.Expires); err != nil {
			return err
		}
		if !a.Recorded {
			env.Notice("the order is in force, but it is not recorded yet: weir tries again until it is")
		}
		env.Notice("order %s by %s; release it with: weir release %s", a.ID, a.By, a.ID)
		return nil
	})
}

// scopeText is what an order is about, for people.
func scopeText(a *api.HandOrderView) string {
	text := a.Scope.String()
	if len(a.Within) > 0 {
		text += " within " + byhand.ScopesText(a.Within)
	}
	if len(a.Except) > 0 {
		text += " except " + byhand.ScopesText(a.Except)
	}
	return text
}

// releaseScopeCommand is weir release.
func releaseScopeCommand() cli.Command {
	return cli.Command{
		Name: "release", Args: "SCOPE", Wants: cli.Wants(1, 1, "a SCOPE, such as all or agent:NAME, or the id of an order"), Short: "release an order of weir stop",
		Long: `Calls of the scope may be made again. Give the scope as it was stopped, with the same
--within, or the id of the order. What rules have stopped stays stopped; weir flows
release releases that.`,
		Examples: []string{`weir release all --reason "rolled back" --token-file admin.token`},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			within := fs.StringArray("within", nil, "the `SCOPE` that the stop was given within; may be repeated")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				by, err := h.signed(env)
				if err != nil {
					return err
				}
				path := "/v1/orders/" + url.PathEscape(args[0])
				if len(*within) > 0 {
					path += "?" + url.Values{"within": *within}.Encode()
				}
				return h.releaseScope(ctx, env, path, args[0], api.HandRelease{Reason: *h.reason, By: by})
			}
		},
	}
}

func (h *hand) releaseScope(ctx context.Context, env *cli.Env, path, name string, asked api.HandRelease) error {
	c, err := h.Client(env)
	if err != nil {
		return err
	}
	var a api.HandOrderView
	if err := c.Call(ctx, http.MethodDelete, path, asked, &a); client.NotFound(err) {
		return notStopped(ctx, c, name)
	} else if err != nil {
		return wantsAdmin(err)
	}
	return env.Value(a, func() error {
		_, err := cli.Fprintf(env.Out, "%s is released\n", scopeText(&a))
		return err
	})
}

// notStopped is the error that there is no such order. It names one of the same scope within others.
func notStopped(ctx context.Context, c *client.Client, name string) error {
	var list api.HandOrderList
	if err := c.Get(ctx, "/v1/orders", &list); err != nil {
		return err
	}
	for i := range list.Orders {
		o := &list.Orders[i]
		if o.Scope.String() != name {
			continue
		}
		return cli.Failure("there is no such order; the active one is: %s", scopeText(o)).Advise("%s", releaseOf(o))
	}
	return cli.Failure("%s is not stopped by hand", name).Advise("weir orders ls lists what is")
}

// releaseOf is the command that releases an order.
func releaseOf(o *api.HandOrderView) string {
	command := "weir release " + quoted(o.Scope.String())
	for _, s := range o.Within {
		command += " --within " + quoted(s.String())
	}
	return command + " --reason TEXT"
}

// ordersCommand is weir orders: the orders by hand, and links that give one.
func ordersCommand() cli.Command {
	return cli.Command{Name: "orders", Short: "list orders by hand, make links for them", Commands: []cli.Command{
		{
			Name: "ls", Short: "list the active orders by hand",
			Long: `Orders of weir stop. Stops of single flows are listed by weir flows ls. A stop that waits
for a second person has the state waits, how long it would last, and until when it waits.`,
			Examples: []string{"weir orders ls", "weir orders ls --all -o json"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				server := client.NewServerFlags(fs)
				all := fs.Bool("all", false, "those as well that were released or have expired lately")
				return func(ctx context.Context, env *cli.Env, _ []string) error {
					return listOrders(ctx, env, server, *all)
				}
			},
		},
		linkCommand(), confirmCommand(), withdrawCommand(), validateOrdersCommand(),
	}}
}

func listOrders(ctx context.Context, env *cli.Env, server *client.ServerFlags, all bool) error {
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	path := "/v1/orders"
	if all {
		path += "?all=1"
	}
	var list api.HandOrderList
	if err := c.Get(ctx, path, &list); err != nil {
		return err
	}
	second, err := waiting(ctx, c)
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(v *any) []cli.Cell {
		if p, waits := (*v).(*waitingStop); waits {
			return p.cells()
		}
		a := (*v).(*api.HandOrderView)
		state := "stopped"
		if !a.Active {
			state = "ended"
		}
		return []cli.Cell{{Text: a.ID}, {Text: scopeText(a)}, {Text: state}, {Text: a.Since.String()}, {Text: a.Expires.String()}, {Text: a.By}, {Text: a.Reason}}
	}, "ORDER", "SCOPE", "STATE", "SINCE", "UNTIL", "BY", "REASON")
	rows := make([]any, 0, len(list.Orders)+len(second))
	for i := range list.Orders {
		rows = append(rows, &list.Orders[i])
	}
	for _, p := range second {
		rows = append(rows, &waitingStop{p, true})
	}
	if err := lines.All(rows); err != nil {
		return err
	}
	if len(list.Orders) == 0 {
		env.Notice("nothing is stopped by hand")
	}
	for _, p := range second {
		env.Notice("a second person confirms the stop of %s with: weir orders confirm %s", p.Scope, p.ID)
	}
	return nil
}

// linkCommand is weir orders link.
func linkCommand() cli.Command {
	return cli.Command{
		Name: "link", Args: "SCOPE", Wants: cli.Wants(1, 1, "a SCOPE, such as all or agent:NAME"), Short: "make a link that gives one order, once, without a token",
		Long: `Prints a URL for a phone or an incident tool. Opening it shows the order with a button; a
POST without a body gives it. Every holder of the link can give the order. The link ends
when it is used, when it expires, and when the order is changed otherwise.

` + scopeHelp,
		Examples: []string{`weir orders link all --valid 8h --reason "on call" --for 1h --token-file admin.token`,
			`curl -X POST "$(weir orders link tool:shell --reason "incident" --token-file admin.token)"`},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			long := fs.Duration("for", events.DefaultStop, "the stop lasts for this `DURATION` from when it is given")
			valid := fs.Duration("valid", 15*time.Minute, "the link is valid for this `DURATION`, at most 24h")
			release := fs.Bool("release", false, "make a link that releases the scope")
			scopes := newScopeFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				order, err := scopes.order(env, h, args, *long)
				if err != nil {
					return err
				}
				asked := api.HandLink{HandOrder: order, Order: byhand.Stop}
				if *release {
					asked.Order, asked.ForS = byhand.Release, 0
				}
				if asked.ValidS, err = seconds("valid", *valid); err != nil {
					return err
				}
				var a api.HandLinkAnswer
				if err := h.give(ctx, env, "/v1/order-links", asked, &a); err != nil {
					return err
				}
				return env.Value(a, func() error {
					_, err := cli.Fprintf(env.Out, "%s\n", a.URL)
					env.Notice("valid until %s, for one order", a.Until)
					return err
				})
			}
		},
	}
}
