package adapter_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestStopHooksInTranscripts holds that what a hook says that does not let a turn end is a call by
// that hook and no person's word: as Claude Code 2.1.197 wrote it, and with tools used in between.
func TestStopHooksInTranscripts(t *testing.T) {
	f := func(rounds int, tool bool, calls int, want string) {
		t.Helper()
		var b strings.Builder
		n := 0
		line := func(kind, more, message string) {
			n++
			fmt.Fprintf(&b, `{"parentUuid":null,"isSidechain":false,"type":%q%s,"message":%s,"uuid":"u%d","timestamp":"2026-11-23T00:%02d:%02d.000Z","promptId":"p","sessionId":"s"}`+"\n", kind, more, message, n, n/60, n%60)
		}
		line("user", "", `{"role":"user","content":"say hi"}`)
		for i := range rounds {
			if i > 0 {
				line("user", `,"isMeta":true`, `{"role":"user","content":"Stop hook feedback:\nNot done yet: go on."}`)
			}
			if tool {
				line("assistant", "", fmt.Sprintf(`{"id":"t%d","model":"m","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"c%d","name":"Bash","input":{"command":"go test -run %d"}}]}`, i, i, i))
				line("user", "", fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":"%d of 20 pass"}]}`, i, i))
			}
			line("assistant", "", fmt.Sprintf(`{"id":"m%d","model":"m","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"Finished."}]}`, i))
		}
		got := hear(t, strings.NewReader(b.String()), adapter.Options{})
		again := 0
		for i := range got.events {
			if e := &got.events[i]; e.Kind == events.AgentCall && e.From.Agent == "stop-hook" && e.By() == events.OriginAgent {
				again++
			}
		}
		if order, _ := strictest(got.events); again != calls || !strings.HasPrefix(order, want) || want == "" && order != "" {
			t.Errorf("%d rounds, tools %v: %d calls by hooks, %q; want %d, %q", rounds, tool, again, order, calls, want)
		}
	}
	f(9, false, 8, "deny repeated_delegation")
	f(3, false, 2, "")
	f(12, true, 11, "")
}
