package usage_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// TestCost holds that money is rounded, and what is taken for a cost.
func TestCost(t *testing.T) {
	f := func(text string, want int64, known bool) {
		t.Helper()
		if got, ok := usage.Dollars([]byte(text)); got != want || ok != known {
			t.Errorf("%s: %d, %t; want %d, %t", text, got, ok, want, known)
		}
	}
	f("0.000009", 9, true)
	f("2.01", 2_010_000, true)
	f("0.0000004", 0, true)
	f("1e9", events.MaxCostUSD*1_000_000, true)
	for _, text := range []string{"", "0", "-1", "1000000000.1", "NaN", "Inf", "1e999", "x", "null"} {
		f(text, 0, false)
	}
}

func TestRead(t *testing.T) {
	names := usage.Names{"in": usage.Input, "prompt": usage.Input, "out": usage.Output, "all": usage.Total, "cached": usage.CacheRead, "written": usage.CacheCreation,
		"thought": usage.Reasoning, "details": usage.Details, "5m": usage.CacheMinutes, "1h": usage.CacheHour}
	f := func(text string, want events.Usage) {
		t.Helper()
		c := jsonwalk.New([]byte(text))
		got := names.Read(c)
		if c.End(); got != want || c.Err() != nil {
			t.Errorf("%s: %+v, %v; want %+v", text, got, c.Err(), want)
		}
	}
	f(`{"in":1,"out":2,"all":3,"cached":4,"written":5,"thought":6,"else":{"in":9}}`,
		events.Usage{Known: true, Input: 1, Output: 2, Total: 3, CacheRead: 4, CacheCreation: 5, Reasoning: 6})
	f(`{"prompt":7,"in":"x","out":-1,"all":0}`, events.Usage{Known: true, Input: 7})
	f(`{"in":1,"cached":4,"details":{"in":9,"cached":8,"thought":6}}`, events.Usage{Known: true, Input: 1, CacheRead: 4, Reasoning: 6})
	f(`{"in":1,"written":9,"details":{"5m":4,"1h":5}}`, events.Usage{Known: true, Input: 1, CacheCreation: 9, CacheHour: 5})
	f(`{"in":1,"details":{"5m":4,"1h":5},"written":0}`, events.Usage{Known: true, Input: 1, CacheCreation: 9, CacheHour: 5})
	f(`{"in":1,"written":9,"details":{"5m":0,"1h":5}}`, events.Usage{Known: true, Input: 1, CacheCreation: 9, CacheHour: 5})
	f(`{}`, events.Usage{})
	f(`null`, events.Usage{})
	f(`[1]`, events.Usage{})
	f(`{"details":[],"out":2}`, events.Usage{Known: true, Output: 2})
}
