package costs

import (
	"testing"

	"weir/analyzer/prices"
	"weir/events"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	table := prices.Table{{Name: "m", Price: prices.Price{Input: 3e6, Output: 15e6, CacheRead: 3e5, CacheWrite: 375e4, Reasoning: 15e6}}}
	call := func(seconds, read, written int64, model string) *events.Event {
		return &events.Event{Kind: events.LLMCall, Time: events.Stamp(seconds * 1000), CorrelationID: "f", From: events.Party{Agent: "a"}, Provider: "anthropic", Model: model,
			Usage: events.Usage{Known: true, Input: 10, Output: 10, CacheRead: read, CacheCreation: written}}
	}
	for name, x := range map[string]struct {
		second *events.Event
		want   Rewritten
	}{
		"in time":                {call(300, 140_000, 1_000, "m"), Rewritten{}},
		"too late":               {call(301, 0, 141_000, "m"), Rewritten{1, 140_000, 483_000}},
		"the cache still had it": {call(900, 140_000, 1_000, "m"), Rewritten{}},
		"half was still there":   {call(900, 70_000, 70_000, "m"), Rewritten{1, 70_000, 241_500}},
		"compacted meanwhile":    {call(900, 0, 20_000, "m"), Rewritten{1, 20_010, 69_035}},
		"no price":               {call(900, 0, 141_000, "claude-x"), Rewritten{1, 140_000, 0}},
	} {
		var w Waits
		w.Note(table, call(0, 130_000, 10_000, "m"), true)
		w.Note(table, x.second, true)
		if got := w.Sum(); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
	var w Waits
	w.Note(table, call(0, 130_000, 10_000, "m"), true)
	w.Note(table, call(900, 0, 140_000, "m"), false)
	if got := w.Sum(); got != (Rewritten{}) {
		t.Errorf("before the time that counts: %+v", got)
	}
}
