package weirtest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Rows is the variable that names the file of rows of journeys. Without it a row is only logged.
const Rows = "WEIR_JOURNEYS"

// Journey is a row of the table that `make journeys` prints: what a new user did, was promised and got.
type Journey struct {
	testing.TB
	Lines int // that the user wrote

	name, promise, skipped string
	begun                  time.Time
	seen                   []string
}

// NewJourney begins a journey, whose row is written when the test ends. The name begins with its number, such as "J2".
func NewJourney(t testing.TB, name, promise string) *Journey {
	j := &Journey{TB: t, name: name, promise: promise, begun: time.Now()}
	t.Cleanup(j.arrive)
	return j
}

// paint is how programs colour what they print.
var paint = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Saw adds to what happened.
func (j *Journey) Saw(format string, args ...any) {
	j.seen = append(j.seen, strings.TrimSpace(paint.ReplaceAllString(fmt.Sprintf(format, args...), "")))
}

// NotTested skips the test. The row has the reason.
func (j *Journey) NotTested(format string, args ...any) {
	j.Helper()
	j.skipped = fmt.Sprintf(format, args...)
	j.Skipf("*** NOT TESTED: %s: %s ***", j.name, j.skipped)
}

func (j *Journey) arrive() {
	happened := "kept: " + strings.Join(j.seen, "; ")
	switch {
	case j.Failed():
		happened = "BROKEN: " + strings.Join(j.seen, "; ")
	case j.Skipped():
		happened = "NOT TESTED: " + j.skipped
	}
	row := fmt.Sprintf("%s\t%.1f\t%d\t%s\t%s\n", j.name, time.Since(j.begun).Seconds(), j.Lines, j.promise, happened)
	j.Log(strings.ReplaceAll(strings.TrimSpace(row), "\t", " | "))
	name := os.Getenv(Rows)
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(row)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		j.Errorf("the row of %s: %v", j.name, err)
	}
}
