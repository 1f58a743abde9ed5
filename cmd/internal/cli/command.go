package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"weir/analyzer/spelling"
)

// Program is a command line program: its name and its table of commands.
type Program struct {
	Name     string
	Short    string // one sentence
	Intro    string // shown above the list of commands; may be empty
	Outro    string // shown below it; may be empty
	Commands []Command
}

// Command is one row of the table. It has either Commands of its own or a Setup.
type Command struct {
	Name     string
	Args     string   // what follows the name in the usage line, such as "FILE..."
	Short    string   // one line without a full stop
	Long     string   // help; paragraphs
	Examples []string // command lines
	Hidden   bool     // not listed
	Commands []Command

	// Setup declares the flags of one call and returns what runs it. It is called
	// for help and completion too, so it must do nothing else.
	Setup func(fs *flag.FlagSet) Run

	// Words returns what may stand as an argument, for completion; nil means files
	// when Args speaks of FILE, else nothing.
	Words func() []string
}

// Run runs a command with the arguments that are not flags. What it returns decides
// the exit code: see Fault.
type Run func(ctx context.Context, env *Env, args []string) error

// Main finds the command that args name, parses its flags, runs it, tells its error
// on standard error, and returns the exit code.
func (p *Program) Main(ctx context.Context, env Env, args []string) int {
	path, err := p.run(ctx, &env, args)
	return env.report(path, err)
}

// run returns the words of the command that was run beside its error.
func (p *Program) run(ctx context.Context, env *Env, args []string) (path string, err error) {
	cmds := p.Commands
	path = p.Name
	for {
		if len(args) == 0 || isHelp(args[0]) {
			return path, p.groupHelp(env, path, cmds, len(args) == 0)
		}
		i := index(cmds, args[0])
		if i < 0 {
			return path, unknown(path, args[0], cmds)
		}
		c := &cmds[i]
		path += " " + c.Name
		args = args[1:]
		if c.Setup != nil {
			return path, p.call(ctx, env, path, c, args)
		}
		cmds = c.Commands
	}
}

func isHelp(word string) bool { return word == "-h" || word == "-help" || word == "--help" }

// groupHelp prints the list of commands: as the answer to a question, or as the
// reason why nothing was done.
func (p *Program) groupHelp(env *Env, path string, cmds []Command, unasked bool) error {
	out := env.Out
	if unasked {
		out = env.Err
	}
	if err := p.writeGroup(out, path, cmds); err != nil || !unasked {
		return err
	}
	return Exit(CodeUsage)
}

func unknown(path, word string, cmds []Command) error {
	if strings.HasPrefix(word, "-") {
		return Usage("flag %s stands before the command", word).Advise("flags come after it: %s COMMAND %s", path, word)
	}
	f := Usage("unknown command %q", word)
	if near := spelling.Nearest(word, names(cmds)); near != "" {
		return f.Advise("did you mean: %s %s", path, near)
	}
	return f.Advise("%s --help lists the commands", path)
}

// call parses the flags of c, wherever they stand among the arguments, and runs it.
func (p *Program) call(ctx context.Context, env *Env, path string, c *Command, args []string) error {
	fs, globals, run := setup(c)
	rest, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return p.writeCommand(env.Out, path, c)
	}
	if err != nil {
		return flagFault(err, path, fs)
	}
	env.apply(globals)
	return run(ctx, env, rest)
}

// setup returns the flags of c, the common ones included.
func setup(c *Command) (*flag.FlagSet, *globals, Run) {
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	g := newGlobals()
	run := c.Setup(fs)
	g.declare(fs)
	return fs, g, run
}

// parse reads flags that stand before, between and after the arguments; what
// follows a -- is an argument whatever it looks like.
func parse(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		left := fs.Args()
		if len(left) == 0 {
			return rest, nil
		}
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// flagFault says in our words what the flag package found wrong.
func flagFault(err error, path string, fs *flag.FlagSet) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		name = strings.TrimLeft(name, "-")
		f := Usage("unknown flag %s", dashed(name))
		if near := spelling.Nearest(name, names); near != "" {
			return f.Advise("did you mean %s", dashed(near))
		}
		return f.Advise("%s --help lists the flags", path)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return Usage("flag %s needs a value", dashed(name)).Advise("%s --help says which", path)
	}
	text = strings.Replace(text, "for flag -", "for flag ", 1)
	return Usage("%s", text).Advise("%s --help says what the flags take", path)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Want checks the number of arguments; most < 0 means any number.
func Want(args []string, least, most int, what string) error {
	switch {
	case len(args) < least:
		return Usage("%s is missing", what)
	case most >= 0 && len(args) > most:
		return Usage("%q is one argument too many", args[most]).Advise("wanted: %s", orNothing(what))
	}
	return nil
}

func orNothing(what string) string {
	if what == "" {
		return "no arguments"
	}
	return what
}

// visible calls fn for each command that is listed, with its words, in the order of
// the table; groups come before what is in them.
func visible(path string, cmds []Command, fn func(path string, c *Command)) {
	for i := range cmds {
		c := &cmds[i]
		if c.Hidden {
			continue
		}
		sub := fmt.Sprintf("%s %s", path, c.Name)
		fn(sub, c)
		visible(sub, c.Commands, fn)
	}
}
