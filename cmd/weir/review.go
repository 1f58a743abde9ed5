package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
)

// reviewCommand is weir review: what people say of stops. It writes and reads the file of
// marks alone and asks no weir, so it works on what backtest has found in any log.
func reviewCommand() cli.Command {
	return cli.Command{
		Name: "review", Short: "mark stops as right or wrong",
		Commands: []cli.Command{
			{
				Name: "mark", Args: "FLOW right|wrong", Wants: cli.Wants(2, 2, "a FLOW and right or wrong"), Short: "mark a stop: right, the flow ran away; wrong, it was honest work",
				Long: `Appends a line to the file of marks. weir backtest --marks, weir limits suggest and weir
limits calibrate read it. The last mark of a flow counts.`,
				Examples: []string{"weir review mark 4f1c right", "weir review mark 77ab wrong --reason 'waited for a build' --marks review.jsonl"},
				Setup: func(fs *pflag.FlagSet) cli.Run {
					file := fs.String("marks", "review.jsonl", "the `FILE` of marks")
					reason := fs.String("reason", "", "`WHY`, recorded in the file")
					by := fs.String("by", "", "author (`WHO`), recorded in the file")
					return func(_ context.Context, env *cli.Env, args []string) error {
						// The flow is not looked for: a mark may be made before or after the
						// log is here.
						// Whole seconds, so that lines are short; of two marks the later line
						// counts and not the later time.
						m := backtest.Mark{Flow: args[0], Mark: args[1], Reason: *reason, By: *by, At: env.Now().UTC().Truncate(time.Second)}
						if err := m.Validate(); err != nil {
							return cli.Usage("%w", err).Advise("right: the flow ran away, and the stop was right; wrong: it was honest work")
						}
						if err := backtest.AppendMark(*file, &m); err != nil {
							return err
						}
						env.Notice("%s: %q is marked %s", *file, m.Flow, m.Mark)
						return nil
					}
				},
			},
			{
				Name: "ls", Short: "list the marks", Examples: []string{"weir review ls --marks review.jsonl"},
				Setup: func(fs *pflag.FlagSet) cli.Run {
					file := fs.String("marks", "review.jsonl", "the `FILE` of marks")
					return func(_ context.Context, env *cli.Env, _ []string) error {
						return listMarks(env, *file)
					}
				},
			},
		},
	}
}

// listMarks prints all marks as they stand in the file, also those that a later one has
// overruled.
func listMarks(env *cli.Env, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := backtest.ListMarks(f)
	if err != nil {
		return cli.Failure("%s: %w", name, err)
	}
	lines := cli.NewLines(env, func(m *backtest.Mark) []cli.Cell {
		return []cli.Cell{{Text: m.Flow}, {Text: m.Mark}, {Text: m.By}, {Text: m.Reason}}
	}, "FLOW", "MARK", "BY", "REASON")
	return lines.All(list)
}
