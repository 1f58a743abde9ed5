package caco_test

import (
	"slices"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/caco"
)

// TestWorkIsThatOfTheSender holds that whether a hop came without work is said of those alone
// whose log is read, whatever the line before it was.
func TestWorkIsThatOfTheSender(t *testing.T) {
	f := func(name string, want []events.Tri, lines ...string) {
		t.Helper()
		a := caco.Format().New(adapter.Options{})
		var got []events.Tri
		for _, line := range lines {
			err := a.Decode([]byte(line), func(e *events.Event) {
				if e.Kind == events.AgentReturn || e.Kind == events.AgentCall && e.By() == events.OriginAgent {
					got = append(got, e.HadWork)
				}
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	post := func(to, from string) string {
		return `{"path":"/api/sessions/` + to + `/messages","body":{"prompt":"Go on with ` + to + `","source":"agent","correlationId":"c"` + from + `}}`
	}
	by := func(session string) string { return `,"fromSession":"` + session + `"` }
	entry := func(session, kind, data string) string {
		return `{"file":"session-state/` + session + `/events.jsonl","line":{"timestamp":"2026-02-08T00:41:44.000Z","type":"` + kind + `","data":{` + data + `}}}`
	}
	use := entry("b", "tool.execution_start", `"toolCallId":"1","toolName":"bash","arguments":{}`)
	says := func(session string) string { return entry(session, "assistant.message", `"content":"Done"`) }
	f("some session, behind a line of a log that is read", []events.Tri{events.Unknown}, use, post("b", ""))
	f("a session without a log, behind one with", []events.Tri{events.Unknown}, use, post("b", by("a")))
	f("a session with a log", []events.Tri{events.Unknown, events.Yes, events.No}, post("b", by("a")), use, post("a", by("b")), post("a", by("b")))
	f("an answer, behind one without a log", []events.Tri{events.Unknown, events.Yes}, post("c", by("a")), use, says("b"))
	f("an answer of one that no use of a tool was seen of", []events.Tri{events.Unknown}, use, says("c"))
	f("an answer of one with a log, behind one without", []events.Tri{events.Unknown, events.No}, use, post("b", by("a")), says("b"))
}
