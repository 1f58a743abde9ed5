// Package coverage counts which fields a source reports and lists the rules that cannot work without them.
package coverage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/prices"
	"weir/analyzer/rules"
	"weir/analyzer/spelling"
	"weir/events"
)

// Coverage counts what events report. The zero Coverage has counted nothing. It is for one
// goroutine; several are put together by Plus. The keys of its JSON are read by programs.
type Coverage struct {
	// Calls by users are left out: they never have a caller.
	AgentCalls  int64 `json:"agent_calls"`
	WithCaller  int64 `json:"agent_calls_with_caller"`
	WithMessage int64 `json:"agent_calls_with_content"`
	Answers     int64 `json:"answers"`
	WithWork    int64 `json:"answers_with_known_work"`
	// Strays are answers of agents to agents that did not call them, as the fold finds them, see Stray.
	Strays        int64 `json:"answers_without_call,omitzero"`
	Requests      int64 `json:"requests"` // to models
	ToolCalls     int64 `json:"tool_calls"`
	WithArgs      int64 `json:"tool_calls_with_arguments"`
	ToolResults   int64 `json:"tool_results"`
	WithContent   int64 `json:"tool_results_with_content"`
	ToolsByAgents int64 `json:"tool_calls_with_actor"`
	// Tokens may come with any kind of event; Ratios holds them against the number of calls.
	WithTokens int64 `json:"events_with_tokens"`
	Turns      int64 `json:"events_with_turn"`
	Tasks      int64 `json:"events_with_task"`
	// Usage may come with the request or with another event. A request that failed without usage is not
	// counted.
	RequestsWithUsage int64 `json:"requests_with_usage,omitzero"`
	RequestsWithout   int64 `json:"requests_without_usage,omitzero"`
	OthersWithUsage   int64 `json:"other_events_with_usage,omitzero"`
	Priced            int64 `json:"usage_with_cost,omitzero"` // reported, or by the table of prices
	// Guessed are calls of flows whose id was derived, since nothing names them.
	Guessed int64 `json:"calls_with_derived_flow"`
	// Where it stays 0, each call is a flow of its own and no pattern can be seen.
	AfterOthers int64 `json:"tool_calls_after_others"` // of their flow

	// It is made with the first call of a tool.
	flows *[2 * rememberedFlows]uint64 // of the last calls of tools, by what their ids hash to
}

const (
	// rememberedFlows is the maximum number of flows that are remembered to have had a call. One flow
	// with a further call is enough to show that calls share a flow.
	rememberedFlows = 64
	// enoughCalls is from how many calls on it says something that each is alone in its flow.
	enoughCalls = 8
)

// Add counts one event; t is the table of prices of the limits that judge it.
// It keeps nothing of the event.
func (c *Coverage) Add(ev *events.Event, t prices.Table) {
	c.count(ev)
	c.price(ev, t)
	if ev.Kind == events.ToolCall {
		c.AfterOthers += one(c.follows(ev.CorrelationID))
	}
}

// count counts what an event reports by itself.
func (c *Coverage) count(ev *events.Event) {
	switch ev.Kind {
	case events.AgentCall:
		// What the program runs once more, as after a person has approved something, has no
		// caller that a log could report.
		if by := ev.By(); by != events.OriginUser && (by != events.OriginSystem || !ev.From.IsZero()) {
			c.AgentCalls++
			c.WithWork += one(ev.HadWork != events.Unknown || ev.Work.Known)
			c.WithCaller += one(!ev.From.IsZero())
			c.WithMessage += one(!ev.Content.IsZero())
		}
	case events.AgentReturn:
		c.Answers++
		c.WithWork += one(ev.HadWork != events.Unknown || ev.Work.Known)
	case events.LLMCall:
		c.Requests++
	case events.ToolCall:
		c.ToolCalls++
		c.WithArgs += one(ev.Tool.ArgsHash != (events.Hash{}) || len(ev.Tool.Args) > 0)
		c.ToolsByAgents += one(!ev.From.IsZero())
	case events.ToolResult:
		c.ToolResults++
		// How a call failed is compared as well as what one brought.
		c.WithContent += one(ev.Content != (events.Hash{}) || ev.ErrorType != "")
	}
	c.Guessed += one(ev.CorrelationSource == events.CorrelationDerived && (ev.Kind == events.AgentCall || ev.Kind == events.ToolCall))
	c.WithTokens += one(ev.Usage.Known)
	c.Turns += one(ev.TurnID != "")
	c.Tasks += one(ev.TaskID != "")
}

// price counts whether it is known what an event cost.
func (c *Coverage) price(ev *events.Event, t prices.Table) {
	u := &ev.Usage
	request := ev.Kind == events.LLMCall
	if u.CostMicroUSD == 0 && u.Input+u.Output+u.CacheRead+u.CacheCreation+u.Reasoning+u.Total == 0 {
		c.RequestsWithout += one(request && !u.Known && ev.Status != events.StatusError)
		return
	}
	c.RequestsWithUsage += one(request)
	c.OthersWithUsage += one(!request)
	known := u.CostMicroUSD != 0
	if !known {
		_, known = t.Find(ev.Provider, ev.Model)
	}
	c.Priced += one(known)
}

