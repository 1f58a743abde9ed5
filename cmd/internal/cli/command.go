package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/analyzer/spelling"
)

// Program is a command line program: its name and its table of commands.
type Program struct {
	Name string
	// Texts are printed as they are: their authors break the lines.
	Short    string // one sentence
	Intro    string // shown above the list of commands; may be empty
	Outro    string // shown below it; may be empty
	Commands []Command

	// UsageCode is the exit code when args were asked for in a wrong way; nil means CodeUsage.
	//
	// It is asked with all args, since the flags that decide may be those that could not be
	// parsed.
	UsageCode func(args []string) int
}

// Command is one row of the table. It has either Commands of its own or a Setup.
//
// Its order is that of help and of the reference, and a row is data: nothing is done until
// its Run is called.
type Command struct {
	Name string
	// Completion looks for the word FILE in it.
	Args     string      // what follows the name in the usage line, such as "FILE..."
	Wants    Arguments   // how many there have to be; the zero value: none where Args is "", else Setup's Run checks
	Short    string      // one line without a full stop
	Long     string      // help; paragraphs
	Examples []string    // command lines
	Hidden   bool        // not listed
	Groups   []FlagGroup // of the flags in the help; the others stand behind them
	Commands []Command

	// Setup declares the flags of one call and returns what runs it. It is called
	// for help and completion too, so it must do nothing else.
	Setup func(fs *pflag.FlagSet) Run

	// Words returns what may stand as an argument, for completion; nil means files
	// when Args speaks of FILE, else nothing.
	Words func() []string
}

// FlagGroup is flags that are about one thing.
type FlagGroup struct {
	Title string
	Flags []string
}

// Run runs a command with the arguments that are not flags. What it returns decides
// the exit code: see Fault.
//
// env is valid for this call. Main reports an error, so a Run reports none itself.
type Run func(ctx context.Context, env *Env, args []string) error

// Main finds the command that args name, parses its flags, and runs it. It prints an error of
// the command on standard error, and returns the exit code.
//
// All that is printed goes through quoting. It may be called many times in one process,
// since each call builds its commands anew.
func (p *Program) Main(ctx context.Context, env Env, args []string) int {
	out, errs := &quoting{out: env.Out}, &quoting{out: env.Err}
	defer out.end()
	defer errs.end()
	env.Out, env.Err = out, errs
	root := p.tree(&env)
	words := append([]string{}, args...) // nil would mean those of the process
	// As most programs do, it has its command version as a flag too.
	if len(words) > 0 && words[0] == "--version" && index(p.Commands, "version") >= 0 {
		words[0] = "version"
	}
	root.SetArgs(words)
	c, err := root.ExecuteContextC(ctx)
	// Cobra handles --help before it looks at arguments, so a command that does not exist comes out here.
	if err == nil && c.HasSubCommands() && c.Flags().NArg() > 0 {
		err = c.RunE(c, c.Flags().Args())
	}
	// Only a fault with words is one of use; a bare exit code is an answer of the command and
	// stays.
	if fault, ok := errors.AsType[*Fault](err); ok && fault.Err != nil && fault.Code == CodeUsage && p.UsageCode != nil {
		fault.Code = p.UsageCode(args)
	}
	return env.report(c.CommandPath(), err)
}

// tree builds the table's commands for cobra, which finds the one that is named,
// parses its flags and answers the shells; texts and exit codes are ours.
//
// Cobra's own texts, suggestions and completion command are switched off, so that help,
// errors and exit codes come from here alone.
func (p *Program) tree(env *Env) *cobra.Command {
	root := &cobra.Command{Use: p.Name, Short: p.Short}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	group(p, root, p.Commands, env)
	return root
}

// group makes a command of a list of commands: by itself it prints them.
//
// Without a command of its own it ends with CodeUsage after printing them, to standard
// error: nothing was done.
func group(p *Program, c *cobra.Command, cmds []Command, env *Env) {
	c.Args, c.ValidArgsFunction = cobra.ArbitraryArgs, cobra.NoFileCompletions
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c.CommandPath(), args[0], cmds)
		}
		if err := p.writeGroup(env.Err, c.CommandPath(), cmds); err != nil {
			return err
		}
		return Exit(CodeUsage)
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
			return unknown(c.CommandPath(), args[0], cmds)
		}
		return flagFault(c, err)
	})
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if c.Flags().NArg() == 0 {
			_ = p.writeGroup(env.Out, c.CommandPath(), cmds)
		}
	})
	for i := range cmds {
		sub := p.command(&cmds[i], env)
		c.AddCommand(sub)
		if sub.Use == "help" {
			c.SetHelpCommand(sub) // or cobra makes one of its own
		}
	}
}

