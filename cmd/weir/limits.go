package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/events"
)

// limitsCommand is weir limits. All but override work on files and the built-in profiles and
// ask no weir; override is here because people look for it here.
func limitsCommand() cli.Command {
	return cli.Command{Name: "limits", Short: "limits files: show, check, compare, import; override a limit", Commands: []cli.Command{
		{
			Name: "show", Args: "[FILE|PROFILE]", Wants: cli.Wants(0, 1, "one FILE or PROFILE"), Short: "print limits with every value spelled out", Words: limitfile.Profiles,
			Long: `Prints the active limits: the profile, with the changes of the file and the flags. The
output is a limits file.

A limits file may also exempt tagged flows, agents and tools, with a reason:

  exempt:
    - {tags: [nightly, env=batch], rules: [circling], reason: batch jobs are alike}

mode is what the rules may still do: off (the default), shadow or warn. expires is the
end of the exemption. Tags come with events (tags, from.tags, tool.tags).`,
			Examples: []string{"weir limits show", "weir limits show gateway", "weir limits show my.yaml --set flow.idle=5m"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				// What is shown may be a mixture of file, profile and values, which exists
				// nowhere else.
				limitFlags := operate.NewLimitFlags(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					return showLimits(env, limitFlags, args)
				}
			},
		},
		{
			Name: "validate", Args: "FILE...", Wants: cli.Wants(1, -1, "a FILE"), Short: "check limits files and list all errors",
			Long: `With --log, weir reads a log and lists the rules and budgets that cannot judge it. An
example is a limit in US dollars where calls have no price. The exit code is 3 if a file
would be rejected.`,
			Examples: []string{"weir limits validate limits.yaml", "weir limits validate limits.yaml --log run.jsonl"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				t := limitTrial{logs: cli.NewList(fs, "log", "read this `LOG` and list what cannot be judged by it; repeatable"), reading: newReading(fs)}
				return func(ctx context.Context, env *cli.Env, args []string) error {
					return validateLimits(ctx, env, args, &t)
				}
			},
		},
		suggestCommand(),
		calibrateCommand(),
		{
			Name: "schema", Short: "print the JSON Schema of limits files, for editors",
			Examples: []string{"weir limits schema > limits.schema.json", "# yaml-language-server: $schema=limits.schema.json"},
			Setup: func(*pflag.FlagSet) cli.Run {
				return func(_ context.Context, env *cli.Env, _ []string) error {
					// Whatever -o says: a schema has one form.
					_, err := env.Out.Write(limitfile.JSONSchema())
					return err
				}
			},
		},
		{
			Name: "diff", Args: "FILE|PROFILE [FILE|PROFILE]", Wants: cli.Wants(1, 2, "a FILE or PROFILE"), Short: "compare two limits, or one with the defaults", Words: limitfile.Profiles,
			Long:     "The exit code is 3 if they differ.",
			Examples: []string{"weir limits diff my.yaml", "weir limits diff gateway team"},
			Setup: func(*pflag.FlagSet) cli.Run {
				return func(_ context.Context, env *cli.Env, args []string) error { return diffLimits(env, args) }
			},
		},
		importCommand(),
		overrideCommand(),
	}}
}

// importCommand is weir limits import.
func importCommand() cli.Command {
	return cli.Command{
		Name: "import", Args: "[FILE|-]", Short: "turn the limits of another guard, or of a framework, into a limits file",
		Long: `Reads the limits file of another guard and prints it as a limits file of weir. It knows
config/system_caps.json, budgets.yaml (also inside its ConfigMap), the protection block
of settings.json, and recursion-limits.json. An unknown name is an error.

With --from it reads settings of a framework: recursion_limit (LangGraph), max_iter
(CrewAI), max_turns (OpenAI Agents, Claude Code), maxIterations (n8n), max_round and
max_turns (AutoGen). FILE is code in Python or TypeScript, configuration in YAML or
JSON, a workflow, or a command line. Without FILE it prints the framework's defaults.
Comments explain what each setting became and what weir has no rule for. Verdicts use
the framework's own sentence.`,
		Examples: []string{"weir limits import config/system_caps.json > limits.yaml", "weir limits import --from langgraph app.py > limits.yaml",
			"echo 'claude -p --max-turns 30' | weir limits import --from claude-code -"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			from := cli.NewChoice(fs, "from", "", "read the settings of this `FRAMEWORK`: "+strings.Join(limitfile.Frameworks(), ", "), limitfile.Frameworks()...)
			return func(_ context.Context, env *cli.Env, args []string) error { return importLimits(env, from.Value, args) }
		},
	}
}