// costly is how many calls of models there were that should have a cost. Some sources report the
// usage of a request with another event, so those two are not added up.
func (c *Coverage) costly() int64 {
	return c.RequestsWithUsage + max(c.RequestsWithout, c.OthersWithUsage)
}

// Unpriced is how many calls of models have no known cost. Limits in US dollars do not count them.
func (c *Coverage) Unpriced() int64 { return c.costly() - c.Priced }

// Stray counts answers for which the fold knows no call.
func (c *Coverage) Stray(n int64) { c.Strays += n }

// StrayLine says how many answers belong to no call, and what to report; "" for none.
func (c *Coverage) StrayLine() string {
	if c.Strays == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answers match no call, so rules about delegations do not count them: from is the agent that answers, to its caller, each named as in its agent.call", c.Strays, c.Answers)
}

// Take returns what was counted since the last time. Of which flows there were calls stays known.
func (c *Coverage) Take() Coverage {
	told := *c
	told.flows = nil
	*c = Coverage{flows: c.flows}
	return told
}

// follows reports whether a flow had a call before, as far as is remembered. A flow displaces
// another one whose hash falls on the same place. The answer may therefore be a wrong no, but a wrong
// yes only for equal hashes.
func (c *Coverage) follows(flow string) bool {
	if c.flows == nil {
		c.flows = new([2 * rememberedFlows]uint64)
	}
	sum := xxhash.Sum64String(flow)
	// The place is decided by the hash, so a look costs two reads whatever number of flows there
	// is. One half keeps who came first, by which flows are known that run side by side in any
	// number, the other who came last, by which those are known that follow each other.
	first, last := &c.flows[sum%rememberedFlows], &c.flows[rememberedFlows+sum%rememberedFlows]
	known := *first == sum || *last == sum
	if *first == 0 {
		*first = sum
	}
	*last = sum
	return known
}

// Plus adds what others count. What o remembers of flows is not taken over.
func (c *Coverage) Plus(o *Coverage) {
	c.AgentCalls += o.AgentCalls
	c.WithCaller += o.WithCaller
	c.WithMessage += o.WithMessage
	c.Answers += o.Answers
	c.Strays += o.Strays
	c.Requests += o.Requests
	c.WithWork += o.WithWork
	c.ToolCalls += o.ToolCalls
	c.WithArgs += o.WithArgs
	c.ToolResults += o.ToolResults
	c.WithContent += o.WithContent
	c.ToolsByAgents += o.ToolsByAgents
	c.WithTokens += o.WithTokens
	c.Turns += o.Turns
	c.Tasks += o.Tasks
	c.AfterOthers += o.AfterOthers
	c.Guessed += o.Guessed
	c.RequestsWithUsage += o.RequestsWithUsage
	c.RequestsWithout += o.RequestsWithout
	c.OthersWithUsage += o.OthersWithUsage
	c.Priced += o.Priced
}

// Size is how much there is to judge a source by: calls, or answers or calls of models where those
// are more.
func (c *Coverage) Size() int64 { return max(c.Calls(), c.Answers, c.costly()) }

// Calls is how many calls of agents and of tools there were.
func (c *Coverage) Calls() int64 { return c.AgentCalls + c.ToolCalls }

// Together is what is missing where each call is a flow of its own. Callers compare
// Blind.What with it, to describe the remedy for it.
const Together = "an earlier call of the same flow"

// Cost is what is missing where calls of models have no known cost, see Blind.What.
const Cost = "cost"

// Ratio is how many of the things that could report something do so. Of is 0 where nothing could have
// reported it; such a ratio is not shown.
type Ratio struct {
	What string `json:"what"` // what is reported
	In   string `json:"in"`   // what reports it
	Told int64  `json:"told"`
	Of   int64  `json:"of"`
	need rules.Need
}

// Ratios lists how much is reported of all that rules need. Where the two counts come from
// different events, the first is capped at Of.
func (c *Coverage) Ratios() []Ratio {
	calls := c.Calls()
	tools := Ratio{"tools", "calls", c.ToolCalls, calls, rules.NeedTools}
	switch { // the work of agents that only answer is not reported, nor the results of requests
	case calls > 0:
	case c.Answers > 0:
		tools.In, tools.Of = "answers", c.Answers
	default:
		tools.In, tools.Of = "requests to models", c.Requests
	}
	// The first call of a flow comes after none, so this is never all of them.
	together := Ratio{Together, "tool calls", c.AfterOthers, c.ToolCalls, rules.NeedArgs}
	if c.ToolCalls < enoughCalls {
		together.Of = 0
	}
	return []Ratio{
		tools,
		together,
		{"arguments", "tool calls", c.WithArgs, c.ToolCalls, rules.NeedArgs},
		{"results", "tool calls", min(c.WithContent, c.ToolCalls), c.ToolCalls, rules.NeedResults},
		{"callers", "agent calls", c.WithCaller, c.AgentCalls, rules.NeedCaller},
		{"messages", "agent calls", c.WithMessage, c.AgentCalls, rules.NeedMessage},
		{"known work", "agent calls", min(c.WithWork+c.ToolCalls, c.AgentCalls), c.AgentCalls, rules.NeedWork},
		{"tokens", "calls", min(c.WithTokens, calls), calls, rules.NeedTokens},
		{Cost, "calls of models", c.Priced, c.costly(), rules.NeedPrice},
	}
}

