package adapter_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestAcknowledge takes the words from what says nothing, and from nothing else.
func TestAcknowledge(t *testing.T) {
	f := func(tool string, status events.Status, kept bool) {
		t.Helper()
		e := events.Event{Kind: events.ToolResult, Status: status, Tool: events.Tool{Name: tool},
			Content: events.Hash{Algorithm: events.XXH64, Value: 1}, Sim: events.Fingerprint{Algorithm: events.Simhash64, Value: 1}}
		adapter.Acknowledge(&e)
		if e.Content.IsZero() == kept || e.Sim.IsZero() == kept {
			t.Errorf("%s, %s: content %v, fingerprint %v", tool, status, e.Content, e.Sim)
		}
	}
	f("Edit", events.StatusOK, false)
	f("apply_patch", events.StatusOK, false)
	f("AskUserQuestion", events.StatusOK, false)
	f("Edit", events.StatusError, true)
	f("Read", events.StatusOK, true)
	f("Bash", events.StatusOK, true)
}
