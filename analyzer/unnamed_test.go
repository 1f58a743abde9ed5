package analyzer_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TestUnnamed repeats a call of a tool of which nobody says whose it is: all such calls are
// one party's, and judged. It is no session of the flow, and proves nobody's work.
func TestUnnamed(t *testing.T) {
	engine := analyzer.New(limitfile.Default())
	var partition analyzer.Partition
	var flow analyzer.Flow
	var fx analyzer.Effects
	n := 0
	hash := func(v uint64) events.Hash { return events.Hash{Algorithm: events.XXH64, Value: v} }
	step := func(ev events.Event) (said []string) {
		n++
		ev.ID, ev.Source, ev.CorrelationID, ev.CorrelationSource = fmt.Sprint(n), "gateway", "f", events.CorrelationExplicit
		ev.Time = events.Stamp(1_763_800_000_000 + 1000*n)
		fx.Reset()
		engine.Step(&partition, &flow, &ev, &fx)
		if fx.Answer != nil {
			return []string{string(fx.Answer.Action)}
		}
		for i := range fx.Verdicts {
			v := &fx.Verdicts[i]
			said = append(said, string(v.Action)+" "+v.RuleID)
			if v.From != "" || v.Scope.ID != "(unnamed)" || v.Match != nil && v.Match.From != nil {
				t.Errorf("%s names somebody: from %q, scope %v, match %v", v.RuleID, v.From, v.Scope, v.Match)
			}
		}
		return said
	}
	use := func(args uint64, by events.Party) []string {
		tool := events.Tool{Name: "read", CallID: fmt.Sprint("c", n), ArgsHash: hash(args)}
		called := step(events.Event{Kind: events.ToolCall, From: by, Tool: tool})
		return append(called, step(events.Event{Kind: events.ToolResult, From: by, Tool: tool, Content: hash(7), Status: events.StatusOK})...)
	}
	ask := func(args uint64, by events.Party) string {
		return step(events.Event{Kind: events.ToolCall, From: by, Ask: true, Tool: events.Tool{Name: "read", ArgsHash: hash(args)}})[0]
	}
	var said []string
	for range 6 {
		said = append(said, use(1, events.Party{})...)
	}
	if want := "deny repetition"; !slices.Contains(said, want) {
		t.Errorf("%q, want %q among it", said, want)
	}
	if got := ask(1, events.Party{}); got != "deny" {
		t.Errorf("the call once more: %s", got)
	}
	if got := ask(2, events.Party{}); got != "allow" {
		t.Errorf("another call: %s", got)
	}
	for range 2 {
		step(events.Event{Kind: events.AgentCall, Origin: events.OriginAgent, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}})
	}
	view := engine.View(&flow)
	if want := []string{"ping_pong_same", "no_work_hops", "no_work_burst"}; !slices.Equal(view.WorkUnknown, want) {
		t.Errorf("work is unknown to %q, want %q", view.WorkUnknown, want)
	}
	if want := []string{"ping_pong_other"}; !slices.Equal(view.OnlyWarn, want) {
		t.Errorf("only warn: %q, want %q", view.OnlyWarn, want)
	}
	for _, c := range view.Counters {
		if c.Rule == "max_unique_sessions" && c.Observed != 2 {
			t.Errorf("%v sessions, want 2", c.Observed)
		}
	}
	if got := ask(1, events.Party{Agent: "a"}); got != "allow" {
		t.Errorf("the same call of somebody: %s", got)
	}
}