// WarnsOnly says that flows are warned and not stopped, and why, where the limits treat flows so
// whose ids are guessed; "" when none is.
func (c *Coverage) WarnsOnly(l *analyzer.Limits) string {
	if c.Guessed == 0 || l.WarnOnly>>events.CorrelationDerived&1 == 0 {
		return ""
	}
	return fmt.Sprintf("calls that name no flow: %d; their flow is guessed, and such flows are warned and never stopped (warn_only: [derived] in the limits)", c.Guessed)
}

// Blind is what is never reported, and the rules that cannot judge because of it.
type Blind struct {
	Ratio
	Unable
}

// Unable are the rules that something is missing for.
type Unable struct {
	Rules    []string `json:"rules"`               // that cannot judge
	OnlyWarn []string `json:"only_warn,omitempty"` // that warn late and stop nothing
}

// without returns the rules that are on and need what is missing.
func without(l *analyzer.Limits, need rules.Need) Unable {
	return Unable{l.RulesThatNeed(need), l.RulesThatOnlyWarn(need)}
}

// none reports that nothing is missing for any rule.
func (u *Unable) none() bool { return len(u.Rules)+len(u.OnlyWarn) == 0 }

// add adds the rules of another one, each once. Who cannot judge does not warn either.
func (u *Unable) add(o *Unable) {
	for _, rule := range o.Rules {
		if !slices.Contains(u.Rules, rule) {
			u.Rules = append(u.Rules, rule)
		}
	}
	for _, rule := range o.OnlyWarn {
		if !slices.Contains(u.OnlyWarn, rule) {
			u.OnlyWarn = append(u.OnlyWarn, rule)
		}
	}
	u.OnlyWarn = slices.DeleteFunc(u.OnlyWarn, func(rule string) bool { return slices.Contains(u.Rules, rule) })
}

// text says what the rules cannot do.
func (u *Unable) text() string {
	var parts []string
	if len(u.Rules) > 0 {
		parts = append(parts, strings.Join(u.Rules, ", ")+" cannot be judged")
	}
	if len(u.OnlyWarn) > 0 {
		parts = append(parts, strings.Join(u.OnlyWarn, ", ")+" only "+spelling.Of(len(u.OnlyWarn), "warns", "warn")+", and late")
	}
	return strings.Join(parts, ", ")
}

// Line describes in one line what is never reported and what cannot be judged because of it. It is ""
// when nothing is missing.
func Line(blind []Blind) string {
	var missing []string
	var unable Unable
	cost := ""
	for i := range blind {
		b := &blind[i]
		if b.What == Cost {
			cost = fmt.Sprintf("%s %s on, and %d %% of %d %s have no price; add the models under prices: in the limits file", strings.Join(b.Rules, ", "), spelling.Of(len(b.Rules), "is", "are"), (b.Of-b.Told)*100/b.Of, b.Of, b.In)
			continue
		}
		missing = append(missing, fmt.Sprintf("%s in %d of %d %s", b.What, b.Told, b.Of, b.In))
		unable.add(&b.Unable)
	}
	if len(missing) == 0 {
		return cost
	}
	line := strings.Join(missing, ", ") + ": " + unable.text()
	if cost != "" {
		line += "; " + cost
	}
	return line
}

// Blind lists what is never reported, with the rules that are on and need it. What is reported at least
// once is not listed: Ratios shows the parts. Cost is listed if more than 10 % have none, since
// limits in US dollars then count too little.
func (c *Coverage) Blind(l *analyzer.Limits) (out []Blind) {
	for _, n := range c.Ratios() {
		if n.Of == 0 || n.Told > 0 && (n.need != rules.NeedPrice || (n.Of-n.Told)*10 <= n.Of) {
			continue
		}
		if unable := without(l, n.need); !unable.none() {
			out = append(out, Blind{n, unable})
		}
	}
	return out
}

// Unjudged leaves out the rules that judged after all, and what no rule is left for: a rule that
// warned or stopped was not kept from it by what the log does not report.
func Unjudged(blind []Blind, judged func(rule string) bool) (out []Blind) {
	for _, b := range blind {
		if b.What == Cost && b.Told > 0 { // the rule measured a part
			out = append(out, b)
			continue
		}
		b.Rules = slices.DeleteFunc(slices.Clone(b.Rules), judged)
		if !b.none() {
			out = append(out, b)
		}
	}
	return out
}

// one counts a thing that is so.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