// limitsNamed returns the limits of a file or, when there is none of that name, of a
// profile.
//
// A file takes precedence over a profile of the same name: a user with such a file means it.
func limitsNamed(name string) (analyzer.Limits, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if slices.Contains(limitfile.Profiles(), name) {
			return limitfile.Profile(name)
		}
		// The sentence has both readings of the name, since either may be meant.
		f := cli.Failure("%w, nor a profile of that name", err)
		// Most names that are no file are misspelled profiles.
		if near := spelling.Nearest(name, limitfile.Profiles()); near != "" {
			return analyzer.Limits{}, f.Advise("did you mean the profile %s", near)
		}
		return analyzer.Limits{}, f
	}
	if err != nil {
		return analyzer.Limits{}, err
	}
	l, err := limitfile.Parse(name, data)
	if err != nil {
		return analyzer.Limits{}, operate.LimitsFault(err)
	}
	return l, nil
}

// pricedLike returns the limits with the prices of others where they do not price a model themselves.
func pricedLike(l analyzer.Limits, others *analyzer.Limits) analyzer.Limits {
	return limits.Priced(l, others.Prices)
}

// showLimits prints limits with all values. What is printed can be read as a limits file, so
// there is no other form for people; YAML is that form as well.
func showLimits(env *cli.Env, limitFlags *operate.LimitFlags, args []string) error {
	if len(args) == 1 {
		if *limitFlags.File != "" || limitFlags.Profile.Value != "" {
			return cli.Usage("%s is given beside --limits or --profile", args[0]).Advise("give one of them")
		}
		// The argument becomes the flag that it replaces, so that --set goes on top of
		// either.
		// A name that is neither is taken for a file, and reported as a missing file.
		if _, err := os.Stat(args[0]); err != nil && limitFlags.Profile.Set(args[0]) == nil {
			args = nil
		} else {
			*limitFlags.File = args[0]
		}
	}
	l, err := limitFlags.Limits()
	if err != nil {
		return err
	}
	// The text of a limits file is YAML, with comments and in the order of the tables.
	// YAML by -o yaml is the same text.
	if env.Format != cli.JSONFormat {
		_, err = env.Out.Write(limitfile.Format(l))
		return err
	}
	return env.Value(json.RawMessage(limitfile.FormatJSON(l)), nil)
}

// limitProblem is one thing that is wrong with a limits file.
//
// Line and Column are those of the file, from 1; 0 when it is about the file as a whole.
// Path is the key, such as rules.max_turns.stop.
//
// It is printed as JSON, so its names are a promise to programs.
type limitProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// limitTrial is the logs by which limits are tried.
type limitTrial struct {
	logs    *cli.List
	reading *reading
}

// try says which rules and budgets of the limits cannot judge the logs.
func (t *limitTrial) try(ctx context.Context, env *cli.Env, name string, l analyzer.Limits) error {
	if len(*t.logs) == 0 {
		return nil
	}
	inputs, err := t.reading.open(env, *t.logs)
	if err != nil {
		return err
	}
	defer closeAll(inputs)
	r, err := newReplay(ctx, l, func(*events.Verdict) error { return nil })
	if err != nil {
		return err
	}
	if _, err := r.read(env, inputs, t.reading); err != nil {
		return err
	}
	r.bad.notice(env)
	if line := coverage.Line(r.coverage.Blind(&l)); line != "" {
		env.Notice("%s: %s", name, line)
	}
	return nil
}

