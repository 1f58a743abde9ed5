package analyzer

import (
	"fmt"
	"testing"
	"time"

	"weir/events"
)

// TestRepeatOfTheLastForgotten sends each event of a busy flow again when its id is about to be
// forgotten, or just was: none is folded twice, the one at the very edge included.
func TestRepeatOfTheLastForgotten(t *testing.T) {
	e := New(Balanced())
	at := events.Stamp(1_795_000_000_000)
	event := func(i int) *events.Event {
		return &events.Event{ID: fmt.Sprint(i), Source: "test", Time: at.Add(time.Duration(i) * time.Second), Kind: events.ToolCall, CorrelationID: "f",
			From: events.Party{Session: "s"}, Tool: events.Tool{Name: "search"}}
	}
	for again := range maxIDs {
		var p Partition
		var f Flow
		var fx Effects
		f.Reset("f")
		for i := range maxIDs + 1 {
			e.Step(&p, &f, event(i), &fx)
		}
		e.Step(&p, &f, event(again), &fx)
		if got := f.Events(); got != maxIDs+1 {
			t.Errorf("event %d sent again: %d events folded, want %d", again, got, maxIDs+1)
		}
	}
}
