package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// flowsCommand is weir flows: lists and verdicts of flows wherever they are, and the orders of
// a person to a running weir.
func flowsCommand() cli.Command {
	return cli.Command{Name: "flows", Short: "list, show, stop and release flows", Commands: []cli.Command{
		{
			Name: "ls", Short: "list flows",
			Long:     "Lists flows of a running weir, of a state folder (--state) or of logs (--log).",
			Examples: []string{"weir flows ls", "weir flows ls --sort near --limit 5 -o json", "weir flows ls --search planner"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				p := newTarget(fs, true)
				// As many as fit on a screen.
				limit := fs.Int("limit", 20, "list at most this many `FLOWS`")
				search := fs.String("search", "", "only flows with this `TEXT` in their id, their service or the name of one of their agents")
				sort := cli.NewChoice(fs, "sort", "last", "`ORDER`: last (the last event first) or near (the one nearest to a limit first)", "last", "near")
				return func(ctx context.Context, env *cli.Env, _ []string) error {
					// The order is made where the flows are, since only the first of it are
					// sent.
					order := pump.Newest
					if sort.Value == "near" {
						order = pump.Nearby
					}
					return listFlows(ctx, env, p, pump.FlowQuery{Text: *search, Limit: *limit, Order: order})
				}
			},
		},
		{
			Name: "show", Args: "FLOW", Wants: cli.Wants(1, 1, "the id of a FLOW"), Short: "print the state of one flow",
			Long:  "weir explain prints the same in words, with the meaning.",
			Setup: ofOneFlow(showFlow),
		},
		{
			Name: "tail", Args: "[FLOW]", Wants: cli.Wants(0, 1, "the id of one FLOW"), Short: "print verdicts as they are published",
			Long: `Prints the last verdicts of a running weir, or all of one flow, and continues until it
is terminated. With --state it prints those of a stopped weir.`,
			Examples: []string{"weir flows tail", "weir flows tail -n 0 -o json | jq .action"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				// Without logs: what a log brings about is printed by weir replay.
				p := newTarget(fs, false)
				// 0 shows only what comes from now on.
				last := fs.IntP("last", "n", 20, "begin with the last `N` verdicts")
				return func(ctx context.Context, env *cli.Env, args []string) error {
					if *last < 0 {
						return cli.Usage("-n %d: want a number from 0 on", *last)
					}
					return tailVerdicts(ctx, env, p, *last, strings.Join(args, ""))
				}
			},
		},
		stopCommand(),
		releaseCommand(),
		grantCommand(),
	}}
}

// listFlows prints the flows that the query finds, in its order. How many were looked at and
// not listed is said on standard error.
func listFlows(ctx context.Context, env *cli.Env, p *target, q pump.FlowQuery) error {
	k, done, err := p.open(ctx, env)
	if err != nil {
		return err
	}
	defer done()
	// All of it is worked out where the flows are; here it is only printed.
	list, err := k.Flows(ctx, q)
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(f *pump.FlowSummary) []cli.Cell {
		number := func(n int64) cli.Cell { return cli.Cell{Text: cli.Grouped(n), Right: true} }
		// No rule of this flow has measured anything of its limit yet.
		near := cli.Cell{Text: "-"}
		if n := f.Nearest; n != nil {
			near.Text = fmt.Sprintf("%3.0f %% %s", 100*n.Near, n.Rule)
		}
		// Of a stopped flow the value at the stop: what counters show now may be less.
		if n := f.Stop; n != nil {
			near = cli.Cell{Text: fmt.Sprintf("stopped at %s of %s, %s", amount(&n.Observed), amount(&n.Limit), n.Rule), Paint: cli.Bad}
		}
		// Most logs report neither.
		tokens, cost := cli.Cell{Text: "-", Right: true}, cli.Cell{Text: "-", Right: true}
		if f.Tokens > 0 {
			tokens = number(f.Tokens)
		}
		if f.CostUSD > 0 {
			cost.Text = costs.USD(f.CostUSD, 3)
		}
		return []cli.Cell{{Text: f.Flow}, statusCell(f.Status), {Text: f.Service}, number(f.Events), number(f.Hops), number(f.ToolCalls), number(int64(f.Parties)), tokens, cost, {Text: f.Last.String()}, near}
	}, "FLOW", "STATUS", "SERVICE", "EVENTS", "CALLS", "TOOLS", "AGENTS", "TOKENS", "COST", "LAST EVENT", "NEAREST LIMIT").
		Secondary("EVENTS", "AGENTS", "TOOLS", "LAST EVENT", "SERVICE", "TOKENS", "COST")
	if err := lines.All(list.Flows); err != nil {
		return err
	}
	noticeOutside(ctx, env, k)
	switch {
	// The text depends on why the list ends: nothing fits, nothing is there, not all were
	// looked at, or not all are listed.
	case len(list.Flows) == 0 && q.Text != "":
		env.Notice("none of %s has %q in its id, its service or the name of an agent", cli.Count(int64(list.Scanned), "flow"), q.Text)
	case len(list.Flows) == 0:
		env.Notice("there are no flows yet")
	case list.Truncated:
		env.Notice("only the %s flows used last were looked at", cli.Grouped(int64(list.Scanned)))
	case list.Scanned > len(list.Flows):
		env.Notice("%d of %s flows; --limit shows more", len(list.Flows), cli.Grouped(int64(list.Scanned)))
	}
	return nil
}

