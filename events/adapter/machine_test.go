package adapter_test

import (
	"testing"

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
