package pairing

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestPairs holds that results find their calls, with and without ids. It also holds that the
// Pairer emits calls which a log writes when they are over.
func TestPairs(t *testing.T) {
	pairer := New(adapter.Options{Source: "s"}, "test")
	pairer.Work = true
	names := adapter.Names{events.CorrelationExplicit: "f"}
	var out strings.Builder
	emit := func(e *events.Event) {
		fmt.Fprintf(&out, "%s %v %s %s at %d", e.ID, e.Kind, e.Tool.Name, e.Tool.CallID, e.Time)
		if e.DurationMS > 0 {
			fmt.Fprintf(&out, " for %v", e.DurationMS)
		}
		if e.HadWork != events.Unknown {
			fmt.Fprintf(&out, " worked %v", e.HadWork == events.Yes)
		}
		out.WriteByte('\n')
	}
	say := func(id string, kind events.Kind, at events.Stamp, tool, call string, ms float64) {
		e := pairer.Begin(id, kind, at, &names)
		e.From, e.Tool, e.DurationMS = events.Party{Agent: "a"}, events.Tool{Name: tool, CallID: call}, ms
		if kind == events.AgentCall {
			e.Origin, e.To = events.OriginAgent, events.Party{Agent: "b"}
		}
		pairer.Pair(e, emit)
	}
	say("1", events.AgentCall, 100, "", "", 0)
	say("2", events.ToolCall, 110, "x", "c1", 0)
	say("3", events.ToolResult, 150, "", "c1", 0)
	say("4", events.ToolCall, 200, "y", "", 0)
	say("5", events.ToolCall, 210, "y", "", 0)
	say("6", events.ToolResult, 250, "y", "", 0)
	say("7", events.ToolResult, 260, "y", "", 0)
	say("8", events.ToolResult, 400, "z", "c2", 90)
	say("9", events.ToolResult, 410, "", "unknown", 0)
	say("10", events.AgentCall, 500, "", "", 0)
	say("11", events.AgentCall, 600, "", "", 0)
	const want = `1 agent.call   at 100 worked false
2 tool.call x c1 at 110
3 tool.result x c1 at 150 for 40
4 tool.call y 4 at 200
5 tool.call y 5 at 210
6 tool.result y 4 at 250 for 50
7 tool.result y 5 at 260 for 50
c2/call tool.call z c2 at 310
8 tool.result z c2 at 400 for 90
10 agent.call   at 500 worked true
11 agent.call   at 600 worked false
`
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
}

// TestWorkUnknown holds that work stays unknown for a log that does not contain all work.
func TestWorkUnknown(t *testing.T) {
	pairer := New(adapter.Options{}, "test")
	e := pairer.Begin("1", events.AgentCall, 1, &adapter.Names{})
	e.Origin, e.From, e.To = events.OriginAgent, events.Party{Agent: "a"}, events.Party{Agent: "b"}
	pairer.Pair(e, func(e *events.Event) {
		if e.HadWork != events.Unknown {
			t.Errorf("worked: %v", e.HadWork)
		}
	})
}
