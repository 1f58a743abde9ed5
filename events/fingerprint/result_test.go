package fingerprint_test

import (
	"testing"

	"weir/events"
	"weir/events/fingerprint"
)

// TestResult holds that an empty result is known, and is the same whatever a client writes in its
// place.
func TestResult(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "(no output)", "Tool ran without output", "(Bash completed with no output)", "[]", `""`, "None"} {
		if got, near := fingerprint.Result([]byte(text)); got != events.EmptyContent || !near.IsZero() {
			t.Errorf("%q gives %v, %v", text, got, near)
		}
	}
	if got, _ := fingerprint.Result(nil); !got.IsZero() {
		t.Errorf("a result that is not reported gives %v", got)
	}
	for _, text := range []string{"ok", "no output file was found", "{}"} {
		if got, _ := fingerprint.Result([]byte(text)); got != fingerprint.Content([]byte(text)) {
			t.Errorf("%q gives %v", text, got)
		}
	}
}
