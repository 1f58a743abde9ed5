package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/operate"
	"weir/events"
)

// costsCommand is weir costs: what was spent before and after the first warning and the first
// stop of each flow. See decision 77 for what counts as waste.
func costsCommand() cli.Command {
	return cli.Command{
		Name: "costs", Args: "[FILE|DIR...|-]", Short: "add up what flows spent, before and after warnings and stops",
		Long: `Folds agent logs with the code that judges live traffic and adds up tokens and money. It
shows totals, the part between a flow's first warning and first stop, and the part after
that stop. Groups: service (source of the events), agent, tool, tenant, and the first
rule. Logs are read as by weir backtest.

A cost is that of the log, else computed from --prices and the limits file, else
unknown. Each figure says which. Models without a price are listed with their calls and
tokens, which are missing in the money. The file of --prices has LiteLLM's form. It lists
input_cost_per_token and output_cost_per_token of each model in US dollars. Prices of
cache reads, cache writes and reasoning may follow. Without --prices the built-in prices
are used (weir prices show), with a running weir as well. Limits in US dollars count the
same costs. What stops would have saved is an estimate, printed with its assumption.

--tree takes an id or a unique beginning of one. It prints the flow, the flows that
descend from it, their agents and their tools. Each call and each token is in OWN of
one line, and in ALL of the lines above it.

Without a FILE a running weir folds its own log again with its current limits. With
--brokers the topic of events is read. The metrics weir_spent_* and weir_waste_* count
the same since weir started, priced only if a limit in US dollars or prices are in force.`,
		Examples: []string{
			"weir costs --since 7d",
			"weir costs logs/ --since 7d",
			"weir costs logs/ --prices prices.json --by agent",
			"weir costs --tree order-7 logs/",
			"weir costs --brokers kafka-1:9092 --from -7d -o json",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			o, server := newSource(fs), client.NewServerFlags(fs)
			// Days are understood here, too, which Go's durations have none of.
			since := fs.String("since", "", "count only this `DURATION` before now, such as 7d or 36h; flows are judged from their beginning")
			by := fs.String("by", "", "list these alone: one of "+strings.Join(costLists, ", "))
			tree := fs.String("tree", "", "print what this `FLOW` and its descendants spent, as a tree")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				return runCosts(ctx, env, o, server, args, *since, costsView{by: *by, tree: *tree})
			}
		},
	}
}

// costLists are the lists of the ledger, as --by names them.
var costLists = []string{"rule", "service", "agent", "tool", "tenant"}

// runCosts finds out where the figures come from and prints them. FILEs are folded here.
// Without any, it asks a running weir, unless brokers are set by a flag, the environment or
// the configuration file and --server is not given. An explicit --server takes precedence over
// brokers that are set for good.
func runCosts(ctx context.Context, env *cli.Env, o *source, server *client.ServerFlags, args []string, since string, view costsView) error {
	if err := view.check(); err != nil {
		return err
	}
	long := time.Duration(0)
	if since != "" {
		// A flow is judged from its first event on, however old; only what is spent before is
		// not counted. So since bounds the ledger and not what is read.
		var err error
		if long, err = parseAge(since); err != nil || long <= 0 {
			return cli.Usage("--since %s: want how long, such as 7d or 36h", since)
		}
		// By the wall clock, for a log that is folded; a running weir reckons by its own.
		o.since = events.StampOf(env.Now().Add(-long))
	}
	// A FILE decides: brokers that are set for good then say nothing.
	if len(args) == 0 {
		// Brokers may be named in the environment or a file; then the topic is meant, and no
		// running weir.
		if _, err := operate.Settings().Load(o.brokers.Flags, env.Getenv, "limits", "profile", "set"); err != nil {
			return err
		}
		if server.Given() || !o.brokers.Given() {
			return runningCosts(ctx, env, server, long, *o.Prices, view)
		}
		// A FILE would be left unread without a word.
	} else if server.Given() {
		return cli.Usage("more than one place is named").Advise("give either --server or a FILE")
	}
	o.trees, o.builtIn = view.tree != "", *o.Prices == ""
	_, tried, err := o.one(ctx, env, args, false)
	if err != nil {
		return err
	}
	// In the form in which a running weir answers, so that both print alike.
	if err := view.print(env, tried); err != nil {
		return err
	}
	return o.reading.done(env)
}

