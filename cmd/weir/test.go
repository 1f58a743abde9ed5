package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"weir/analyzer/scenario"
	"weir/cmd/internal/cli"
)

// testResult is what became of one case.
type testResult struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Title string `json:"title"`
	OK    bool   `json:"ok"`
	Diff  string `json:"diff,omitempty"`
}

func testCommand() cli.Command {
	return cli.Command{
		Name: "test", Args: "FILE...", Short: "run scenarios (.flow) and compare what is said with what they expect",
		Long: `A .flow file says in a few signs what agents did, and below four dashes what weir
must say of it, verdict by verdict:

  # two agents who only talk
  @a ( a->b:hi b->a:hi )*3
  ----

With --update the outcome is filled in, or replaced by what was said: read it before
you keep it. The exit code is 1 when a case differs.

The language: a->b is a call, a=>b the answer, @a a user's call, a!tool:args=result
a tool call and its result, +5m time that passes, ( ... )*20 repetition, ?a->b an ask.
Settings stand above the events: "profile gateway", "rule max_turns: {stop: 3}".`,
		Examples: []string{"weir test my.flow", "weir test --update my.flow"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			update := fs.Bool("update", false, "write what was said into the files")
			judging := newJudging(fs)
			return func(_ context.Context, env *cli.Env, args []string) error {
				if err := cli.Want(args, 1, -1, "a FILE"); err != nil {
					return err
				}
				return testFiles(env, args, *update, judging)
			}
		},
	}
}

func testFiles(env *cli.Env, files []string, update bool, judging *judging) error {
	base, err := judging.limits()
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(r *testResult) []cli.Cell {
		word := cli.Cell{Text: "ok", Paint: cli.Good}
		if !r.OK {
			word = cli.Cell{Text: "differs", Paint: cli.Bad}
		}
		return []cli.Cell{word, {Text: fmt.Sprintf("%s:%d", r.File, r.Line)}, {Text: r.Title}}
	})
	ran, differ := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		cases, err := scenario.Parse(file, data)
		if err != nil {
			return cli.Failure("%w", err).Advise("weir test --help shows the language")
		}
		for i := range cases {
			c := &cases[i]
			out := c.Run(c.Limits(base))
			r := testResult{File: file, Line: c.Line, Title: c.Title(), Diff: c.Diff(&out)}
			r.OK = r.Diff == "" || update
			ran++
			if update {
				c.Accept(&out)
				continue
			}
			if !r.OK {
				differ++
			}
			if err := printTest(env, lines, &r); err != nil {
				return err
			}
		}
		if text := scenario.Format(cases); update && !bytes.Equal(text, data) {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return err
			}
			env.Notice("%s: updated", file)
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	switch {
	case differ > 0:
		return cli.Failure("%d of %s differ", differ, cli.Count(int64(ran), "case")).Advise("lines with - were expected, lines with + were said; weir test -update keeps what was said")
	case ran == 0:
		return cli.Failure("there is no case in %s", files[0]).Advise("weir test --help shows the language")
	case !update:
		env.Notice("%s, none differs", cli.Count(int64(ran), "case"))
	}
	return nil
}

// printTest prints the result of a case; the difference stands below its line.
func printTest(env *cli.Env, lines *cli.Lines[testResult], r *testResult) error {
	if err := lines.Print(r); err != nil || r.Diff == "" || env.Format != cli.TableFormat {
		return err
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines([]byte(r.Diff)) {
		paint := cli.Faint
		switch line[0] {
		case '-':
			paint = cli.Bad
		case '+':
			paint = cli.Good
		}
		if _, err := fmt.Fprintln(env.Out, "   "+env.Painted(string(bytes.TrimRight(line, "\n")), paint)); err != nil {
			return err
		}
	}
	return nil
}
