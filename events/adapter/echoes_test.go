package adapter_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestEchoes holds which prompts are those of a program.
func TestEchoes(t *testing.T) {
	t.Parallel()
	e := adapter.NewEchoes(8)
	at := events.Stamp(1_700_000_000_000)
	for i, step := range []struct {
		after   events.Stamp // ms after the last record
		text    string
		machine bool
	}{
		{0, "Move the settings of the mailer to the new file.", false},
		{1000, "There are open todos left, go on with them. Iteration 1 of 40.", false},
		{1000, "There are open todos left, go on with them. Iteration 1 of 40.", false},
		{1000, "There are open todos left, go on with them. Iteration 2 of 40.", true},
		{1000, "There are open todos left, go on with them. Iteration 3 of 40.", true},
		{60_000, "There are open todos left, go on with them. Iteration 3 of 40.", false}, // a person may have sent it
		{1000, "Now write the tests.", false},
		{1000, "", false},
	} {
		at += step.after
		if got := e.Prompt("s", adapter.EchoOf([]byte(step.text)), at); got != step.machine {
			t.Errorf("%d: %v", i, got)
		}
		at += 30_000
		e.Passed("s", at)
	}
}
