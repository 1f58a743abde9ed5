package costs

import (
	"testing"
	"time"

	"weir/analyzer/prices"
	"weir/events"
)

// TestBy holds that what a log prices is not priced again. This also applies where the sum of money that
// it reports has not grown with the tokens.
func TestBy(t *testing.T) {
	p := prices.Table{{Name: "m", Price: prices.Plain(1_000_000, 2_000_000)}} // a dollar and two for a million tokens
	f := func(told int64, scope events.UsageScope, grown int64, want Spent) {
		t.Helper()
		ev := events.Event{Model: "m", Usage: events.Usage{Known: true, Scope: scope, Input: 100, Output: 100, CostMicroUSD: told}}
		if got := By(p, &ev, 0, 200, grown); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	f(0, events.UsageDelta, 300, Spent{Tokens: 200, Priced: 300, OfFile: 200})
	f(70, events.UsageDelta, 70, Spent{Tokens: 200, Reported: 70})
	f(70, events.UsageCumulative, 20, Spent{Tokens: 200, Reported: 20})
	f(70, events.UsageCumulative, 0, Spent{Tokens: 200})
}

// TestBuiltIn holds that the built-in prices can be read, and have a day and models of each provider.
func TestBuiltIn(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, BuiltInDate()); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]prices.Price{
		"gpt-4o":                       {Input: 2_500_000, Output: 10_000_000, CacheRead: 1_250_000, CacheWrite: 2_500_000, Reasoning: 10_000_000, BatchInput: 2_500_000, BatchOutput: 10_000_000},
		"claude-sonnet-4-5-20250929":   {Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, CacheHour: 6_000_000, Reasoning: 15_000_000, BatchInput: 3_000_000, BatchOutput: 15_000_000},
		"gemini-2.5-pro":               {Input: 1_250_000, Output: 10_000_000, CacheRead: 125_000, CacheWrite: 1_250_000, Reasoning: 10_000_000, BatchInput: 1_250_000, BatchOutput: 10_000_000},
		"us.amazon.nova-pro-v1:0":      {Input: 800_000, Output: 3_200_000, CacheRead: 200_000, CacheWrite: 800_000, Reasoning: 3_200_000, BatchInput: 800_000, BatchOutput: 3_200_000},
		"deepseek-chat":                {Input: 280_000, Output: 420_000, CacheRead: 28_000, CacheWrite: 280_000, Reasoning: 420_000, BatchInput: 280_000, BatchOutput: 420_000},
		"eu.anthropic.claude-opus-4-7": {Input: 5_500_000, Output: 27_500_000, CacheRead: 550_000, CacheWrite: 6_875_000, Reasoning: 27_500_000, BatchInput: 5_500_000, BatchOutput: 27_500_000},
	} {
		if got, ok := BuiltIn().Find("", name); !ok || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
