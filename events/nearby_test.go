package events

import (
	"fmt"
	"testing"
)

// TestMisnamed finds slips of the pen, and takes no name of somebody's own for one.
func TestMisnamed(t *testing.T) {
	f := func(record, want string) {
		t.Helper()
		if got := fmt.Sprint(Misnamed([]byte(record))); got != want {
			t.Errorf("%s: %s, want %s", record, got, want)
		}
	}
	f(`{"form":{"agent":"a"},"kind":"agent.call"}`, "[{form from}]")
	f(`{"fro":{"agent":"a"},"tols":1}`, "[{fro from}]")
	f(`{"from":{"agnet":"a"},"tool":{"nam":"x"}}`, "[{from.agnet from.agent} {tool.nam tool.name}]")
	f(`{"from":{},"form":1}`, "[]") // the known one is there
	f(`{"my_field":1,"note_id":"x","x":1}`, "[]")
	f(`[1]`, "[]")
}
