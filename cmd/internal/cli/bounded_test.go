package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Whatever others send is bounded in each place of a line: message, texts, errors, groups,
// what a logger carries with it.
func TestLogLinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	long := strings.Repeat("x", 1<<20)
	l := newLogger(&out, "json", false)
	l.With("with", long).WithGroup("in").Warn(long, "text", long, "error", errors.New(long), "any", []string{long}, slog.Group("g", "text", long))
	if n := out.Len(); n > 8<<10 {
		t.Errorf("a line has %d bytes", n)
	}
	if !strings.Contains(out.String(), "(1048576 bytes)") {
		t.Error("the line does not say that it was cut")
	}
}

// A cause that comes again and again fills no disk, and what was left out is said.
func TestLogLinesAreFew(t *testing.T) {
	var out bytes.Buffer
	h := newLogger(&out, "json", false).Handler()
	now := time.Unix(1795000000, 0)
	tell := func(level slog.Level, message string) {
		r := slog.NewRecord(now, level, message, 0)
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	lines := func() (n int) {
		n = strings.Count(out.String(), "\n")
		out.Reset()
		return n
	}
	for range 10_000 {
		tell(slog.LevelWarn, "a request failed")
	}
	if n := lines(); n != logBurst {
		t.Errorf("%d lines at once, want %d", n, logBurst)
	}
	tell(slog.LevelError, "something else")
	if lines() != 1 {
		t.Error("another cause was left out, too")
	}
	for range 60 {
		now = now.Add(time.Second)
		for range 1000 {
			tell(slog.LevelWarn, "a request failed")
		}
	}
	text := out.String()
	if n := lines(); n > 60*logRate+1 {
		t.Errorf("%d lines in a minute", n)
	}
	if want := fmt.Sprintf(`"left_out":%d`, 10_000-logBurst); !strings.Contains(text, want) {
		t.Errorf("%s is not said", want)
	}
	for range 1000 {
		tell(slog.LevelInfo, "an order of a person")
	}
	if lines() != 1000 {
		t.Error("what is no warning was left out")
	}
}
