package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestReplayOfWildTimes holds that one event with a wrong time, in a flow of its own, changes
// no verdict about others, wherever it is in the log.
func TestReplayOfWildTimes(t *testing.T) {
	event := func(flow string, n int, at, from, to string) string {
		return fmt.Sprintf(`{"id":"%s-%d","kind":"agent.call","time":%q,"correlation_id":%q,"from":{"agent":%q},"to":{"agent":%q},"had_work":false}`+"\n", flow, n, at, flow, from, to)
	}
	var lines []string
	for n := range 40 {
		from, to := "a", "b"
		if n%2 == 1 {
			from, to = to, from
		}
		lines = append(lines, event("loop", n, fmt.Sprintf("2026-11-20T14:%02d:%02dZ", n/6, n%6*10), from, to))
	}
	replay := func(name string, log []string) string {
		code, out, told := weir(t, strings.Join(log, ""), "replay", "-o", "json", "-")
		if code > 1 {
			t.Fatalf("%s: %d %s", name, code, told)
		}
		var of []string
		for line := range strings.Lines(out) {
			if strings.Contains(line, `"loop"`) {
				of = append(of, line)
			}
		}
		return strings.Join(of, "")
	}
	want := replay("plain", lines)
	if !strings.Contains(want, `"halt"`) {
		t.Fatalf("the loop is not found at all: %s", want)
	}
	for _, at := range []string{"9999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", "2026-11-20T16:00:00Z", "1970-01-01T00:00:01Z"} {
		for _, place := range []int{0, 1, 8, 39, 40} {
			// An event of two hours on may well be the last of a log.
			if place == 40 && strings.HasPrefix(at, "2026") || place == 39 && strings.HasPrefix(at, "2026") {
				continue
			}
			log := append(append(append([]string{}, lines[:place]...), event("other", 0, at, "c", "d")), lines[place:]...)
			if got := replay(at, log); got != want {
				t.Errorf("an event of %s at %d changes what is said of another flow to\n%s", at, place, got)
			}
		}
	}
}
