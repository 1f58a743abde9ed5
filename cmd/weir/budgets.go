package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer/budgets"
	"weir/analyzer/limitfile"
	"weir/analyzer/spelling"
	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/pump"
	"weir/events"
)

// budgetsCommand is weir budgets: what is spent of the budgets over flows, and a person's grants.
func budgetsCommand() cli.Command {
	return cli.Command{Name: "budgets", Short: "the budgets over flows: what is spent, reserved and left, and grants", Commands: []cli.Command{
		{
			Name: "ls", Short: "list what is spent, reserved and left of each budget",
			Long: `Lists the accounts of the budgets in the limits file, one for each tenant, team, agent or
other value of a scope. The fullest come first. Works on a running weir, a state folder
(--state) and logs (--log).`,
			Examples: []string{"weir budgets ls", "weir budgets ls --budget team-day -o json", "weir budgets ls --log run.jsonl --limits limits.yaml"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				target := newTarget(fs, true)
				q := pump.BudgetQuery{}
				fs.StringVar(&q.Budget, "budget", "", "list the accounts of this `BUDGET` alone")
				fs.StringVar(&q.Value, "value", "", "list the accounts of this `VALUE` alone, such as the name of a team")
				fs.IntVar(&q.Limit, "limit", 50, "list at most this many `ACCOUNTS`")
				return func(ctx context.Context, env *cli.Env, _ []string) error {
					return listBudgets(ctx, env, target, q)
				}
			},
		},
		grantBudgetCommand(),
	}}
}

// listBudgets prints the accounts.
func listBudgets(ctx context.Context, env *cli.Env, target *target, q pump.BudgetQuery) error {
	k, done, err := target.open(ctx, env)
	if err != nil {
		return err
	}
	defer done()
	list, err := k.Budgets(ctx, q)
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, budgetCells, "BUDGET", "VALUE", "SPENT", "RESERVED", "LEFT", "LIMIT", "WINDOW", "ENDS", "REFUSED", "BEFORE", "STATE").Secondary("BEFORE", "ENDS", "RESERVED", "REFUSED")
	if err := lines.All(list.Budgets); err != nil {
		return err
	}
	if len(list.Elsewhere) > 0 {
		env.Notice("other members of the group list their own accounts: weir budgets ls --server ADDRESS, of %s", strings.Join(list.Elsewhere, ", "))
	}
	if len(list.Budgets) == 0 && (q.Budget != "" || q.Value != "") {
		env.Notice("no account matches --budget and --value")
	} else if len(list.Budgets) == 0 {
		return noticeBudgets(ctx, env, k, target)
	}
	if list.Truncated {
		env.Notice("there are more accounts: --limit, --budget and --value choose")
	}
	return nil
}

// noticeBudgets says why there is no account: the limits have no budgets, or no event counts for one.
func noticeBudgets(ctx context.Context, env *cli.Env, k known, target *target) error {
	var have []budgets.Budget
	switch c, running := k.(*client.Client); {
	case running:
		var active api.LimitsAnswer
		if err := c.Get(ctx, "/v1/limits", &active); err != nil {
			return err
		}
		l, err := limitfile.ParseJSON("the active limits", active.Document)
		if err != nil {
			return err
		}
		have = l.Budgets
	case len(*target.logs) > 0:
		l, err := target.LimitFlags.Limits()
		if err != nil {
			return err
		}
		have = l.Budgets
	default:
		env.Notice("the state has no account of a budget")
		return nil
	}
	if len(have) == 0 {
		env.Notice("the limits have no budgets: write them under budgets in the limits file")
		return nil
	}
	names := make([]string, len(have))
	for i := range have {
		names[i] = have[i].Name + " (" + have[i].Scope.String() + ")"
	}
	env.Notice("no event counts for a budget yet; send events that name the scope of: %s", strings.Join(names, ", "))
	return nil
}