// command makes one row of the table a command of cobra's.
func (p *Program) command(row *Command, env *Env) *cobra.Command {
	c := &cobra.Command{Use: row.Name, Short: row.Short, Hidden: row.Hidden, SilenceErrors: true, SilenceUsage: true}
	if row.Setup == nil {
		group(p, c, row.Commands, env)
		return c
	}
	globals, run := setup(row, c.Flags())
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		env.apply(globals)
		if err := row.want(args); err != nil {
			return err
		}
		return run(c.Context(), env, args)
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = p.writeCommand(env.Out, c.CommandPath(), row) })
	completeCommand(c, row)
	return c
}

// setup declares the flags of a command, the common ones included, and returns what runs it. A
// command must not declare one of the common names itself, on which pflag panics.
func setup(row *Command, fs *pflag.FlagSet) (*globals, Run) {
	g := newGlobals()
	run := row.Setup(fs)
	g.declare(fs)
	return g, run
}

// flagsOf returns the flags of a command, for those who only read them.
//
// They are made anew, so that reading them never meets values of a call.
func flagsOf(row *Command) *pflag.FlagSet {
	fs := pflag.NewFlagSet(row.Name, pflag.ContinueOnError)
	setup(row, fs)
	return fs
}

// unknown is the fault of a word that is no command, with the one that was meant.
func unknown(path, word string, cmds []Command) error {
	f := Usage("unknown command %q", word)
	if near := spelling.Nearest(word, names(cmds)); near != "" {
		return f.Advise("did you mean: %s %s", path, near)
	}
	return f.Advise("%s --help lists the commands", path)
}

// flagFault says in our words what is wrong with a flag.
func flagFault(c *cobra.Command, err error) error {
	path := c.CommandPath()
	// Groups have no flags, so any flag before the command is misplaced, whatever it is
	// called.
	if c.HasSubCommands() {
		word, _, _ := strings.Cut(err.Error()[strings.LastIndex(err.Error(), " ")+1:], "=")
		return Usage("flag %s stands before the command", word).Advise("flags come after it: %s COMMAND %s", path, word)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := e.GetSpecifiedName()
		if all := e.GetSpecifiedShortnames(); len(all) > 1 { // a long flag with one hyphen
			name = all
		}
		f := Usage("unknown flag %s", dashed(name))
		if near := spelling.Nearest(name, names); near != "" {
			return f.Advise("did you mean %s", dashed(near))
		}
		return f.Advise("%s --help lists the flags", path)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usage("flag %s needs a value", dashed(e.GetSpecifiedName())).Advise("%s --help says which", path)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = fmt.Errorf("invalid value %q for flag %s: %w", e.GetValue(), e.GetFlag().Name, e.Unwrap())
	}
	return Usage("%w", err).Advise("%s --help says what the flags take", path)
}

// dashed is a flag as it is typed: one letter with one dash, a word with two.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Arguments is how many arguments a command takes, see Wants.
type Arguments struct {
	least, most int
	what        string
}

// Wants has the arguments checked as Want does, before the command runs; any number of nothing leaves that to its Run.
func Wants(least, most int, what string) Arguments { return Arguments{least, most, what} }

// want checks the arguments of a call.
func (c *Command) want(args []string) error {
	if w := c.Wants; w.what != "" || c.Args == "" && w.most == 0 {
		return Want(args, w.least, w.most, w.what)
	}
	return nil
}

// Want checks the number of arguments; most < 0 means any number. None may be empty, as that of
// a variable of the shell that was never set.
//
// what names them for people, as "the id of a FLOW"; "" where no arguments are taken.
func Want(args []string, least, most int, what string) error {
	switch {
	case len(args) < least && len(args) > 0:
		return Usage("%d of %d arguments are missing", least-len(args), least).Advise("wanted: %s", what)
	case len(args) < least && least > 1:
		return Usage("%s are missing", what)
	case len(args) < least:
		return Usage("%s is missing", what)
	case slices.Contains(args, ""):
		return Usage("an argument is empty").Advise("wanted: %s", orNothing(what))
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
//
// Hidden commands are left out with all that is in them.
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
