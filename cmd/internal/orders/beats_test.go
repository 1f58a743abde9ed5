package orders

import (
	"encoding/json"
	"testing"
	"time"

	"weir/events"
)

// TestHeartbeatsThatRepeat are recognized by their text, as long as the guard has sent no other one.
func TestHeartbeatsThatRepeat(t *testing.T) {
	const verdict = "0123456789abcdef-1"
	now := events.Stamp(1_795_000_000_000)
	var g Guards
	send := func(principal string, again bool, held ...string) {
		t.Helper()
		now = now.Add(time.Second)
		b := Beat{Guard: "shop", Instance: "1", Language: "go", Held: held}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := g.Again(principal, text, now); got != again {
			t.Errorf("%s of %q is known: %v, want %v", text, principal, got, again)
		}
		if !again {
			g.Read(principal, text, b, now)
		}
	}
	send("a", false)
	send("a", true)
	send("b", false) // the same text of another one
	send("b", true)
	send("a", false)
	send("a", false, verdict)
	first := now
	send("a", true, verdict)
	now = now.Add(Silent)
	send("a", true, verdict)
	c := g.Confirm(verdict, true, now)
	if c.Guards != 1 || len(c.Missing) != 1 || c.Last != events.RFC3339(first) {
		t.Errorf("%+v", c)
	}
	g.Heard("a", Beat{Guard: "shop", Instance: "1", Closed: true}, now)
	send("a", false, verdict)
	now = now.Add(forgotten + time.Second)
	g.Confirm(verdict, true, now)
	if len(g.byName) != 0 || len(g.byText) != 0 {
		t.Errorf("%d guards and %d texts are kept", len(g.byName), len(g.byText))
	}
}