// budgetCells is one account in the list.
func budgetCells(v *budgets.View) []cli.Cell {
	figure := func(n float64) cli.Cell {
		return cli.Cell{Text: strconv.FormatFloat(n, 'f', -1, 64), Right: true}
	}
	left, limit, ends, before := cli.Cell{Text: "-", Right: true}, cli.Cell{Text: "-", Right: true}, "rolling", cli.Cell{Text: "-", Right: true}
	if v.Limit != nil {
		left, limit = figure(*v.Left), figure(*v.Limit)
		limit.Text += " " + v.Measure
	}
	if !v.End.IsZero() {
		ends = events.Stamp(v.End).Time().Format(time.RFC3339)
	}
	if v.Before != nil {
		before = figure(v.Before.Spent)
	}
	state := cli.Cell{Text: v.State}
	switch v.State {
	case "used_up":
		state.Paint = cli.Bad
	case "near":
		state.Paint = cli.Caution
	}
	return []cli.Cell{{Text: v.Budget}, {Text: v.Value}, figure(v.Spent), figure(v.Reserved), left, limit, {Text: v.Window}, {Text: ends},
		{Text: strconv.FormatInt(v.Refused, 10), Right: true}, before, state}
}

// grantBudgetCommand is weir budgets grant: more of a budget for one account.
func grantBudgetCommand() cli.Command {
	return cli.Command{
		Name: "grant", Args: "BUDGET VALUE AMOUNT", Wants: cli.Wants(3, 3, "a BUDGET, a VALUE and an AMOUNT"), Short: "let an account spend more, until its window ends",
		Long: `Adds AMOUNT to the budget of one account, or to its spent and reserved amount if that is
more. The unit is that of the budget: US dollars, tokens, calls or seconds. The block is
lifted at once. The grant ends with the window, for a rolling window a period later, or
earlier by --for. Grants add up. The running weir requires its admin token. A budget may
name the people that may grant.`,
		Examples: []string{
			`weir budgets grant team-day payments 20 --reason "release day" --token-file admin.token`,
			`weir budgets grant org-hour all 500 --for 30m --reason "load test" --token-file admin.token`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			h := newHand(fs)
			long := fs.Duration("for", 0, "the grant ends after this `DURATION`, if the window does not end before")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				amount, err := strconv.ParseFloat(args[2], 64)
				if err != nil || !(amount > 0) {
					return cli.Usage("%s: want an amount above 0, such as 20 or 2.50", args[2])
				}
				o := api.BudgetGrant{Budget: args[0], Value: args[1], Amount: amount, Reason: *h.reason}
				if o.ForS, err = seconds("for", *long); err != nil {
					return err
				}
				if o.By, err = h.signed(env); err != nil {
					return err
				}
				return h.grantBudget(ctx, env, &o)
			}
		},
	}
}

// grantBudget sends the order and says what was granted.
func (h *hand) grantBudget(ctx context.Context, env *cli.Env, o *api.BudgetGrant) error {
	var a api.BudgetGrantAnswer
	if err := h.give(ctx, env, "/v1/budgets/grant", o, &a); err != nil {
		return err
	}
	return env.Value(a, func() error {
		until := "until its window ends"
		if !a.Until.IsZero() {
			until = "until " + a.Until.String() + ", or until its window ends"
		}
		if _, err := cli.Fprintf(env.Out, "%s of %s has %s more %s\n", a.Value, a.Budget, a.Unit.Amount(a.Amount), until); err != nil {
			return err
		}
		env.Notice("event %s by %s", a.ID, a.By)
		return h.noticeUnknown(ctx, env, &a)
	})
}

// noticeUnknown warns of a grant for a value that has spent nothing, which may be misspelt.
func (h *hand) noticeUnknown(ctx context.Context, env *cli.Env, a *api.BudgetGrantAnswer) error {
	c, err := h.Client(env)
	if err != nil {
		return err
	}
	// Without the right to read budgets the grant is made all the same.
	list, err := c.Budgets(ctx, pump.BudgetQuery{Budget: a.Budget, Limit: mostAccounts})
	if err != nil {
		return nil
	}
	var names []string
	for i := range list.Budgets {
		// The grant itself makes an account.
		switch v := &list.Budgets[i]; {
		case v.Value != budgets.Value(a.Value):
			names = append(names, v.Value)
		case v.Spent > 0 || v.Reserved > 0 || v.Refused > 0 || v.Before != nil:
			return nil
		}
	}
	if list.Truncated || len(list.Elsewhere) > 0 { // another member may have it
		return nil
	}
	const shown = 8
	known := strings.Join(names[:min(shown, len(names))], ", ")
	switch {
	case len(names) == 0:
		known = "none"
	case len(names) > shown:
		known += " and others"
	}
	env.Notice("no spending of %s is known here; %s has accounts of: %s", a.Value, a.Budget, known)
	if near := spelling.Nearest(a.Value, names); near != "" {
		env.Notice("did you mean %s", near)
	}
	return nil
}
