package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// TestNeverRefusesByMistake runs the program as agents do: neither a flag that it does not
// know nor a weir that is away ends with 2, which they take for a refusal.
func TestNeverRefusesByMistake(t *testing.T) {
	program := weirtest.Hook(t)
	f := func(want int, said string, args ...string) {
		t.Helper()
		run := exec.Command(program, args...)
		run.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"session_id":"s"}`)
		var out, errs strings.Builder
		run.Stdout, run.Stderr = &out, &errs
		code := 0
		if err := run.Run(); err != nil {
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok {
				t.Fatal(err)
			}
			code = exit.ExitCode()
		}
		if code != want || out.Len() > 0 || !strings.Contains(errs.String(), said) {
			t.Errorf("%v: code %d, want %d: %s%s", args, code, want, out.String(), errs.String())
		}
	}
	f(1, "not defined: -loud", "--loud")
	f(0, "Usage", "-h")
	f(0, "goes on without it", "--server", "127.0.0.1:1")
}
