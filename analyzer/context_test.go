package analyzer_test

import (
	"testing"

	"weir/analyzer"
	"weir/analyzer/prices"
	"weir/analyzer/rules"
	"weir/events"
)

// TestContextOfParty adds up by hand how a context grows, what of it is cached and what the next call
// costs, and holds that a record keeps it.
func TestContextOfParty(t *testing.T) {
	limits := analyzer.Balanced()
	limits.Rules[analyzer.RuleContextGrowth] = rules.Setting{Warn: 3, Stop: rules.Off}
	limits.Prices = prices.Table{{Name: "m", Price: prices.Price{Input: 3e6, Output: 15e6, CacheRead: 3e5, CacheWrite: 375e4, Reasoning: 15e6}}}
	e := analyzer.New(limits)
	var p analyzer.Partition
	var f, again analyzer.Flow
	var fx analyzer.Effects
	for i, input := range []int64{1000, 1400, 1800, 2200, 2600, 20_000} {
		ev := events.Event{ID: string(rune('a' + i)), Source: "s", Time: events.Stamp(1_700_000_000_000 + i*1000), Kind: events.LLMCall, CorrelationID: "f",
			From: events.Party{Agent: "coder"}, Provider: "anthropic", Model: "m", Usage: events.Usage{Known: true, Input: 100, CacheRead: input - 200, CacheCreation: 100, Output: 50}}
		e.Step(&p, &f, &ev, &fx)
	}
	record, err := f.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.UnmarshalBinary("f", record); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*analyzer.Flow{&f, &again} {
		v := e.View(f).Parties[0].Context
		if v == nil || v.Next == nil {
			t.Fatalf("no context: %+v", v)
		}
		// The slope is 100, 175, 231, 273 after growths of 400, and then (17400 - 273) / 4 more.
		// The next call reads 19,900 from the cache, 150 as input, and answers 50: 5970 + 450 + 750.
		// After the third of the first five it would have cost 1,700 x 0.3 + 450 + 750 = 1,710.
		if v.Tokens != 20_000 || v.Slope != 4554 || v.Cached != 0.99 || *v.Next != 0.00717 || v.Times != 4 {
			t.Errorf("%+v, next %v", *v, *v.Next)
		}
	}
}
