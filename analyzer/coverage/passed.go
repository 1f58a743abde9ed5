package coverage

import (
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

// Fields lists what can be passed, in the order in which callers add it. The rules follow from what
// their rows need.
func Fields() (out []Passed) {
	var known rules.Need
	for _, f := range [...]struct {
		guard, event string
		need         rules.Need
	}{
		{"flow, from, to", "correlation_id, from, to, time", rules.NeedCaller | rules.NeedTime},
		{"message", "content_hash of agent.call", rules.NeedMessage},
		{"had_work, or the tool calls of the callee", "had_work", rules.NeedWork},
		{"tool", "tool.name", rules.NeedTools},
		{"arguments", "tool.args_hash, tool.args_sim", rules.NeedArgs},
		{"the result, by finish", "content_hash, content_sim, status of tool.result and agent.return", rules.NeedResults},
		{"tokens and cost, by finish or spent", "usage", rules.NeedTokens | rules.NeedPrice},
		{"turn", "turn_id", rules.NeedTurn},
		{"(events only)", "task_id of task.loop and task.reflect", rules.NeedTasks},
	} {
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
