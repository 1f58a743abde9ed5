package e2e

import (
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// weir runs a command to its end. Variables are NAME=VALUE.
func weir(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return weirtest.Command(t, weirtest.Options{Env: env}, args...)
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
