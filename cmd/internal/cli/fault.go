package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes.
//
// They are a part of the interface: scripts go by them, so a number never changes its
// meaning.
const (
	CodeOK      = 0
	CodeFailure = 1 // it could not be done
	CodeUsage   = 2 // it was asked for in a wrong way
	CodeFinding = 3 // it was done, and the answer is no: denied, invalid, different
)

// Fault is an error with an exit code and a hint. Any other error is a failure.
//
// It is made by Usage, Failure and Exit. Main prints it in at most three lines, of which
// Next is the last. Code is never CodeOK.
type Fault struct {
	Code int
	Err  error  // nil when all is said already
	Next string // how to go on; may be empty
}

// Error returns what went wrong, without what to do about it. A bare exit code has no words;
// these are for tests and logs.
func (f *Fault) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns the error itself.
func (f *Fault) Unwrap() error { return f.Err }

// Advise says how to go on.
//
// It changes f and returns it, so that it can stand behind the call that makes it. A later
// advice replaces an earlier one.
func (f *Fault) Advise(format string, args ...any) *Fault {
	f.Next = fmt.Sprintf(format, args...)
	return f
}

// Usage is a fault in the command line.
//
// The command did nothing, and what was typed is wrong whatever the state of the world.
func Usage(format string, args ...any) *Fault {
	return &Fault{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// Failure is anything that could not be done; wrap errors with %w.
func Failure(format string, args ...any) *Fault {
	return &Fault{Code: CodeFailure, Err: fmt.Errorf(format, args...)}
}

// Exit ends the command with a code and without a word.
//
// All that there is to say was printed by the command.
func Exit(code int) *Fault { return &Fault{Code: code} }

// report prints the error in at most three lines and returns the exit code.
func (e *Env) report(path string, err error) int {
	if err == nil {
		return CodeOK
	}
	fault, ok := errors.AsType[*Fault](err)
	if !ok {
		fault = &Fault{Code: CodeFailure, Err: err}
	}
	if fault.Err == nil {
		return fault.Code
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	room := 3
	if fault.Next != "" {
		room--
	}
	// The end of a long list says less than how long it is.
	if len(lines) > room {
		lines[room-1] = fmt.Sprintf("%s (and %d more)", lines[room-1], len(lines)-room)
		lines = lines[:room]
	}
	_, _ = io.WriteString(e.Err, path+": "+strings.Join(lines, "\n  ")+"\n")
	if fault.Next != "" {
		_, _ = io.WriteString(e.Err, "  "+strings.ReplaceAll(fault.Next, "\n", "\n  ")+"\n")
	}
	return fault.Code
}
