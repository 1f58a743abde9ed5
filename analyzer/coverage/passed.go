package coverage

import (
	"strings"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// Passed is a field that a caller of a guard or of the API passes, and the rules about flows that can
// judge once it is passed beside those before it.
type Passed struct {
	Guard string   `json:"guard"` // how the guards name it
	Event string   `json:"event"` // the fields of the event
	Rules []string `json:"rules"`
}

// fields are the rows of the table. Where a check itself can have the field, lacks reports that a
// check does not, and name is how an event spells it.
var fields = [...]struct {
	guard, event string
	need         rules.Need
	name         string
	lacks        func(*events.Event) bool
}{
	{"flow, from, to", "correlation_id, from, to, time", rules.NeedCaller | rules.NeedTime, "from", func(ev *events.Event) bool { return ev.From.IsZero() }},
	{"message", "content_hash of agent.call", rules.NeedMessage, "content_hash", func(ev *events.Event) bool { return ev.Kind == events.AgentCall && ev.Content.IsZero() }},
	{"had_work, or the tool calls of the callee", "had_work", rules.NeedWork, "had_work", func(ev *events.Event) bool {
		return ev.Kind == events.AgentCall && ev.HadWork == events.Unknown && !ev.Work.Known
	}},
	{"tool", "tool.name", rules.NeedTools, "", nil},
	{"arguments", "tool.args_hash, tool.args_sim", rules.NeedArgs, "tool.args_hash", func(ev *events.Event) bool {
		return ev.Kind == events.ToolCall && len(ev.Tool.Args) == 0 && ev.Tool.ArgsHash.IsZero()
	}},
	{"the result, by finish", "content_hash, content_sim, status of tool.result and agent.return", rules.NeedResults, "", nil},
	{"tokens and cost, by finish or spent", "usage", rules.NeedTokens | rules.NeedPrice, "", nil},
	{"turn", "turn_id", rules.NeedTurn, "", nil},
	{"(events only)", "task_id of task.loop and task.reflect", rules.NeedTasks, "", nil},
}

// Fields lists what can be passed, in the order in which callers add it. The rules follow from what
// their rows need.
func Fields() (out []Passed) {
	var known rules.Need
	for i := range fields {
		f := &fields[i]

		p := Passed{Guard: f.guard, Event: f.event}
		before := known
		known |= f.need
		for i := range analyzer.Rules {
			r := &analyzer.Rules[i]
			needs := r.Needs
			if r.On == 1<<events.ToolResult {
				needs |= rules.NeedResults // also where a status is enough
			}
			if needs != 0 && needs&^known == 0 && needs&^before != 0 {
				p.Rules = append(p.Rules, r.Name)
			}
		}
		out = append(out, p)
	}
	return out
}

// Lacks is a set of fields, by their rows, that a check can have and does not.
type Lacks uint16

// ofChecks is what Missing reads of fields, in one place: it runs with each check.
var ofChecks = func() (out []ofCheck) {
	for i := range fields {
		if f := &fields[i]; f.lacks != nil {
			out = append(out, ofCheck{1 << i, f.lacks})
		}
	}
	return out
}()

type ofCheck struct {
	row   Lacks
	lacks func(*events.Event) bool
}

// Missing returns what a check lacks. It costs a few comparisons.
func Missing(ev *events.Event) (lacks Lacks) {
	if ev.By() == events.OriginUser { // such a call is always allowed
		return 0
	}
	for i := range ofChecks {
		if f := &ofChecks[i]; f.lacks(ev) {
			lacks |= f.row
		}
	}
	return lacks
}

// Hint returns a hint for the caller: which rules of the limits cannot judge without the fields; "" for none.
func (l Lacks) Hint(limits *analyzer.Limits) string {
	var parts []string
	for i := range fields {
		if l&(1<<i) == 0 {
			continue
		}
		if unable := without(limits, fields[i].need&^rules.NeedTime); !unable.none() { // weir fills in the time
			parts = append(parts, "no "+fields[i].name+": "+unable.text())
		}
	}
	return strings.Join(parts, "; ")
}
