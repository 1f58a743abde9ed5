package main

import (
	"strings"
	"testing"

	"weir/cmd/internal/cli"
)

// TestCommandsCountTheirArguments holds that a command that needs an argument refuses a call without one.
func TestCommandsCountTheirArguments(t *testing.T) {
	n := 0
	var walk func(words []string, cmds []cli.Command)
	walk = func(words []string, cmds []cli.Command) {
		for _, c := range cmds {
			call := append(words[:len(words):len(words)], c.Name)
			walk(call, c.Commands)
			if c.Setup == nil || c.Args == "" || strings.HasPrefix(c.Args, "[") {
				continue
			}
			n++
			if code, out, errs := weir(t, "", call...); code != cli.CodeUsage || !strings.Contains(errs, "missing") {
				t.Errorf("weir %s: exit code %d: %s%s", strings.Join(call, " "), code, out, errs)
			}
		}
	}
	walk(nil, program().Commands)
	if n == 0 {
		t.Error("no command takes an argument")
	}
}
