package adapter_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestAcknowledge takes the words from what says nothing, and from nothing else.
func TestAcknowledge(t *testing.T) {
	rejected := false
	f := func(tool string, status events.Status, kept bool) {
		t.Helper()
		e := events.Event{Kind: events.ToolResult, Status: status, Tool: events.Tool{Name: tool},
			Content: events.Hash{Algorithm: events.XXH64, Value: 1}, Sim: events.Fingerprint{Algorithm: events.Simhash64, Value: 1}}
		adapter.Acknowledge(&e, rejected)
		if (e.Content.Value == 1) != kept || e.Sim.IsZero() == kept {
			t.Errorf("%s, %s: content %v, fingerprint %v", tool, status, e.Content, e.Sim)
		}
	}
	f("Edit", events.StatusOK, false)
	f("apply_patch", events.StatusOK, false)
	f("AskUserQuestion", events.StatusOK, false)
	f("Edit", events.StatusError, true)
	f("Read", events.StatusOK, true)
	f("Bash", events.StatusOK, true)
	f("mcp__calendar__create_event", events.StatusOK, false)
	f("createEvent", events.StatusOK, false)
	f("crm.update_contact", events.StatusOK, false)
	f("settings", events.StatusOK, true)
	f("get_posts", events.StatusOK, true)
	f("run_tests", events.StatusOK, true)
	f("write_stdin", events.StatusOK, true)
	rejected = true
	f("Edit", events.StatusOK, true)
	if !adapter.Rejects([]byte("No replacement was performed, old_str did not appear verbatim.")) || adapter.Rejects([]byte("The file has been updated.")) {
		t.Error("a rejected edit is not told from an accepted one")
	}
}
