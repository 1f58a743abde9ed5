package cli

import (
	"io"
	"log/slog"
	"os"
	"time"
)

// Env is everything that a command may use of the outside.
type Env struct {
	// In may be read once. It is not looked at until a command reads it.
	In  io.Reader
	Out io.Writer // data, and nothing else
	Err io.Writer // everything else

	// Getenv is nil in tests that have no environment; see getenv. An empty variable counts as
	// one that is not set.
	Getenv  func(name string) string
	Environ func() []string // all variables, NAME=VALUE; nil when they are not to be listed
	// Now is the wall clock, in tests one of their own. Progress alone does without it.
	Now func() time.Time

	// Notify registers for signals as signal.Notify does and returns what ends it.
	// Nil means that none will come.
	Notify func(c chan<- os.Signal, sig ...os.Signal) (stop func())

	OutTerminal bool
	ErrTerminal bool
	Width       int // of the terminal at Out in columns; 0 when not known

	// What the common flags say.
	// They are set by apply before a Run is called, and are zero in Setup.
	Format Format
	Quiet  bool
	Log    *slog.Logger // never nil in a Run

	logFormat string
}

// Notice prints a message for a person on standard error, unless quiet is set.
//
// A line's end is added. Errors in writing are ignored: there is no other place to report
// them.
func (e *Env) Notice(format string, args ...any) {
	if !e.Quiet {
		_, _ = Fprintf(e.Err, format+"\n", args...)
	}
}

// colour reports whether text to Out may be coloured.
//
// NO_COLOR and TERM=dumb are what people set by convention.
func (e *Env) colour() bool {
	return e.OutTerminal && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
}

func (e *Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// now is the wall clock, for rates and progress only.
func (e *Env) now() time.Time {
	if e.Now == nil {
		return time.Time{}
	}
	return e.Now()
}

// ServerLog returns the logger of a program that runs on: text on a terminal, else
// JSON, unless a flag said otherwise.
func (e *Env) ServerLog() *slog.Logger {
	format := e.logFormat
	if format == "auto" && !e.ErrTerminal {
		format = "json"
	}
	return newLogger(e.Err, format, e.Quiet)
}

func newLogger(w io.Writer, format string, quiet bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if quiet {
		o.Level = slog.LevelWarn
	}
	if format == "json" {
		return slog.New(newBounded(slog.NewJSONHandler(w, o)))
	}
	return slog.New(newBounded(slog.NewTextHandler(w, o)))
}