// validateLimits lists all that is wrong with all files, and not only with the first. What
// cannot be read at all is an error. Good files may have remarks, which say what is allowed
// and hardly meant, and change no exit code.
func validateLimits(ctx context.Context, env *cli.Env, args []string, trial *limitTrial) error {
	lines := cli.NewLines(env, func(p *limitProblem) []cli.Cell {
		where, what := p.File, p.Message
		// In the form that editors and terminals make a link of.
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		if p.Path != "" {
			what = p.Path + ": " + what
		}
		if p.Hint != "" {
			what += "; " + p.Hint
		}
		return []cli.Cell{{Text: where, Paint: cli.Bad}, {Text: what}}
	})
	wrong := 0
	// Files are read one after the other and none is put into force.
	for _, name := range args {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		l, err := limitfile.Parse(name, data)
		if err == nil {
			// With the prices, since they change the version.
			l = limits.Priced(l, nil)
			// With the version, by which verdicts will name these limits.
			env.Notice("%s: good, profile %s, version %s", name, l.Profile, l.Version)
			for _, r := range limitfile.Remarks(&l) {
				env.Notice("%s: %s: %s; %s", name, r.Path, r.Message, r.Hint)
			}
			if err := trial.try(ctx, env, name, l); err != nil {
				return err
			}
			continue
		}
		problems, ok := errors.AsType[*limitfile.Problems](err)
		if !ok {
			return err
		}
		for _, p := range problems.List {
			wrong++
			if err := lines.Print(&limitProblem{name, p.Line, p.Column, p.Path, p.Message, p.Hint}); err != nil {
				return err
			}
		}
		// A file that is nothing but mistakes is listed in part only; the rest still counts.
		wrong += problems.More
	}
	if err := lines.Flush(); err != nil || wrong == 0 {
		return err
	}
	env.Notice("problems: %d", wrong)
	return cli.Exit(cli.CodeFinding)
}

// limitChange is one value that differs.
//
// From or To is empty when the key is in one of them only.
type limitChange struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// diffLimits compares what is in force by two limits, not their texts: profiles are filled in
// before, and what is spelled differently is the same. With one argument it is compared with
// the defaults.
func diffLimits(env *cli.Env, args []string) error {
	if len(args) == 1 {
		// One argument is what changed against the defaults.
		args = []string{limitfile.Default().Profile, args[0]}
	}
	// The older one first: what is printed is how to get from it to the other.
	from, err := limitsNamed(args[0])
	if err != nil {
		return err
	}
	to, err := limitsNamed(args[1])
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(c *limitChange) []cli.Cell {
		// A dash says that one of the two does not have the key.
		dash := func(s string) string {
			if s == "" {
				return "-"
			}
			return s
		}
		return cli.Text(c.Path, dash(c.From), dash(c.To))
	}, "KEY", args[0], args[1])
	changes := limitfile.Diff(from, to)
	for _, c := range changes {
		if err := lines.Print(&limitChange{c.Path, c.From, c.To}); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	// Same in what they judge by, whatever their texts.
	if len(changes) == 0 {
		env.Notice("%s and %s are the same", args[0], args[1])
		return nil
	}
	return cli.Exit(cli.CodeFinding)
}

// importLimits makes a limits file of another system's. framework is "" for files of guards,
// whose form is found by their content; with one, the name of a framework, no FILE means what
// that does by itself.
func importLimits(env *cli.Env, framework string, args []string) error {
	// Without a framework there is nothing that could be printed without a file.
	least := 1
	if framework != "" {
		least = 0
	}
	if err := cli.Want(args, least, 1, "a FILE"); err != nil {
		return err
	}
	var data []byte
	var err error
	// It stands in messages where no file has been read.
	name := framework
	if len(args) == 1 {
		name = args[0]
		if name == logs.Stdin {
			// One byte more than a file may have, so that what is too long is refused and not
			// cut.
			data, err = io.ReadAll(io.LimitReader(env.In, limitfile.MaxSize+1))
		} else {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return err
		}
		// nil means no file to ImportFrom, and an empty one is a file.
		if data == nil {
			data = []byte{}
		}
	}
	if framework == "" {
		if data, err = limitfile.Import(name, data); err != nil {
			return cli.Failure("%w", err).Advise("weir limits import --help says which files are known; --from NAME reads the settings of a framework")
		}
	} else if data, err = limitfile.ImportFrom(framework, name, data); err != nil {
		return cli.Failure("%w", err).Advise("weir limits import --help says what is read")
	}
	_, err = env.Out.Write(data)
	return err
}
