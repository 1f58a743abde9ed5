package backtest

import (
	"weir/analyzer"
	"weir/events"
)

// Coverage counts what the events of a log tell. A rule is blind where what it needs is
// never told, and then its silence says nothing.
type Coverage struct {
	AgentCalls    int64 `json:"agent_calls"`
	WithCaller    int64 `json:"agent_calls_with_caller"`
	Answers       int64 `json:"answers"`
	WithWork      int64 `json:"answers_with_known_work"`
	ToolCalls     int64 `json:"tool_calls"`
	WithArgs      int64 `json:"tool_calls_with_arguments"`
	ToolResults   int64 `json:"tool_results"`
	WithContent   int64 `json:"tool_results_with_content"`
	ToolsByAgents int64 `json:"tool_calls_with_actor"`
	WithTokens    int64 `json:"events_with_tokens"`
	Turns         int64 `json:"events_with_turn"`
	Tasks         int64 `json:"events_with_task"`
}

// Add counts one event.
func (c *Coverage) Add(ev *events.Event) {
	switch ev.Kind {
	case events.AgentCall:
		if ev.By() != events.OriginUser {
			c.AgentCalls++
			c.WithCaller += one(!ev.From.IsZero())
		}
	case events.AgentReturn:
		c.Answers++
		c.WithWork += one(ev.HadWork != events.Unknown || ev.Work.Known)
	case events.ToolCall:
		c.ToolCalls++
		c.WithArgs += one(ev.Tool.ArgsHash != (events.Hash{}) || len(ev.Tool.Args) > 0)
		c.ToolsByAgents += one(!ev.From.IsZero())
	case events.ToolResult:
		c.ToolResults++
		c.WithContent += one(ev.Content != (events.Hash{}))
	}
	c.WithTokens += one(ev.Usage.Known)
	c.Turns += one(ev.TurnID != "")
	c.Tasks += one(ev.TaskID != "")
}

// Blind is what a log tells too rarely, and the rules that cannot judge because of it.
type Blind struct {
	What  string   `json:"what"`
	Told  int64    `json:"told"`
	Of    int64    `json:"of"`
	Rules []string `json:"rules"`
}

// Blind lists what the log never tells, with the rules that are on and need it.
func (c *Coverage) Blind(l *analyzer.Limits) (out []Blind) {
	for _, n := range [...]struct {
		need     analyzer.Need
		what     string
		told, of int64
	}{
		{analyzer.NeedTools, "calls of tools", c.ToolCalls, c.ToolCalls + c.AgentCalls},
		{analyzer.NeedArgs, "arguments of tool calls", c.WithArgs, c.ToolCalls},
		{analyzer.NeedResults, "results of tool calls", c.WithContent, c.ToolCalls},
		{analyzer.NeedCaller, "who called an agent", c.WithCaller, c.AgentCalls},
		{analyzer.NeedWork, "whether an agent worked", c.WithWork + c.ToolCalls, c.AgentCalls},
		{analyzer.NeedTokens, "tokens and money", c.WithTokens, c.AgentCalls + c.ToolCalls},
	} {
		if n.told > 0 || n.of == 0 {
			continue
		}
		b := Blind{What: n.what, Told: n.told, Of: n.of}
		for i := range analyzer.Rules {
			if r := &analyzer.Rules[i]; r.Needs&n.need != 0 && !l.Rules[i].Mute() {
				b.Rules = append(b.Rules, r.Name)
			}
		}
		if len(b.Rules) > 0 {
			out = append(out, b)
		}
	}
	return out
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
