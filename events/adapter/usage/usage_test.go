package usage_test

import (
	"testing"

	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

func TestRead(t *testing.T) {
	names := usage.Names{"in": usage.Input, "prompt": usage.Input, "out": usage.Output, "all": usage.Total, "cached": usage.CacheRead, "written": usage.CacheCreation,
		"thought": usage.Reasoning, "details": usage.Details}
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
	f(`{}`, events.Usage{})
	f(`null`, events.Usage{})
	f(`[1]`, events.Usage{})
	f(`{"details":[],"out":2}`, events.Usage{Known: true, Output: 2})
}
