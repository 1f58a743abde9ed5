package coverage_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
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
			c.Add(&all[i], nil)
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
	f("tools in 0 of 1 calls, callers in 0 of 1 agent calls, messages in 0 of 1 agent calls, known work in 0 of 1 agent calls",
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
	guessed.Add(&told, nil)
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
			c.Add(&events.Event{Kind: events.ToolCall, CorrelationID: strconv.Itoa(i), Tool: events.Tool{Name: "t"}}, nil)
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

// TestCost holds that limits in US dollars report which share of calls they do not count, from 10 %
// on, and that other limits do not report it.
func TestCost(t *testing.T) {
	table := prices.Table{{Name: "m", Price: prices.Plain(1, 1)}}
	request := func(model string, u events.Usage) events.Event {
		u.Known = u != (events.Usage{})
		return events.Event{Kind: events.LLMCall, Model: model, Usage: u}
	}
	listed, unlisted := request("m", events.Usage{Input: 1}), request("other", events.Usage{Input: 1})
	reported, silent := request("other", events.Usage{CostMicroUSD: 1}), request("m", events.Usage{})
	failed := silent
	failed.Status = events.StatusError
	answer := events.Event{Kind: events.AgentReturn, Model: "m", Usage: events.Usage{Known: true, Total: 5}}
	f := func(rules, share string, unpriced int64, all ...events.Event) {
		t.Helper()
		limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {"+rules+": {max: 5}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var c coverage.Coverage
		for i := range all {
			c.Add(&all[i], table)
		}
		want := ""
		if share != "" {
			want = rules + " is on, and " + share + " calls of models have no price; add the models under prices: in the limits file"
		}
		if got := coverage.Line(c.Blind(&limits)); got != want || c.Unpriced() != unpriced {
			t.Errorf("%q, %d; want %q, %d", got, c.Unpriced(), want, unpriced)
		}
	}
	f("max_turns", "", 2, unlisted, unlisted)
	for _, rule := range []string{"max_cost_usd", "max_tree_cost_usd"} {
		f(rule, "", 0, listed, reported, failed)
		f(rule, "", 0, silent, answer) // its usage came later
		f(rule, "", 1, append(slices.Repeat([]events.Event{listed}, 9), unlisted)...)
		f(rule, "11 % of 9", 1, append(slices.Repeat([]events.Event{reported}, 8), unlisted)...)
		f(rule, "33 % of 3", 1, listed, silent, reported)
		f(rule, "100 % of 2", 2, unlisted, unlisted)
	}
	l, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_cost_usd: {max: 5}}\nbudgets: [{name: day, scope: team, window: day, hard: 5}, {name: calls, scope: team, measure: calls, window: day, hard: 5}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var c coverage.Coverage
	c.Add(&unlisted, table)
	if got := coverage.Line(c.Blind(&l)); got != "max_cost_usd, budget:day are on, and 100 % of 1 calls of models have no price; add the models under prices: in the limits file" {
		t.Errorf("with a budget: %q", got)
	}
}