// showFlow prints all counters of a flow and all that stands.
func showFlow(env *cli.Env, v *analyzer.View, in place) error {
	var b strings.Builder
	// As weir explain begins, so that the two agree.
	writeFlow(env, &b, v, in)
	if in.write(env, &b); len(in.byHand)+len(in.used) > 0 {
		b.WriteByte('\n')
	}
	if _, err := io.WriteString(env.Out, b.String()); err != nil {
		return err
	}
	t := env.Table("AGENT", "CALLED BY", "CALLS COMPARED", "CIRCLING")
	// As the fold knows them: those that took part in the episode.
	for _, p := range v.Parties {
		if err := t.Row(cli.Cell{Text: p.Name}, cli.Cell{Text: p.Parent}, cli.Cell{Text: fmt.Sprint(p.Calls), Right: true}, cli.Cell{Text: fmt.Sprint(p.Points), Right: true}); err != nil {
			return err
		}
	}
	// A table without rows prints nothing, so its empty line must not be printed either.
	if len(v.Parties) > 0 {
		if _, err := io.WriteString(env.Out, "\n"); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	// All of them, where weir explain shows those near their limits.
	if err := counters(env, v.Counters, "\n"); err != nil || len(v.Orders) == 0 {
		return err
	}
	if _, err := io.WriteString(env.Out, "\n"); err != nil {
		return err
	}
	// One line each, by incident; weir explain describes them in full.
	orders := env.Table("INCIDENT", "ACTION", "RULE", "REASON", "SEEN/LIMIT", "SCOPE", "UNTIL", "MESSAGE").Secondary("UNTIL", "REASON", "SCOPE")
	for _, x := range incidentsOf(v.Orders) {
		for i, o := range x.orders {
			id := x.id
			if i > 0 {
				id = ""
			}
			err := orders.Row(cli.Cell{Text: id}, actionCell(o), cli.Cell{Text: o.RuleID}, cli.Cell{Text: string(o.Reason)}, cli.Cell{Text: figures(o), Right: true},
				cli.Cell{Text: o.Scope.String()}, cli.Cell{Text: o.ExpiresAt.String()}, cli.Cell{Text: o.Message})
			if err != nil {
				return err
			}
		}
	}
	return orders.Flush()
}

// tailVerdicts prints verdicts as they come, until ctx or the server ends, or those that a
// state folder holds. flow is "" for all; last bounds only what is printed of all flows, since
// all that is kept of one flow is asked for.
func tailVerdicts(ctx context.Context, env *cli.Env, p *target, last int, flow string) error {
	lines := newVerdictLines(env)
	if *p.state != "" {
		// A running weir and its folder cannot both be read: the one keeps the other locked.
		if p.Given() {
			return cli.Usage("more than one place is named").Advise("give one of --server and --state")
		}
		// All of them are read before one is printed, since only the end says which are the
		// last.
		kept, err := keptVerdicts(*p.state, flow)
		if err != nil {
			return err
		}
		if flow == "" {
			// As with a running weir: of all flows the last ones, of one flow all that is
			// kept.
			kept = kept[max(0, len(kept)-last):]
		}
		return lines.All(kept)
	}
	c, err := p.Client(env)
	if err != nil {
		return err
	}
	return c.Verdicts(ctx, flow, last, func(v *events.Verdict) error {
		if err := lines.Print(v); err != nil {
			return err
		}
		// A verdict that waits for more rows to find its column widths is not seen as it is
		// given.
		return lines.Flush()
	})
}

// keptVerdicts reads the verdict log of a state folder, or what it has of one flow.
//
// They come in the order in which they were put into the log, of one moment partition by
// partition. It takes the lock of the folder, so it fails while a weir runs there.
func keptVerdicts(dir, flow string) (kept []events.Verdict, err error) {
	// No pump is made: the verdict log can be read as it is.
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	partitions, err := s.Partitions()
	if err != nil {
		return nil, err
	}
	type entry struct {
		verdict  events.Verdict
		appended events.Stamp
	}
	var all []entry
	for _, n := range partitions {
		log := s.Verdicts(n)
		// What retention has dropped from the front is stepped over by ReadOn, which says
		// where it began to read.
		for next := int64(0); next < log.End(); {
			first, entries, err := state.ReadOn(log.Read, next, 1000, nil)
			if err != nil {
				return nil, err
			}
			for i := range entries {
				var v events.Verdict
				if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
					return nil, fmt.Errorf("verdict %d: %w", entries[i].Offset, err)
				}
				if flow == "" || v.CorrelationID == flow {
					all = append(all, entry{v, entries[i].Appended})
				}
			}
			next = first + int64(len(entries))
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.appended, b.appended) })
	for i := range all {
		kept = append(kept, all[i].verdict)
	}
	return kept, nil
}
