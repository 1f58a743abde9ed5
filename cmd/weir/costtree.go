package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/costs"
)

// costsView is what weir costs prints of the figures.
type costsView struct {
	by   string // one list in full; "" for the beginning of all
	tree string // a flow, as a tree in the place of lists
}

// check refuses what does not exist.
func (v costsView) check() error {
	switch {
	case v.by != "" && !slices.Contains(costLists, v.by):
		return cli.Usage("--by %s: there is no such list", v.by).Advise("give one of %s", strings.Join(costLists, ", "))
	case v.by != "" && v.tree != "":
		return cli.Usage("--by and --tree are not supported together").Advise("give one of them")
	}
	return nil
}

// print prints what was folded.
func (v costsView) print(env *cli.Env, tried *backtest.Trial) error {
	if v.tree == "" {
		return printCosts(env, costs.NewReport(tried.Costs()), v.by, false)
	}
	tree, ok := tried.Trees.Tree(v.tree)
	if begin := tried.Trees.Flows(v.tree); !ok && len(begin) == 1 {
		tree, ok = tried.Trees.Tree(begin[0])
	} else if !ok && len(begin) > 1 {
		return cli.Failure("%q may be one of %d flows", v.tree, len(begin)).Advise("for example %s", begin[0])
	}
	if !ok {
		return cli.Failure("the log has no event of flow %q", v.tree).Advise("weir flows ls --log FILE lists the flows of a log")
	}
	return printCostTree(env, &tree, false)
}

// printCostTree prints a node per line, below the node that it is a part of.
func printCostTree(env *cli.Env, tree *costs.Tree, running bool) error {
	return env.Value(tree, func() error {
		t := env.Table("SPENT BY", "CALLS", "OWN", "ALL", "SHARE")
		right := func(text string) cli.Cell { return cli.Cell{Text: text, Right: true} }
		for _, n := range tree.Nodes {
			if err := t.Row(cli.Cell{Text: strings.Repeat("  ", n.Depth) + n.Title()}, right(cli.Grouped(n.All.Calls)), right(costs.Text(n.Own)), right(costs.Text(n.All)),
				right(share(&n.All, &tree.Nodes[0].All))); err != nil {
				return err
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if err := printUnpriced(env, tree.Unpriced, running); err != nil {
			return err
		}
		if tree.Truncated {
			env.Notice("the tree has more than %s; what the others spent is in OWN of the line above them", cli.Count(costs.MostNodes, "node"))
		}
		return nil
	})
}

// mostOfName is how many characters of a name a table shows; -o json has all of it.
const mostOfName = 60

// printUnpriced names the models without a price, whose calls are missing in the money, and how they get one,
// from a running weir or a log.
func printUnpriced(env *cli.Env, list []costs.UnpricedModel, running bool) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := cli.Fprintf(env.Out, "\nThe dollars above lack these models, because no price is known:\n"); err != nil {
		return err
	}
	t := env.Table("MODEL WITHOUT A PRICE", "PROVIDER", "CALLS", "TOKENS").Secondary("PROVIDER")
	shown := list[:min(len(list), shownLines)]
	for _, m := range shown {
		tokens := "not reported"
		if m.Tokens > 0 {
			tokens = cli.Grouped(m.Tokens)
		}
		if err := t.Row(cli.Cell{Text: cmp.Or(cli.Cut(m.Model, mostOfName), "(not reported)")}, cli.Cell{Text: cmp.Or(cli.Cut(m.Provider, mostOfName), "-")}, cli.Cell{Text: cli.Grouped(m.Calls), Right: true}, cli.Cell{Text: tokens, Right: true}); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(list) - len(shown); n > 0 {
		if _, err := cli.Fprintf(env.Out, "and %d more; -o json lists them\n", n); err != nil {
			return err
		}
	}
	where, file := "the limits file of the running weir", "weir run --prices FILE"
	if !running {
		where, file = "a limits file for --limits", "--prices FILE"
	}
	env.Notice("give a model its price, in US dollars for a million tokens, in %s:", where)
	env.Notice("  prices: {MODEL: {input: 3, output: 15}}")
	env.Notice("or by %s, in LiteLLM's form; weir prices show lists the built-in prices", file)
	if slices.ContainsFunc(list, func(m costs.UnpricedModel) bool { return m.Model == "" }) {
		env.Notice("events that name no model need model, or usage.cost_usd")
	}
	return nil
}

// flowTree asks a running weir for the tree of a flow, by its id or a unique beginning of it.
func flowTree(ctx context.Context, c *client.Client, name string) (costs.Tree, error) {
	tree, err := c.FlowCosts(ctx, name)
	if !client.NotFound(err) {
		return tree, err
	}
	v, err := find(ctx, c, name)
	if err != nil {
		return tree, err
	}
	return c.FlowCosts(ctx, v.Flow)
}

// share is the part of the whole in percent: of the money, else of the tokens, else of the calls.
func share(part, whole *costs.Spent) string {
	for _, x := range [...][2]int64{{part.Cost(), whole.Cost()}, {part.Tokens, whole.Tokens}, {part.Calls, whole.Calls}} {
		if x[1] > 0 {
			return fmt.Sprintf("%.1f %%", 100*float64(x[0])/float64(x[1]))
		}
	}
	return "-"
}
