package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer/spelling"
)

// Choice is a flag value out of a list.
//
// Help, errors and completion know its words. A default in Value need not be one of them:
// "" is how nothing is said.
type Choice struct {
	// Value is what was given last, and the default before.
	Value string
	Words []string
	// Other, when it is set, is asked about what is none of the words, but may be taken
	// all the same. The error says why not; nil takes it.
	Other func(s string) error
}

// NewChoice declares a flag that takes one of the words.
func NewChoice(fs *pflag.FlagSet, name, value, usage string, words ...string) *Choice {
	c := &Choice{Value: value, Words: words}
	fs.Var(c, name, usage)
	return c
}

// String returns the value.
func (c *Choice) String() string { return c.Value }

// Type is what pflag asks for.
func (c *Choice) Type() string { return "word" }

// Set takes one of the words.
//
// An error leaves the value as it was.
func (c *Choice) Set(s string) error {
	if slices.Contains(c.Words, s) {
		c.Value = s
		return nil
	}
	if c.Other != nil {
		err := c.Other(s)
		if err == nil {
			c.Value = s
		}
		return err
	}
	if near := spelling.Nearest(s, c.Words); near != "" {
		return fmt.Errorf("want %s; did you mean %s", strings.Join(c.Words, ", "), near)
	}
	return fmt.Errorf("want %s", strings.Join(c.Words, ", "))
}

// List is a flag that may be given many times.
//
// Each time adds to it, in the order of the command line. nil means that it was not given.
type List []string

// NewList declares a flag that may be given many times.
func NewList(fs *pflag.FlagSet, name, usage string) *List {
	l := &List{}
	fs.Var(l, name, usage)
	return l
}

// String returns the values, joined.
func (l *List) String() string { return strings.Join(*l, ",") }

// Type is what pflag asks for.
func (l *List) Type() string { return "list" }

// Set adds a value.
//
// An empty value is refused, as that of a variable of the shell that was never set.
func (l *List) Set(s string) error {
	if s == "" {
		return fmt.Errorf("want a value")
	}
	*l = append(*l, s)
	return nil
}

// globals are the flags that every command takes.
//
// They are declared on each command and not on the program, because flags come after the
// command.
type globals struct {
	format, log *Choice
	quiet       bool
}

// jsonl is what some call JSON with a line for each value; that of lists is so anyway.
var formatWords = [...]string{"table", "json", "yaml", "jsonl"}

func newGlobals() *globals {
	return &globals{format: &Choice{Value: "table", Words: formatWords[:]}, log: &Choice{Value: "auto", Words: []string{"text", "json", "auto"}}}
}

func (g *globals) declare(fs *pflag.FlagSet) {
	fs.VarP(g.format, "output", "o", "print data as `FORMAT`: table, json or yaml")
	fs.Var(g.log, "log-format", "write logs as `FORMAT`: text, json or auto")
	fs.BoolVar(&g.quiet, "quiet", false, "no notices and no progress on standard error")
}

// isGlobal reports whether every command takes the flag.
func isGlobal(name string) bool {
	return name == "output" || name == "log-format" || name == "quiet"
}

// apply takes what the common flags of a call say, before it runs.
func (e *Env) apply(g *globals) {
	e.Format, e.Quiet, e.logFormat = Format(g.format.Value), g.quiet, g.log.Value
	if e.Format == "jsonl" {
		e.Format = JSONFormat
	}
	e.Log = newLogger(e.Err, e.logFormat, e.Quiet)
}