// runningCosts asks a weir that runs for what the flows of its log have spent.
//
// The server folds its log by the limits and prices that it runs with. So --prices is
// refused here: it would be silently without effect. long is how far back, 0 for all.
func runningCosts(ctx context.Context, env *cli.Env, server *client.ServerFlags, long time.Duration, prices string, view costsView) error {
	if prices != "" {
		return cli.Usage("--prices is for logs").Advise("a running weir prices tokens by the file of weir run --prices")
	}
	c, err := server.Client(env)
	if err != nil {
		return err
	}
	if view.tree != "" {
		if long != 0 {
			return cli.Usage("--since and --tree are not supported together for a running weir").Advise("omit --since, or give a FILE")
		}
		tree, err := flowTree(ctx, c, view.tree)
		if err != nil {
			return err
		}
		return printCostTree(env, &tree, true)
	}
	reported, err := c.Costs(ctx, long)
	if err != nil {
		return err
	}
	return printCosts(env, &reported, view.by, true)
}

// printCosts prints the sums and the lists. by is the one list to print in full, "" for the
// beginning of each that says anything; a list whose only line has no name does not.
func printCosts(env *cli.Env, c *costs.Report, by string, running bool) error {
	return env.Value(c, func() error {
		say := func(format string, args ...any) { _, _ = cli.Fprintf(env.Out, format+"\n", args...) }
		for _, part := range []struct {
			what  string
			spent costs.Spent
		}{{"all", c.Total.All}, {"after the first warning", c.Total.AfterWarning}, {"after the first stop", c.Total.AfterStop}} {
			say("%s: %s, %s", part.what, cli.Count(part.spent.Calls, "call"), costs.Text(part.spent))
		}
		if r := c.Rewritten; r.Calls > 0 {
			money := ""
			if r.MicroUSD > 0 {
				money = costs.Dollars(r.MicroUSD, 2) + " more than from the cache, "
			}
			say("written to the prompt cache again after waiting: %s%s by %s", money, cli.Count(r.Tokens, "token"), cli.Count(r.Calls, "model call"))
		}
		// Apart from the sums, since it was never measured (decision 77).
		say("estimate: %s saved, %s", costs.Text(c.Saved), c.Assumption)
		// In the order of costLists, from which the heads come.
		for i, lines := range [...][]costs.Line{c.Rules, c.Services, c.Agents, c.Tools, c.Tenants} {
			if by != "" && by != costLists[i] || len(lines) == 0 || by == "" && len(lines) == 1 && lines[0].Name == "" {
				continue
			}
			say("")
			// A table for each, so that its widths fit its own names.
			t := env.Table(strings.ToUpper(costLists[i]), "CALLS", "ALL", "AFTER WARNING", "AFTER STOP").Secondary("AFTER WARNING", "CALLS")
			// All lists at once are for an overview; a list that was asked for by --by is
			// printed whole.
			shown := lines
			if by == "" {
				shown = lines[:min(len(lines), shownLines)]
			}
			for _, l := range shown {
				name := l.Name
				if name == "" {
					name = "(not reported)"
				}
				if err := t.Row(cli.Cell{Text: name}, cli.Cell{Text: cli.Grouped(l.All.Calls), Right: true}, cli.Cell{Text: costs.Text(l.All), Right: true},
					cli.Cell{Text: costs.Text(l.AfterWarning), Right: true}, cli.Cell{Text: costs.Text(l.AfterStop), Right: true}); err != nil {
					return err
				}
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if n := len(lines) - len(shown); n > 0 {
				say("and %d more; --by %s lists them", n, costLists[i])
			}
		}
		return printUnpriced(env, c.Unpriced, running)
	})
}

// shownLines is how many lines of each list are shown when all lists are.
const shownLines = 10
