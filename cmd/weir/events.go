package main

import (
	"context"
	"flag"

	"weir/cmd/internal/cli"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/registry"
)

func eventsCommand() cli.Command {
	return cli.Command{Name: "events", Short: "check, convert and describe logs of agents", Commands: []cli.Command{
		{
			Name: "validate", Args: "FILE...|-", Short: "check that events can be read",
			Long: `Reads events strictly and lists each one that weir would refuse, and why. Without
--format the files hold events of weir's own format, one JSON object per line.
The exit code is 3 when any was refused.`,
			Examples: []string{"weir events validate events.jsonl", "my-producer | weir events validate -"},
			Setup: func(fs *flag.FlagSet) cli.Run {
				reading := newReading(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					if reading.format.Value == "" {
						reading.format.Value = canonical.Format().Name
					}
					return validateEvents(env, reading, args)
				}
			},
		},
		{
			Name: "convert", Args: "FILE...|-", Short: "print any log as events of weir's own format",
			Long: `Prints one event per line, in the order in which weir replay would fold them. No
content of messages, arguments or results is in them, only hashes and fingerprints.
The exit code is 3 when a record could not be read.`,
			Examples: []string{"weir events convert session.jsonl > events.jsonl"},
			Setup: func(fs *flag.FlagSet) cli.Run {
				reading := newReading(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					return convertEvents(env, reading, args)
				}
			},
		},
		{
			Name: "describe", Args: "[SOURCE]", Short: "what each source can tell, and what the rules can count on", Words: formatNames,
			Examples: []string{"weir events describe", "weir events describe otlp"},
			Setup: func(*flag.FlagSet) cli.Run {
				return func(_ context.Context, env *cli.Env, args []string) error {
					return describeSources(env, args)
				}
			},
		},
	}}
}

func formatNames() (out []string) {
	for _, f := range registry.Formats() {
		out = append(out, f.Name)
	}
	return out
}

// readAll reads the files and says, besides what the callbacks do, how many records
// were refused.
func (r *reading) readAll(env *cli.Env, args []string, event func(*events.Event) error, bad func(badRecord) error) (read, refused int64, err error) {
	if err := cli.Want(args, 1, -1, "a FILE"); err != nil {
		return 0, 0, err
	}
	inputs, err := r.open(env, args)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll(inputs)
	progress := env.Progress("events")
	var failed error
	rd := &reader{
		inputs: inputs,
		event:  func(ev *events.Event) error { read++; return event(ev) },
		bad: func(b badRecord) {
			refused++
			if failed == nil {
				failed = bad(b)
			}
		},
		tick: func() { progress.At(read, -1) },
	}
	err = rd.read()
	progress.Done()
	if err == nil {
		err = failed
	}
	return read, refused, err
}

func validateEvents(env *cli.Env, reading *reading, args []string) error {
	lines := cli.NewLines(env, func(b *badRecord) []cli.Cell {
		return []cli.Cell{{Text: b.place()}, {Text: b.Code, Paint: cli.Bad}, {Text: b.Reason}}
	}, "RECORD", "CODE", "REASON")
	read, refused, err := reading.readAll(env, args, func(*events.Event) error { return nil }, func(b badRecord) error { return lines.Print(&b) })
	if err != nil {
		return err
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	env.Notice("%s read, %s refused", cli.Count(read, "event"), cli.Count(refused, "record"))
	if refused > 0 {
		return cli.Exit(cli.CodeFinding)
	}
	return nil
}

func convertEvents(env *cli.Env, reading *reading, args []string) error {
	var line []byte
	var bad refusals
	_, refused, err := reading.readAll(env, args, func(ev *events.Event) error {
		line = append(ev.AppendJSON(line[:0]), '\n')
		_, err := env.Out.Write(line)
		return err
	}, func(b badRecord) error {
		bad.add(b)
		return nil
	})
	bad.tell(env)
	if err == nil && refused > 0 {
		err = cli.Exit(cli.CodeFinding)
	}
	return err
}

// sourceView is what a format can tell.
type sourceView struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Framing string `json:"framing"`
	Args    string `json:"args"`
	Results string `json:"results"`
	Caller  string `json:"caller"`
	Turn    string `json:"turn"`
	Tokens  string `json:"tokens"`
	Time    string `json:"time"`
	Starts  string `json:"starts"`
	Work    string `json:"work"`
}

func viewOfSource(f *adapter.Format) sourceView {
	g := &f.Gives
	return sourceView{f.Name, f.Title, f.Framing.String(), g.Args.String(), g.Results.String(), g.Caller.String(), g.Turn.String(),
		g.Tokens.String(), g.Time.String(), g.Starts.String(), g.Work.String()}
}

func describeSources(env *cli.Env, args []string) error {
	if err := cli.Want(args, 0, 1, "the name of one SOURCE"); err != nil {
		return err
	}
	if len(args) == 1 {
		f, err := registry.Lookup(args[0])
		if err != nil {
			fault := cli.Usage("%w", err)
			if near := cli.Nearest(args[0], formatNames()); near != "" {
				return fault.Advise("did you mean: weir events describe %s", near)
			}
			return fault
		}
		return describeSource(env, viewOfSource(&f))
	}
	level := func(s string) cli.Cell {
		return cli.Cell{Text: s, Paint: map[string]cli.Paint{"always": cli.Good, "never": cli.Faint}[s]}
	}
	lines := cli.NewLines(env, func(v *sourceView) []cli.Cell {
		return []cli.Cell{{Text: v.Name}, level(v.Args), level(v.Results), level(v.Caller), level(v.Turn), level(v.Tokens),
			level(v.Time), level(v.Starts), level(v.Work), {Text: v.Title}}
	}, "SOURCE", "ARGS", "RESULTS", "CALLER", "TURNS", "TOKENS", "TIMES", "STARTS", "WORK", "WHAT IT IS")
	for _, f := range registry.Formats() {
		v := viewOfSource(&f)
		if err := lines.Print(&v); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// describeSource says in words what the levels mean for the rules.
func describeSource(env *cli.Env, v sourceView) error {
	return env.Value(v, func() error {
		t := env.Table()
		for _, row := range [][3]string{
			{"source", v.Name, v.Title},
			{"records", v.Framing, "lines: one JSON value per line; documents: a value may span many lines"},
			{"args", v.Args, "arguments of tool calls: rules about repetition compare them"},
			{"results", v.Results, "results and answers: without them repetition only warns late, by the calls alone"},
			{"caller", v.Caller, "who called an agent: depth, pairs, delegations"},
			{"turns", v.Turn, "goal turns: max_turns, max_chain_depth"},
			{"tokens", v.Tokens, "tokens spent: budgets, and what a stop saves"},
			{"times", v.Time, "when things happened: rates and durations; never means that times are made up"},
			{"starts", v.Starts, "calls are told when they begin: a live guard can come before the next one"},
			{"work", v.Work, "whether a hop came without work: ping-pong and empty talk"},
		} {
			if err := t.Row(cli.Text(row[:]...)...); err != nil {
				return err
			}
		}
		return t.Flush()
	})
}
