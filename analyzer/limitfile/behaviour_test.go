package limitfile_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// A loop is detected by its calls. The tests send a check request before each call, as a dispatcher
// that wants an exact answer does, and report the result after it.
type loop struct {
	calls  []string      // agents or tools in turn, again and again
	a2a    bool          // calls between agents: calls[i] calls calls[i+1]
	change bool          // every result differs
	failed bool          // results are errors
	every  time.Duration // 2 s when zero
}

// stops returns the call at which the profile gives the first order to stop, with
// the figures of the order; 0 when there is none in 60 calls.
func (p loop) stops(t *testing.T, profile string) (call int, reason events.Reason, limit, observed float64) {
	t.Helper()
	l, err := limitfile.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	var (
		e         = analyzer.New(l)
		partition analyzer.Partition
		flow      analyzer.Flow
		fx        analyzer.Effects
		at        = events.Stamp(1_700_000_000_000)
		n         int
	)
	gap := p.every
	if gap == 0 {
		gap = 2 * time.Second
	}
	step := func(ev events.Event) bool {
		n++
		ev.ID, ev.Source, ev.Time, ev.CorrelationID = fmt.Sprint(n), "/test", at, "flow-1"
		fx.Reset()
		e.Step(&partition, &flow, &ev, &fx)
		given := fx.Verdicts
		if fx.Answer != nil {
			given = append(given, *fx.Answer)
		}
		for i := range given {
			if v := &given[i]; v.Effective == "now" && v.Mode == "enforce" && v.Limit != nil {
				reason, limit, observed = v.Reason, *v.Limit, *v.Observed
				return true
			}
		}
		return false
	}
	who := func(i int) string { return p.calls[i%len(p.calls)] }
	first := "agent"
	if p.a2a {
		first = who(0)
	}
	step(events.Event{Kind: events.AgentCall, Origin: events.OriginUser, To: events.Party{Agent: first}})
	for call = 1; call <= 60; call++ {
		at = at.Add(gap)
		if p.a2a {
			if step(events.Event{Kind: events.AgentCall, Origin: events.OriginAgent, Ask: true, HadWork: events.No, From: events.Party{Agent: who(call - 1)}, To: events.Party{Agent: who(call)}}) {
				return call, reason, limit, observed
			}
			continue
		}
		tool := events.Tool{Name: who(call - 1), CallID: fmt.Sprint("c", call), ArgsHash: events.Hash{Algorithm: events.XXH64, Value: 7}}
		if step(events.Event{Kind: events.ToolCall, Origin: events.OriginAgent, Ask: true, From: events.Party{Agent: "agent"}, Tool: tool}) {
			return call, reason, limit, observed
		}
		content := events.Hash{Algorithm: events.XXH64, Value: 100}
		if p.change {
			content.Value += uint64(call)
		}
		status := events.StatusOK
		if p.failed {
			status = events.StatusError
		}
		if step(events.Event{Kind: events.ToolResult, Origin: events.OriginAgent, From: events.Party{Agent: "agent"}, Tool: tool, Content: content, Status: status}) {
			return call, reason, limit, observed
		}
	}
	return 0, "", 0, 0
}

