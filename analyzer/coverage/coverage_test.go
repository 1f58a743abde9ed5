package coverage_test

import (
	"strconv"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TestBlind says what cannot be judged, and only that.
func TestBlind(t *testing.T) {
	limits, err := limitfile.Profile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	args := events.Hash{Algorithm: events.XXH64, Value: 1}
	f := func(want string, all ...events.Event) {
		t.Helper()
		var c coverage.Coverage
		for i := range all {
			c.Add(&all[i])
		}
		got := coverage.Line(c.Blind(&limits))
		if missing, rules, _ := strings.Cut(got, ": "); missing != want || (want == "") == strings.HasSuffix(rules, " cannot be judged") {
			t.Errorf("%q, want %q and the rules", got, want)
		}
	}
	call := events.Event{Kind: events.ToolCall, From: events.Party{Agent: "a"}, Tool: events.Tool{Name: "x"}}
	told := call
	told.Tool.ArgsHash = args
	result := events.Event{Kind: events.ToolResult, Content: args}
	f("")
	f("arguments in 0 of 2 tool calls, results in 0 of 2 tool calls", call, call)
	f("results in 0 of 2 tool calls", call, told)
	f("", told, result)
	f("tools in 0 of 1 calls, callers in 0 of 1 agent calls, known work in 0 of 1 agent calls",
		events.Event{Kind: events.AgentCall, Origin: events.OriginAgent, To: events.Party{Agent: "b"}})
	f("", events.Event{Kind: events.AgentCall, Origin: events.OriginUser, To: events.Party{Agent: "b"}})
	// Once more after a person has approved something; and a tool that only fails.
	f("", told, result, events.Event{Kind: events.AgentCall, Origin: events.OriginSystem, To: events.Party{Agent: "b"}})
	f("", told, events.Event{Kind: events.ToolResult, Status: events.StatusError, ErrorType: "403 Forbidden"})
	f("tools in 0 of 1 answers", events.Event{Kind: events.AgentCall, Origin: events.OriginUser, To: events.Party{Agent: "b"}},
		events.Event{Kind: events.AgentReturn, From: events.Party{Agent: "b"}})
	f("tools in 0 of 2 requests to models", events.Event{Kind: events.LLMCall}, events.Event{Kind: events.LLMCall})
	f("", events.Event{Kind: events.LLMCall}, told, result)

	var guessed coverage.Coverage
	told.CorrelationSource = events.CorrelationDerived
	guessed.Add(&told)
	if text := guessed.WarnsOnly(&limits); !strings.HasPrefix(text, "calls that name no flow: 1; ") {
		t.Errorf("%q", text)
	}
	limits.WarnOnly = 0
	if text := guessed.WarnsOnly(&limits); text != "" {
		t.Errorf("%q, though such flows are stopped", text)
	}

	var apart, together []events.Event
	for n := range 8 {
		one, another := told, result
		one.CorrelationID = strconv.Itoa(n)
		another.CorrelationID = one.CorrelationID
		apart = append(apart, one, another)
		one.CorrelationID = strconv.Itoa(n / 2)
		together = append(together, one, another)
	}
	f("an earlier call of the same flow in 0 of 8 tool calls", apart...)
	f("", apart[:14]...)
	f("", together...)
}

// TestTogetherSideBySide holds that thousands of flows whose calls take turns are not taken for
// calls that are each a flow of its own.
func TestTogetherSideBySide(t *testing.T) {
	var c coverage.Coverage
	for range 3 {
		for i := range 5000 {
			c.Add(&events.Event{Kind: events.ToolCall, CorrelationID: strconv.Itoa(i), Tool: events.Tool{Name: "t"}})
		}
	}
	if c.AfterOthers == 0 {
		t.Error("no call comes after another one of its flow")
	}
}

// TestFields holds that each rule with a need stands in one row of what is passed, behind all that it
// needs, and that a rule that compares results is not in a row before them.
func TestFields(t *testing.T) {
	times := map[string]int{}
	for i, f := range coverage.Fields() {
		if len(f.Rules) == 0 {
			t.Errorf("%s lets no rule judge", f.Guard)
		}
		for _, name := range f.Rules {
			times[name]++
			if name == "circling" && !strings.Contains(f.Event, "tool.result") {
				t.Errorf("circling is in row %d, %s", i, f.Guard)
			}
		}
	}
	for i := range analyzer.Rules {
		r := &analyzer.Rules[i]
		if want := min(int(r.Needs), 1); times[r.Name] != want {
			t.Errorf("%s stands in %d rows, want %d", r.Name, times[r.Name], want)
		}
	}
}
