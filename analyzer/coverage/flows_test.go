package coverage_test

import (
	"testing"

	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TestFlows lists what some flows of a log never report but others do. The log as a whole reports it
// somewhere, so its coverage does not show these flows.
func TestFlows(t *testing.T) {
	limits, err := limitfile.Profile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	hash := events.Hash{Algorithm: events.XXH64, Value: 1}
	flow := func(calls int, args, content bool) *coverage.Flow {
		f := &coverage.Flow{}
		for range calls {
			call, result := events.Event{Kind: events.ToolCall, From: events.Party{Agent: "a"}}, events.Event{Kind: events.ToolResult}
			if args {
				call.Tool.ArgsHash = hash
			}
			if content {
				result.Content = hash
			}
			f.Add(&call)
			f.Add(&result)
		}
		return f
	}
	f := func(whole []coverage.Blind, want ...string) {
		t.Helper()
		var s coverage.Flows
		s.Add("full", flow(300, true, true))
		s.Add("without", flow(300, false, true))
		s.Add("neither", flow(12, false, false))
		s.Add("short", flow(2, false, false))
		s.Add("silent", &coverage.Flow{})
		parts := s.Blind(&limits, whole)
		if len(parts) != len(want) {
			t.Fatalf("%v, want %v", parts, want)
		}
		for i := range parts {
			if got := parts[i].String(); got[:len(want[i])] != want[i] || len(parts[i].Rules) == 0 {
				t.Errorf("%q, want %q and rules", got, want[i])
			}
		}
	}
	f(nil, `2 of 3 flows tell no arguments in their tool calls (such as "without"): `, `1 of 3 flows tell no results in their tool calls (such as "neither"): `)
	f([]coverage.Blind{{Ratio: coverage.Ratio{What: "arguments"}}}, `1 of 3 flows tell no results in their tool calls (such as "neither"): `)
}
