package cli

import (
	"context"
	"flag"
	"slices"
	"strings"
)

// The shells ask the program itself what may stand at the cursor, so that one
// answer serves all of them: a line for each word, or the line :files.
const (
	completer   = "__complete"
	filesAnswer = ":files"
)

var completionScripts = [...]struct{ shell, script string }{
	{"bash", `# Completion for bash. Load it with:  source <(NAME completion bash)
_NAME() {
  local cur=${COMP_WORDS[COMP_CWORD]} out
  out=$("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
  if [ "$out" = ":files" ]; then
    COMPREPLY=($(compgen -f -- "$cur"))
    compopt -o filenames 2>/dev/null
  else
    COMPREPLY=($(compgen -W "$out" -- "$cur"))
  fi
}
complete -F _NAME NAME
`},
	{"zsh", `#compdef NAME
# Completion for zsh. Load it with:  source <(NAME completion zsh)
_NAME() {
  local out
  out=$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null) || return
  if [ "$out" = ":files" ]; then
    _files
  else
    compadd -- ${(f)out}
  fi
}
compdef _NAME NAME
`},
	{"fish", `# Completion for fish. Load it with:  NAME completion fish | source
function __NAME_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l out ($words[1] __complete -- $words[2..-1] 2>/dev/null)
  if test "$out" = ":files"
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $out
  end
end
complete -c NAME -f -a '(__NAME_complete)'
`},
}

// CompletionCommands are the rows of the table that make completion work: the one
// that prints the scripts, and the hidden one that they call. The program may be
// completed after the call.
func CompletionCommands(p *Program) []Command {
	shells := func() (out []string) {
		for _, s := range completionScripts {
			out = append(out, s.shell)
		}
		return out
	}
	return []Command{
		{
			Name: "completion", Args: strings.Join(shells(), "|"), Short: "print the completion script of a shell",
			Long: "The script asks the program itself for the words, so it never grows old.",
			Examples: []string{"source <(" + p.Name + " completion bash)",
				p.Name + " completion fish > ~/.config/fish/completions/" + p.Name + ".fish"},
			Words: shells,
			Setup: func(*flag.FlagSet) Run {
				return func(_ context.Context, env *Env, args []string) error {
					if err := Want(args, 1, 1, "the name of a shell"); err != nil {
						return err
					}
					for _, s := range completionScripts {
						if s.shell == args[0] {
							return write(env.Out, strings.ReplaceAll(s.script, "NAME", p.Name))
						}
					}
					return Usage("no completion for the shell %q", args[0]).Advise("there is: %s", strings.Join(shells(), ", "))
				}
			},
		},
		{
			Name: completer, Hidden: true,
			Setup: func(*flag.FlagSet) Run {
				return func(_ context.Context, env *Env, args []string) error {
					return write(env.Out, strings.Join(p.Complete(args), "\n")+"\n")
				}
			},
		},
	}
}

// Complete returns what may stand for the last of the words, which may be empty, or
// ":files" alone where a file is wanted.
func (p *Program) Complete(words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	cmds, path := p.Commands, words[:len(words)-1]
	for len(path) > 0 {
		i := index(cmds, path[0])
		if i < 0 {
			return nil
		}
		c := &cmds[i]
		path = path[1:]
		if c.Setup != nil {
			return c.complete(path, last)
		}
		cmds = c.Commands
	}
	return starting(names(cmds), last)
}

// complete completes a flag, the value of one, or an argument.
func (c *Command) complete(before []string, last string) []string {
	fs, _, _ := setup(c)
	if n := len(before); n > 0 && strings.HasPrefix(before[n-1], "-") && !strings.Contains(before[n-1], "=") {
		if f := fs.Lookup(strings.TrimLeft(before[n-1], "-")); f != nil && !isBool(f) {
			return valuesOf(f, last)
		}
	}
	if strings.HasPrefix(last, "-") {
		name, value, has := strings.Cut(last, "=")
		if f := fs.Lookup(strings.TrimLeft(name, "-")); has && f != nil {
			out := valuesOf(f, value)
			for i := range out {
				if out[i] != filesAnswer {
					out[i] = name + "=" + out[i]
				}
			}
			return out
		}
		var flags []string
		fs.VisitAll(func(f *flag.Flag) { flags = append(flags, dashed(f.Name)) })
		return starting(flags, last)
	}
	if c.Words != nil {
		return starting(c.Words(), last)
	}
	if strings.Contains(c.Args, "FILE") {
		return []string{filesAnswer}
	}
	return nil
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// valuesOf returns the words that a flag takes, or files where its usage says so.
func valuesOf(f *flag.Flag, last string) []string {
	if c, ok := f.Value.(*Choice); ok {
		return starting(c.Words, last)
	}
	if what, _ := flag.UnquoteUsage(f); what == "FILE" || what == "DIR" {
		return []string{filesAnswer}
	}
	return nil
}

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
