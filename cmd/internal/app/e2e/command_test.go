package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// workshop is the folder for what is built for the tests; TestMain makes it.
var workshop string

// built is the weir that the tests of its commands run. It is built when the first
// of them needs it.
var built = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(workshop, "weir")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/weir")
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workshop = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// weir runs a command to its end. Variables are NAME=VALUE.
func weir(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatalf("build weir: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), append(os.Environ(), env...), &out, &errs
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// names are topics and a group that nobody else uses.
type names struct{ events, verdicts, activity, deadLetters, group string }

func newNames(t *testing.T) names {
	u := unique(t)
	return names{u + "-events", u + "-verdicts", u + "-activity", u + "-letters", u}
}

// flags are those of weir for the names, after the command.
func (n names) flags(command string, b *broker, more ...string) []string {
	args := append(strings.Fields(command), "--brokers", b.Addr, "--events-topic", n.events, "--verdicts-topic", n.verdicts,
		"--activity-topic", n.activity, "--dead-letter-topic", n.deadLetters, "--group", n.group)
	return append(args, more...)
}

// expects runs a command and fails unless the exit code is as wanted and each of the
// texts is in what it prints.
func expects(t *testing.T, code int, texts []string, args ...string) (stdout string) {
	t.Helper()
	got, out, errs := weir(t, nil, args...)
	if got != code {
		t.Errorf("weir %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			t.Errorf("weir %s: no %q in\n%s%s", strings.Join(args, " "), text, out, errs)
		}
	}
	return out
}
