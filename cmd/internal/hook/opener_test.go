package hook

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOpener names who started an agent, by the environments from the hook's own upwards.
func TestOpener(t *testing.T) {
	const claude, codex = "CLAUDE_CODE_SESSION_ID=", "CODEX_THREAD_ID="
	const baggage, trace = "BAGGAGE=weir.correlation_id=order-7", "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f := func(what, own, want string, up ...string) {
		t.Helper()
		o := openerOf([]byte(`{"session_id":"`+own+`","hook_event_name":"PreToolUse"}`), func(yield func([]string) bool) {
			for _, environ := range up {
				if !yield(append(strings.Fields(environ), "PATH=/bin", "EMPTY=")) {
					return
				}
			}
		})
		if got := strings.TrimPrefix(o.value, "weir.parent_correlation_id="); got != want {
			t.Errorf("%s: opened by %q in %q, want %q", what, o.value, o.header, want)
		}
	}
	f("a person", "a", "", claude+"a", "", "")
	f("Claude Code in Claude Code, which names its own session to its hooks", "b", "a", claude+"b", claude+"a", claude+"a", "", "")
	f("three in a row", "c", "b", claude+"c", claude+"b", claude+"b", claude+"a", "")
	f("Codex in Claude Code", "b", "a", claude+"a", claude+"a", "", "")
	f("Claude Code in Codex in Claude Code", "c", "b", claude+"c "+codex+"b", claude+"a "+codex+"b", claude+"a", "", "")
	f("Claude Code in Claude Code in Codex", "c", "b", claude+"c "+codex+"a", claude+"b "+codex+"a", codex+"a", "", "")
	f("a program with baggage", "a", "weir.correlation_id=order-7", claude+"a "+baggage+" "+trace, baggage+" "+trace, baggage+" "+trace)
	f("Claude Code in a Claude Code with baggage", "b", "a", claude+"b "+baggage, claude+"a "+baggage, baggage, "")
	f("a program with a trace alone", "a", strings.TrimPrefix(trace, "TRACEPARENT="), claude+"a "+trace, trace)
	f("baggage of others", "a", "", claude+"a BAGGAGE=user=7", "")
	f("where only the hook's own environment is to be seen", "b", "a", codex+"a")
	f("an id that has to be escaped", "b", "a%2Cb=c", codex+"a,b=c")
	if o := openerOf([]byte("{"), func(yield func([]string) bool) { yield(nil) }); o != (opener{}) {
		t.Errorf("a broken question: %v", o)
	}
}

// TestAncestors goes up from this process, of which the first environment is its own.
func TestAncestors(t *testing.T) {
	n := 0
	ancestors(func(environ []string) bool {
		if n++; n == 1 && !slices.Equal(environ, os.Environ()) {
			t.Errorf("the first environment is %q", environ)
		}
		return true
	})
	if _, err := os.Stat("/proc/self/environ"); err == nil && n < 2 {
		t.Errorf("%d environments, want that of go test as well", n)
	}
}
