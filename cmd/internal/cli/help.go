package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer/spelling"
)

// writeGroup writes the commands of a group, or of the whole program.
//
// path is the words that lead there. The whole program has its introduction above.
func (p *Program) writeGroup(w io.Writer, path string, cmds []Command) error {
	var b strings.Builder
	if path == p.Name {
		fmt.Fprintf(&b, "%s: %s\n", p.Name, p.Short)
		if p.Intro != "" {
			fmt.Fprintf(&b, "\n%s\n", p.Intro)
		}
	}
	fmt.Fprintf(&b, "\nUsage: %s COMMAND [flags]\n\n", path)
	var rows [][2]string
	for i := range cmds {
		if c := &cmds[i]; !c.Hidden {
			rows = append(rows, [2]string{usageOf(c), c.Short})
		}
	}
	align(&b, rows)
	if path == p.Name && p.Outro != "" {
		fmt.Fprintf(&b, "\n%s\n", p.Outro)
	}
	fmt.Fprintf(&b, "\n%s COMMAND --help says more.\n", path)
	return write(w, strings.TrimPrefix(b.String(), "\n"))
}

// usageOf is the command in the list: its name and its arguments, or what is below it.
func usageOf(c *Command) string {
	if len(c.Commands) > 0 {
		return c.Name + " " + strings.Join(names(c.Commands), "|")
	}
	return strings.TrimSpace(c.Name + " " + c.Args)
}

// usageLine is how the command is called.
func usageLine(path string, c *Command) string {
	return strings.Join(slices.DeleteFunc([]string{path, c.Args, "[flags]"}, func(s string) bool { return s == "" }), " ")
}

// writeCommand writes the help of one command.
func (p *Program) writeCommand(w io.Writer, path string, c *Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s\n", path, c.Short, usageLine(path, c))
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
	}
	writeFlags(&b, c)
	b.WriteString("\nFlags of every command:\n")
	align(&b, flagRows(c, true))
	if len(c.Examples) > 0 {
		b.WriteString("\nExamples:\n")
		for _, x := range c.Examples {
			fmt.Fprintf(&b, "  %s\n", x)
		}
	}
	return write(w, b.String())
}

// writeFlags writes the flags of the command, by group where it has groups.
func writeFlags(b *strings.Builder, c *Command) {
	left := flagRows(c, false)
	for _, g := range c.Groups {
		var rows [][2]string
		left = slices.DeleteFunc(left, func(r [2]string) bool {
			name, _, _ := strings.Cut(r[0][strings.Index(r[0], "--")+2:], " ")
			in := slices.Contains(g.Flags, name)
			if in {
				rows = append(rows, r)
			}
			return in
		})
		fmt.Fprintf(b, "\n%s:\n", g.Title)
		align(b, rows)
	}
	switch {
	case len(left) == 0:
		return
	case len(c.Groups) > 0:
		b.WriteString("\nOther flags:\n")
	default:
		b.WriteString("\nFlags:\n")
	}
	align(b, left)
}

// flagRows lists the flags of a command: its own, or those that all have.
//
// Defaults that say nothing, as 0 and false, are left out; the others stand behind the
// text.
func flagRows(c *Command, global bool) (rows [][2]string) {
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if isGlobal(f.Name) != global {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		left := dashed(f.Name)
		if f.Shorthand != "" {
			left = "-" + f.Shorthand + ", " + left
		}
		if name != "" {
			left += " " + name
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" {
			usage += " (" + d + " when not given)"
		}
		rows = append(rows, [2]string{left, usage})
	})
	return rows
}

// align writes two columns; a left side that is too long gets a line of its own.
//
// The width is that of the longest left side that is not too long, so that one long flag
// does not push all texts to the right.
func align(b *strings.Builder, rows [][2]string) {
	const most = 28
	width := 0
	for _, r := range rows {
		if len(r[0]) <= most {
			width = max(width, len(r[0]))
		}
	}
	for _, r := range rows {
		text := wrap(r[1], helpWidth-width-4, strings.Repeat(" ", width+4))
		if len(r[0]) > most {
			fmt.Fprintf(b, "  %s\n  %-*s  %s\n", r[0], width, "", text)
			continue
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, r[0], text)
	}
}

// helpWidth is how long a line of help is at most, where its words are short.
const helpWidth = 90

// wrap breaks a text between words into lines of a width; those behind the first begin with indent.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == 0:
		case line+1+len(word) > width:
			b.WriteString("\n" + indent)
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

// Reference writes the whole table as Markdown.
//
// Common flags are not repeated for each command. A test holds REFERENCE.md to it.
func (p *Program) Reference(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s %s\n", p.Name, p.Name, p.Short)
	visible(p.Name, p.Commands, func(path string, c *Command) {
		if c.Setup == nil {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", path, spelling.Capital(c.Short), usageLine(path, c))
		if c.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
		}
		if own := flagRows(c, false); len(own) > 0 {
			b.WriteString("\n| flag | |\n|---|---|\n")
			for _, r := range own {
				fmt.Fprintf(&b, "| `%s` | %s |\n", r[0], strings.ReplaceAll(r[1], "|", `\|`))
			}
		}
		if len(c.Examples) > 0 {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Join(c.Examples, "\n"))
		}
	})
	return write(w, b.String())
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// HelpCommand is the row of the table that prints help. The program may be
// completed after the call.
func HelpCommand(p *Program) Command {
	return Command{
		Name: "help", Args: "[COMMAND...]", Short: "help on a command, or the reference of all",
		Setup: func(fs *pflag.FlagSet) Run {
			markdown := fs.Bool("markdown", false, "print the reference of all commands as Markdown")
			return p.help(markdown)
		},
		Words: func() []string { return names(p.Commands) },
	}
}

// help finds the command that the arguments name, word by word, and prints what --help would
// print.
func (p *Program) help(markdown *bool) Run {
	return func(_ context.Context, env *Env, args []string) error {
		if *markdown {
			return p.Reference(env.Out)
		}
		cmds, path := p.Commands, p.Name
		for n, word := range args {
			i := index(cmds, word)
			if i < 0 {
				return unknown(path, word, cmds)
			}
			path += " " + word
			if cmds[i].Setup != nil {
				if n+1 < len(args) {
					return Usage("%s has no commands of its own", path)
				}
				return p.writeCommand(env.Out, path, &cmds[i])
			}
			cmds = cmds[i].Commands
		}
		return p.writeGroup(env.Out, path, cmds)
	}
}

func index(cmds []Command, name string) int {
	return slices.IndexFunc(cmds, func(c Command) bool { return c.Name == name })
}

func names(cmds []Command) (out []string) {
	for _, c := range cmds {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}
