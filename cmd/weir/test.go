package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"weir/analyzer/scenario"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// testResult is what became of one case.
//
// Diff has a line for each that was expected (-) and was said (+); empty when they are the
// same.
type testResult struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Title string `json:"title"`
	OK    bool   `json:"ok"`
	Diff  string `json:"diff,omitempty"`
}

// testCommand is weir test: limits are held to scenarios, or to logs of which people have said
// what is right. Unlike other answers that are no, a case that differs ends with 1, as test
// programs do.
func testCommand() cli.Command {
	return cli.Command{
		Name: "test", Args: "FILE...", Wants: cli.Wants(1, -1, "a FILE"), Short: "run scenarios (.flow), or test logs against marks",
		Long: `A .flow file describes what agents did, and below four dashes the verdicts that weir
must give:

  # two agents who only talk
  @a ( a->b:hi b->a:hi )*3
  ----

With --update the outcome is written or replaced; read it before you keep it. The exit
code is 1 if a case differs.

With --marks the FILEs are recorded logs, and people's marks (weir review mark) are the
test. A flow marked wrong must not be stopped, and one marked right must be. The exit
code is 1 if one differs or is not in the logs.

The language: a->b is a call, a=>b the answer, @a a user's message. a!tool:args=result
is a tool call with its result. +5m is time that passes, ( ... )*20 repetition, ?a->b a
check. Settings come before the events: "profile gateway", "rule max_turns: {stop: 3}".`,
		Examples: []string{"weir test my.flow", "weir test --update my.flow", "weir test --marks review.jsonl logs/"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			// The file is written in place, so version control shows what has changed.
			update := fs.Bool("update", false, "write the outcome into the files")
			// Without the flags of brokers: marks are tried on files.
			s := &source{LimitFlags: operate.NewLimitFlags(fs), reading: newReading(fs), marks: fs.String("marks", "", "test recorded logs against the marks in `FILE` (see weir review)")}
			return func(ctx context.Context, env *cli.Env, args []string) error {
				// One command for both, because either holds limits to what a person has called
				// right.
				if *s.marks != "" {
					return s.testMarks(ctx, env, args)
				}
				return testFiles(env, args, *update, s.LimitFlags)
			}
		},
	}
}

// testFiles runs all cases of all files before it says how many differ. Settings in a scenario
// go on top of the limits of the flags. With update the files are written with what was said,
// only where that changes them.
func testFiles(env *cli.Env, files []string, update bool, limitFlags *operate.LimitFlags) error {
	// Read once and before any case, so that a fault in the limits is reported once and not for
	// each file.
	base, err := limitFlags.Limits()
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
		// What cannot be read ends it; the cases before it have been printed.
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// Without --marks a log would be refused here sign by sign, as a bad scenario.
		if f, err := registry.Detect(data[:min(len(data), adapter.HeadSize)]); err == nil || adapter.Compressed(data) {
			return cli.Usage("%s is a log%s and no scenario", file, named(f.Name)).
				Advise("say of its flows whether their stops are right (weir review mark), then: weir test --marks review.jsonl %s", file)
		}
		cases, err := scenario.Parse(file, data)
		if err != nil {
			return cli.Failure("%w", err).Advise("weir test --help shows the language")
		}
		for i := range cases {
			c := &cases[i]
			// By the case's own engine and clock, so cases cannot change each other and run in
			// any order.
			out := c.Run(c.Limits(base))
			r := testResult{File: file, Line: c.Line, Title: c.Title(), Diff: c.Diff(&out)}
			// What is taken over cannot differ.
			r.OK = r.Diff == "" || update
			ran++
			if update {
				// Into the cases, which are written as a whole below.
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
		// Only a file that changes is touched, since builds and editors look at the time of a
		// file.
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
	return tested(env, files, ran, differ, update)
}

// tested reports how many cases ran, and how many differ.
func tested(env *cli.Env, files []string, ran, differ int, update bool) error {
	switch {
	case differ > 0:
		return cli.Failure("%d of %s differ", differ, cli.Count(int64(ran), "case")).Advise("lines with - were expected, lines with + were said; weir test --update keeps what was said")
	// A file without cases would pass for ever.
	case ran == 0:
		return cli.Failure("there is no case in %s", files[0]).Advise("weir test --help shows the language")
	case !update:
		env.Notice("%s, none differs", cli.Count(int64(ran), "case"))
	}
	return nil
}

// named puts a format in brackets; "" where it is not known, as of what is compressed.
func named(format string) string {
	if format == "" {
		return ""
	}
	return " (" + format + ")"
}

// testMarks holds limits to what people said of the flows of a log.
func (s *source) testMarks(ctx context.Context, env *cli.Env, args []string) error {
	marks, err := readMarks(*s.marks)
	if err != nil {
		return err
	}
	// A file without marks would pass for ever.
	if len(marks) == 0 {
		return cli.Failure("there is no mark in %s", *s.marks).Advise("weir review mark FLOW right|wrong makes one")
	}
	// The same fold and the same flows as weir backtest has, which is what marks were made by.
	_, tried, err := s.one(ctx, env, args, false)
	if err != nil {
		return err
	}
	// By name, for marks name flows.
	flows := map[string]*backtest.Flow{}
	for _, f := range tried.Flows() {
		flows[f.ID] = f
	}
	type result struct {
		Flow string `json:"flow"`
		Mark string `json:"mark"`
		OK   bool   `json:"ok"`
		Is   string `json:"is"`
	}
	lines := cli.NewLines(env, func(r *result) []cli.Cell {
		word := cli.Cell{Text: "ok", Paint: cli.Good}
		if !r.OK {
			word = cli.Cell{Text: "differs", Paint: cli.Bad}
		}
		return []cli.Cell{word, {Text: r.Flow}, {Text: "marked " + r.Mark}, {Text: r.Is}}
	})
	differ := 0
	// By name, so that two runs can be compared line by line.
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		r := result{Flow: id, Mark: marks[id], Is: "not in the logs"}
		if f := flows[id]; f != nil {
			// Right and wrong are about the stop: a flow that is marked right has to be stopped.
			r.OK, r.Is = (f.Stopped != nil) == (r.Mark == backtest.Right), "not stopped"
			if m := f.Stopped; m != nil {
				r.Is = fmt.Sprintf("stopped by %s at call %d", m.Rule, m.Call)
			}
		}
		if !r.OK {
			differ++
		}
		if err := lines.Print(&r); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if differ > 0 {
		return cli.Failure("treated otherwise than marked: %d of %s", differ, cli.Count(int64(len(marks)), "flow")).Advise("weir backtest LOG --marks %s --report FILE.html shows why", *s.marks)
	}
	// Said on standard error, where it stays out of what programs read.
	env.Notice("%s, none differs", cli.Count(int64(len(marks)), "flow"))
	return s.reading.done(env)
}

// printTest prints the result of a case; the difference stands below its line.
func printTest(env *cli.Env, lines *cli.Lines[testResult], r *testResult) error {
	// In JSON and YAML the difference is a field of the result.
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
