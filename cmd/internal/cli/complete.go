package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// scripts are the shells that words are completed in. Cobra writes the scripts, which
// ask the program itself what may stand at the cursor.
var scripts = map[string]func(root *cobra.Command, env *Env) error{
	"bash":       func(root *cobra.Command, env *Env) error { return root.GenBashCompletionV2(env.Out, true) },
	"fish":       func(root *cobra.Command, env *Env) error { return root.GenFishCompletion(env.Out, true) },
	"powershell": func(root *cobra.Command, env *Env) error { return root.GenPowerShellCompletionWithDesc(env.Out) },
	"zsh":        func(root *cobra.Command, env *Env) error { return root.GenZshCompletion(env.Out) },
}

// shells are the names of scripts, in the order in which they are listed.
var shells = []string{"bash", "fish", "powershell", "zsh"}

// CompletionCommand is the row of the table that prints the completion script of a
// shell. The program may be completed after the call.
func CompletionCommand(p *Program) Command {
	return Command{
		Name: "completion", Args: strings.Join(shells, "|"), Wants: Wants(1, 1, "the name of a shell"), Short: "print the completion script of a shell",
		Long: "The script asks the program itself for the words, so it always matches the installed\nversion. That of bash needs the package bash-completion.",
		Examples: []string{"source <(" + p.Name + " completion bash)",
			p.Name + " completion fish > ~/.config/fish/completions/" + p.Name + ".fish"},
		Words: func() []string { return shells },
		Setup: func(*pflag.FlagSet) Run {
			return func(_ context.Context, env *Env, args []string) error {
				script, ok := scripts[args[0]]
				if !ok {
					return Usage("no completion for the shell %q", args[0]).Advise("there is: %s", strings.Join(shells, ", "))
				}
				return script(p.tree(env), env)
			}
		},
	}
}

// completeCommand says what may stand as an argument of a command and as the value of
// each of its flags.
//
// What a flag takes is read off its type and off the word in backquotes in its usage, so no
// command says it a second time.
func completeCommand(c *cobra.Command, row *Command) {
	switch {
	case row.Words != nil:
		c.ValidArgsFunction = func(_ *cobra.Command, _ []string, last string) ([]string, cobra.ShellCompDirective) {
			return starting(row.Words(), last), cobra.ShellCompDirectiveNoFileComp
		}
	case !strings.Contains(row.Args, "FILE"):
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.NoFileCompletions
		if choice, ok := f.Value.(*Choice); ok {
			complete = func(_ *cobra.Command, _ []string, last string) ([]string, cobra.ShellCompDirective) {
				return starting(choice.Words, last), cobra.ShellCompDirectiveNoFileComp
			}
		}
		what, usage := pflag.UnquoteUsage(f)
		f.Usage = usage // shells show it as it is
		switch what {
		case "FILE":
			return // the shells' own way
		case "DIR":
			_ = c.MarkFlagDirname(f.Name) // only fails for a flag that is not there
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // only fails when it was done before
	})
}

// starting returns the words that begin so, in the order of the alphabet. It is a copy: words
// belong to the command.
func starting(words []string, with string) []string {
	var out []string
	for _, w := range words {
		if strings.HasPrefix(w, with) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}
