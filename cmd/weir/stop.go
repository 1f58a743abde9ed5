package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os/user"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/events"
	"weir/events/byhand"
)

// stopCommand is weir flows stop: a person's order, which stands like that of a rule and is
// given by an event in the log.
func stopCommand() cli.Command {
	return cli.Command{
		Name: "stop", Args: "[FLOW]", Short: "stop a flow by hand",
		Long: `Writes an order to the log of a running weir. Every call of the flow is refused until
the order expires or a person releases the flow. The log records author and reason. A
flow that is not known yet is stopped when it begins. The running weir must have an
admin token, and requires it.

--all is weir stop all: it refuses every call, also of flows that begin later, until
weir release all.`,
		Examples: []string{
			`weir flows stop order-77 --reason "pays twice" --token-file admin.token`,
			`weir flows stop --all --reason "bad release" --for 1h --token-file admin.token`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			long := fs.Duration("for", events.DefaultStop, "it stands for this `DURATION`")
			all := fs.Bool("all", false, "stop all calls, as weir stop all does")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if *all && len(args) > 0 {
					return cli.Usage("%s is given beside --all", args[0]).Advise("give one of them")
				}
				if !*all {
					if err := cli.Want(args, 1, 1, "the id of a FLOW, or --all"); err != nil {
						return err
					}
				}
				// Who and why are asked for before the network is.
				o, err := h.order(env, *long)
				if err != nil {
					return err
				}
				// For a release 0 has a meaning, which is why order lets it pass.
				if o.ForS == 0 {
					return cli.Usage("--for 0: an order that ends at once stops nothing")
				}
				if *all {
					return h.stopScope(ctx, env, api.HandOrder{Scope: byhand.Scope{Kind: events.ScopeAll, ID: "*"}, Reason: o.Reason, By: o.By, ForS: o.ForS})
				}
				return h.stop(ctx, env, args[0], o)
			}
		},
	}
}

// hand is the flags of the commands by which a person gives orders.
//
// reason is nil in the commands that take none. The name of who gives an order is what they
// say of themselves: what proves it is the token.
type hand struct {
	*client.ServerFlags
	reason, by *string
}

// newHand declares the flags, --reason among them.
func newHand(fs *pflag.FlagSet) *hand {
	return &hand{client.NewServerFlags(fs), fs.String("reason", "", "`REASON`, recorded in the log"), fs.String("by", "", "say `WHO` you are; by default the name that you are logged in with")}
}

// signed returns who gives an order, and complains when it does not say why.
func (h *hand) signed(env *cli.Env) (by string, err error) {
	if *h.reason == "" {
		return "", cli.Usage("--reason is missing").Advise("give one: weir records it in its log and shows it to operators")
	}
	return h.who(env)
}

// who returns the name of who is at the keyboard.
//
// On a machine of many the user that is logged in may be root or that of a service, so --by
// goes first.
func (h *hand) who(env *cli.Env) (by string, err error) {
	if by = cmp.Or(*h.by, env.Getenv("USER"), env.Getenv("LOGNAME")); by != "" {
		return by, nil
	}
	if u, err := user.Current(); err == nil {
		return u.Username, nil
	}
	return "", cli.Usage("nobody knows who you are").Advise("say it: --by NAME")
}

// seconds is a duration as orders carry it.
//
// flag is the name in the error. Orders are in whole seconds, and none is longer
// than a year and a day, so that no order lasts for ever by mistake.
func seconds(flag string, d time.Duration) (int64, error) {
	if d < 0 || d > events.MaxHold || d%time.Second != 0 {
		return 0, cli.Usage("--%s %v: want whole seconds, at most %v", flag, d, events.MaxHold)
	}
	return int64(d / time.Second), nil
}

// order makes the part that all orders have: the reason, the author, and the duration.
func (h *hand) order(env *cli.Env, long time.Duration) (o api.OperatorOrder, err error) {
	if o.By, err = h.signed(env); err != nil {
		return o, err
	}
	o.Reason = *h.reason
	o.ForS, err = seconds("for", long)
	return o, err
}

// give sends an order and decodes the answer.
// It needs the admin token, which programs that only send events do not have (decision 34).
func (h *hand) give(ctx context.Context, env *cli.Env, path string, asked, said any) error {
	return h.inform(ctx, env, path, true, asked, said)
}

// inform sends something for the log and decodes the answer. With admin, the request needs the
// admin token.
//
// path is that of the API; asked becomes JSON, and said is filled by the answer. If a token is
// missing, the error says how to give one.
func (h *hand) inform(ctx context.Context, env *cli.Env, path string, admin bool, asked, said any) error {
	c, err := h.Client(env)
	if err != nil {
		return err
	}
	if err = c.Ask(ctx, path, asked, said); admin {
		return wantsAdmin(err)
	}
	return err
}

// wantsAdmin says that the admin token is needed, where an error is that a token is missing or wrong. Of
// other requests the client says how to give one.
func wantsAdmin(err error) error {
	if e, ok := errors.AsType[*client.StatusError](err); ok && e.Status == http.StatusUnauthorized {
		return cli.Failure("only who has the admin token may do this").Advise("give the file with it: --token-file FILE, or %s", client.TokenVariable)
	}
	return err
}

// flowPath is where a flow is asked for something.
//
// Ids of flows may hold slashes and anything else, so they are escaped.
func flowPath(flow, what string) string { return "/v1/flows/" + url.PathEscape(flow) + "/" + what }

// stop sends an order about one flow. The answer waits a moment for the fold; without a
// verdict in it the order is in the log all the same and will be carried out.
func (h *hand) stop(ctx context.Context, env *cli.Env, flow string, o api.OperatorOrder) error {
	var a api.OperatorAnswer
	if err := h.give(ctx, env, flowPath(flow, "stop"), o, &a); err != nil {
		return err
	}
	return env.Value(a, func() error {
		// Others end the holds of the flow, since a person has decided.
		until := ""
		for _, v := range verdictsOf(&a) {
			if v.Stops() {
				until = " until " + v.ExpiresAt.String()
			}
		}
		what := "is stopped"
		if until == "" {
			what = "will be stopped: the order is in the log, and weir has not answered it yet"
		}
		if _, err := cli.Fprintf(env.Out, "%s %s%s\n", a.Flow, env.Painted(what, cli.Bad), until); err != nil {
			return err
		}
		if a.New {
			env.Notice("this weir has not heard of %s before: the order stands for when it comes", a.Flow)
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return nil
	})
}

// verdictsOf are the verdicts that an order has brought about.
func verdictsOf(a *api.OperatorAnswer) []events.Verdict { return decoded(a.Verdicts) }

// decoded are verdicts as they came; what cannot be read is left out.
func decoded(verdicts []json.RawMessage) (out []events.Verdict) {
	for _, raw := range verdicts {
		var v events.Verdict
		if events.DecodeVerdict(raw, &v) == nil {
			out = append(out, v)
		}
	}
	return out
}
