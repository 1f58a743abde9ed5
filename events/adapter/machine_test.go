package adapter_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestMachinePrompt holds which messages of the user a program wrote.
func TestMachinePrompt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"<system-reminder>\n[SYSTEM DIRECTIVE: TODO CONTINUATION]": true,
		"  <task-notification>task 3 ended":                        true,
		"[cron] daily report":                                      true,
		"Fix the tests":                                            false,
		"Why does <system-reminder> stand in my log?":              false,
		"": false,
	} {
		if got := adapter.MachinePrompt([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestOriginOf holds which flows a person, a timer and another program open.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]events.Origin{
		"Fix the parser.":                      events.OriginUser,
		"[cron:42] Check the inbox.":           events.OriginScheduler,
		" <heartbeat>\nAnything to do?":        events.OriginScheduler,
		"<task-notification>done":              events.OriginSystem,
		"[SYSTEM DIRECTIVE: TODO CONTINUATION": events.OriginSystem,
	} {
		if got := adapter.OriginOf([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