// The profiles of other systems stop at the call at which those systems do.
func TestProfilesStopWhereTheirSystemsDo(t *testing.T) {
	f := func(profile string, p loop, call int, reason events.Reason, limit, observed float64) {
		t.Helper()
		gotCall, gotReason, gotLimit, gotObserved := p.stops(t, profile)
		if gotCall != call || gotReason != reason || gotLimit != limit || gotObserved != observed {
			t.Errorf("%s, %+v: call %d, %s, %v of %v; want call %d, %s, %v of %v", profile, p, gotCall, gotReason, gotObserved, gotLimit, call, reason, observed, limit)
		}
	}
	same, changing, failing := loop{calls: []string{"t"}}, loop{calls: []string{"t"}, change: true}, loop{calls: []string{"t"}, failed: true}
	ab, abc := loop{calls: []string{"a", "b"}}, loop{calls: []string{"a", "b", "c"}}

	f("gateway", same, 2, events.Repetition, 1, 2)
	f("gateway", changing, 2, events.Repetition, 1, 2)
	f("gateway", ab, 3, events.Repetition, 1, 2)
	f("gateway", abc, 4, events.Repetition, 1, 2)
	f("gateway", loop{calls: []string{"a", "b", "c", "d"}}, 5, events.MaxChainDepth, 4, 5)

	f("openhands", same, 4, events.Repetition, 4, 4)
	f("openhands", failing, 4, events.Repetition, 4, 4)
	f("openhands", changing, 0, "", 0, 0)
	f("openhands", ab, 6, events.ToolCycle, 3, 3)

	f("gemini", same, 5, events.Repetition, 5, 5)
	f("gemini", changing, 5, events.Repetition, 5, 5)
	f("gemini", ab, 10, events.ToolCycle, 5, 5)
	f("gemini", abc, 15, events.ToolCycle, 5, 5)

	f("roo", same, 4, events.Repetition, 3, 4)
	f("roo", changing, 4, events.Repetition, 3, 4)
	f("roo", ab, 0, "", 0, 0)

	f("openclaw", same, 21, events.Repetition, 20, 21)
	f("openclaw", changing, 0, "", 0, 0)
	f("openclaw", ab, 20, events.ToolCycle, 10, 10)

	pair, triangle, self := loop{calls: []string{"a", "b"}, a2a: true}, loop{calls: []string{"a", "b", "c"}, a2a: true}, loop{calls: []string{"a"}, a2a: true}
	chain := loop{calls: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}, a2a: true}
	f("synthorg", pair, 2, events.MaxRevisits, 0, 1)
	f("synthorg", triangle, 3, events.MaxRevisits, 0, 1)
	f("synthorg", self, 1, events.SelfCall, 1, 1)
	f("synthorg", chain, 5, events.MaxStackDepth, 5, 6)

	f("strands", pair, 20, events.MaxTotalCalls, 20, 20)
	f("strands", loop{calls: []string{"a", "b"}, a2a: true, every: 90 * time.Second}, 11, events.MaxFlowDuration, 900, 901)

	f("delegation", pair, 21, events.CallRate, 20, 21)
	f("delegation", loop{calls: []string{"a", "b"}, a2a: true, every: 10 * time.Second}, 31, events.MaxFlowDuration, 300, 301)
	f("delegation", chain, 5, events.MaxStackDepth, 5, 6)
	f("delegation", self, 1, events.SelfCall, 1, 1)

	f("team", pair, 11, events.MaxConversationMessages, 10, 11)
	f("none", pair, 0, "", 0, 0)
	f("none", same, 0, "", 0, 0)
}

// The task system refuses at the limit and not above it, and believes a caller who
// counts more.
func TestTaskProfileRefusesAtTheLimit(t *testing.T) {
	l, err := limitfile.Profile("task")
	if err != nil {
		t.Fatal(err)
	}
	f := func(kind events.Kind, claimed int64, at int, reason events.Reason) {
		t.Helper()
		var (
			e         = analyzer.New(l)
			partition analyzer.Partition
			flow      analyzer.Flow
			fx        analyzer.Effects
		)
		for i := 1; i <= 5; i++ {
			ev := events.Event{ID: fmt.Sprint(i), Source: "/test", Time: events.Stamp(1_700_000_000_000 + 1000*i), CorrelationID: "flow-1", Kind: kind,
				From: events.Party{Agent: "hal"}, TaskID: "task-9", LoopCount: claimed}
			fx.Reset()
			e.Step(&partition, &flow, &ev, &fx)
			if len(fx.Verdicts) == 0 {
				continue
			}
			v := &fx.Verdicts[0]
			if i != at || v.Reason != reason || v.Action != "halt" || *v.Limit != 3 || *v.Observed != 3 || v.HTTPStatus != 429 {
				t.Errorf("at %d: %s %s, %v of %v, status %d", i, v.Action, v.Reason, *v.Observed, *v.Limit, v.HTTPStatus)
			}
			return
		}
		t.Errorf("%s is never stopped", kind)
	}
	f(events.TaskLoop, 0, 3, events.MaxLoops)
	f(events.TaskLoop, 3, 1, events.MaxLoops)
	f(events.TaskReflect, 0, 3, events.MaxReflectLoops)
}
