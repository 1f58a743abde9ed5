package main

import (
	"context"

	"github.com/spf13/pflag"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
)

// suggestCommand is weir limits suggest: a limits file on standard output that can be used as
// it is, and notices of what it stands on as comments beside each line. See Trial.Suggest for
// what counts as honest.
func suggestCommand() cli.Command {
	return cli.Command{
		Name: "suggest", Args: "[FILE|DIR...|-]", Short: "print a limits file under which no honest flow of a log is stopped",
		Long: `Folds a log and prints limits, with the evidence as a comment on each line. Honest flows
are those that no rule stops and no mark calls right, and those marked wrong. A
threshold is a quarter above the greatest honest value. Budgets may become stricter,
limits on patterns only more patient. With fewer honest flows than --min-flows it
suggests nothing and exits with 1.`,
		Examples: []string{"weir limits suggest logs/ > limits.yaml", "weir limits suggest logs/ --min-flows 30 > limits.yaml", "weir limits suggest logs/ --marks review.jsonl"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			s := newSource(fs)
			least := fs.Int("min-flows", backtest.LeastFlows, "suggest limits from at least `N` honest flows")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if *least < 1 {
					return cli.Usage("--min-flows %d: want at least 1", *least)
				}
				marks, err := readMarks(*s.marks)
				if err != nil {
					return err
				}
				limits, tried, err := s.one(ctx, env, args, false)
				if err != nil {
					return err
				}
				// Without marks all flows that no rule stops count as honest.
				list, err := tried.Suggest(marks, *least)
				if err != nil {
					// Output is often redirected into a file, and then the file gives the reason too.
					// weir rejects limits that are only a comment.
					if !env.OutTerminal {
						if _, err := cli.Fprintf(env.Out, "# No limits: %v.\n", err); err != nil {
							return err
						}
					}
					return cli.Failure("%w", err).Advise("use a longer log, set --min-flows, or judge stopped flows: weir review mark FLOW wrong, then --marks review.jsonl")
				}
				return backtest.WriteLimits(env.Out, limits.Profile, list, nil)
			}
		},
	}
}
