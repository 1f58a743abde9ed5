package analyzer

import "weir/events"

// AgentRuleID is the permanent number of a rule row about agents. It stands in stored
// state, so it is never reused and never changes; new rows come at the end.
type AgentRuleID uint8

// The rule rows about agents and projects.
const (
	AgentRuleRate AgentRuleID = iota
	AgentRuleMinted
	AgentRuleMessages
	AgentRuleProject
	AgentRuleAttempts
	AgentRuleCriticalMargin
	AgentRuleTightMargin
	AgentRuleActivity
	AgentRuleHealthPoor
	AgentRuleHealthGood
	AgentRuleCadence
	AgentRuleRescue
	AgentRuleTreeCalls
	AgentRuleTreeTokens
	AgentRuleTreeCost
	AgentRuleTreeDuration
	AgentRuleTreeDepth
	AgentRuleTreeChildren
	AgentRuleCount
)

// AgentRule is a rule about one agent or one project.
type AgentRule = Rule[*Agent, AgentRuleID]

// Counted is what of the activity a row counts.
type Counted uint8

// What can be counted.
const (
	CountedNothing  Counted = iota
	CountedEscaped          // messages to an agent that no flow counts; with Setting.All all of them
	CountedMessages         // messages to an agent
	CountedProject          // messages in a project
	CountedOpened           // flows that were opened by a call to an agent
	CountedRefused          // calls of an agent that orders refused

	// Of a tree of flows.
	CountedTreeCalls    // of agents and tools, by all flows
	CountedTreeTokens   // by all flows
	CountedTreeCost     // by all flows
	CountedTreeAge      // seconds since the tree began
	CountedTreeDepth    // how far the flow is below the root
	CountedTreeChildren // flows below the root that are at work
)

// OfTree tells whether it is counted of a tree of flows.
func (c Counted) OfTree() bool { return c >= CountedTreeCalls }

// ruleOfRescue is the row that the fold itself looks for: somebody asks for help.
const ruleOfRescue = AgentRuleRescue

// Reasons of no row.
const (
	RescueRefused events.Reason = "rescue_refused_not_stuck" // help was asked for and is not needed
	Allowed       events.Reason = "allowed"                  // of the answer to a call that nothing is said against
)

// agentRuleNamed returns the row about agents or trees that limits files call name.
func agentRuleNamed(name string) (AgentRuleID, bool) {
	for r := range AgentRuleCount {
		if AgentRules[r].Name == name {
			return r, true
		}
	}
	return 0, false
}

// AgentRules is the table, in the order in which verdicts are given. Thresholds of the
// rows about silence are seconds that may pass: one millisecond more is too long; warn
// is "potentially stuck", stop is "stuck". The defaults are the balanced profile.
var AgentRules = [AgentRuleCount]AgentRule{
	{ID: AgentRuleRate, Name: "agent_message_rate", Reason: "agent_message_rate_exceeded", Unit: events.UnitMessages,
		About: "Messages of agents to one agent over all flows in a sliding window of event time: those without a correlation id of their own, or, as the setting count says, all.",
		Text:  "{head}{n} messages to one agent within {window} s {bound}", Counts: CountedEscaped, Most: messageTimesKept,
		Action: events.Throttle, Armed: true, Window: "seconds", Span: agentWindows, Status: 429, From: "team", Default: window(60, most(8, 10))},
	{ID: AgentRuleMinted, Name: "agent_flow_rate", Reason: "agent_message_rate_exceeded", Unit: events.UnitMessages,
		About: "Flows that agents opened by a call to this agent in a sliding window: a new correlation id for every call hides a loop from every flow.",
		Text:  "{head}{n} flows opened by calls to one agent within {window} s {bound}", Counts: CountedOpened, Most: messageTimesKept,
		Action: events.Throttle, Armed: true, Window: "seconds", Span: agentWindows, Status: 429, From: "weir", Default: window(60, most(60, Off-1))},
	{ID: AgentRuleMessages, Name: "max_agent_messages", Reason: "max_agent_messages_exceeded", Unit: events.UnitMessages,
		About: "Messages of agents to one agent over all flows in a long window.",
		Text:  "{head}{n} messages to one agent within {window} s {bound}", Counts: CountedMessages, Coarse: true,
		Action: events.Throttle, Armed: true, Window: "seconds", Span: capWindows, Status: 429, From: "task (future work there)", Default: window(3600, most(Off, Off-1))},
	{ID: AgentRuleProject, Name: "max_project_messages", Reason: "max_project_messages_exceeded", Unit: events.UnitMessages,
		About: "Messages between agents in one project over all flows in a long window.",
		Text:  "{head}{n} messages in one project within {window} s {bound}", Counts: CountedProject, Coarse: true,
		Action: events.Throttle, Armed: true, Window: "seconds", Span: capWindows, Status: 429, From: "task (future work there)", Default: window(3600, most(Off, Off-1))},
	{ID: AgentRuleAttempts, Name: "agent_attempts", Reason: "orders_defied", Unit: events.UnitCalls,
		About: "Calls that one agent tried against standing orders, over all flows in a sliding window.",
		Text:  "{head}{n} calls of one agent against standing orders within {window} s {bound}", Counts: CountedRefused, Most: agentTimesKept,
		Action: events.Halt, Window: "seconds", Span: agentWindows, Status: 403, From: "weir", Default: window(600, stop(24, Off))},
	{ID: AgentRuleCriticalMargin, Name: "critical_margin_timeout", Reason: "critical_margin_timeout", Unit: events.UnitSeconds, Silence: true,
		About:  "An agent whose margin is critical is silent.",
		Speaks: func(a *Agent) bool { return a.margin == "critical" }, Most: silenceKept,
		Action: events.Notify, From: "recovery", Default: stop(Off, 300)},
	{ID: AgentRuleTightMargin, Name: "tight_margin_timeout", Reason: "tight_margin_timeout", Unit: events.UnitSeconds, Silence: true,
		About:  "An agent whose margin is tight is silent.",
		Speaks: func(a *Agent) bool { return a.margin == "tight" }, Most: silenceKept,
		Action: events.Notify, From: "recovery", Default: stop(900, Off)},
	{ID: AgentRuleActivity, Name: "activity_timeout", Reason: "activity_timeout", Unit: events.UnitSeconds, Silence: true,
		About:  "An agent of which something is expected is silent.",
		Speaks: func(*Agent) bool { return true }, Most: silenceKept,
		Action: events.Notify, From: "recovery", Default: stop(600, 1800)},
	{ID: AgentRuleHealthPoor, Name: "health_timeout", Reason: "health_timeout", Unit: events.UnitSeconds, Silence: true,
		About:  "An agent whose health is moderate or critical is silent.",
		Speaks: func(a *Agent) bool { return a.health == "moderate" || a.health == "critical" }, Most: silenceKept,
		Action: events.Notify, From: "recovery", Default: stop(Off, 300)},
	{ID: AgentRuleHealthGood, Name: "health_timeout_healthy", Reason: "health_timeout", Unit: events.UnitSeconds, Silence: true,
		About:  "A healthy agent is silent.",
		Speaks: func(a *Agent) bool { return a.health == "healthy" }, Most: silenceKept,
		Action: events.Notify, From: "recovery", Default: stop(1800, Off)},
	{ID: AgentRuleCadence, Name: "cadence_broken", Reason: "cadence_broken", Unit: events.UnitSeconds, Silence: true,
		About:  "An agent that has reported five times or more is silent for longer than the threshold and than so many of its mean gaps.",
		Speaks: hasCadence, Most: silenceKept,
		Action: events.Notify, Window: "gaps", Span: gapWindows, From: "recovery", Default: window(6, stop(1800, Off))},
	{ID: AgentRuleRescue, Name: "rescue", Reason: "rescue_requested", Unit: events.UnitNone,
		About:  "Somebody asks for help for an agent, or an agent for itself by a note with the tags stuck and help.",
		Most:   silenceKept,
		Action: events.Resume, From: "recovery"},
	{ID: AgentRuleTreeCalls, Name: "max_tree_calls", Reason: "max_tree_calls_exceeded", Unit: events.UnitCalls,
		About: "Calls of agents and tools by a flow and all that descend from it, together.",
		Text:  "{head}{n} calls in the tree {bound}", Counts: CountedTreeCalls, Shares: true, Tells: true,
		Action: events.Halt, Armed: true, Status: 402, From: "weir", Needs: NeedCaller, Default: most(Off, Off-1)},
	{ID: AgentRuleTreeTokens, Name: "max_tree_tokens", Reason: "max_tree_tokens_exceeded", Unit: events.UnitTokens,
		About: "Tokens of a flow and of all that descend from it, together; only deltas are summed.",
		Text:  "{head}{n} tokens in the tree {bound}", Counts: CountedTreeTokens, Shares: true, Tells: true,
		Action: events.Halt, Armed: true, Status: 402, From: "weir", Needs: NeedTokens, Default: most(Off, Off-1)},
	{ID: AgentRuleTreeCost, Name: "max_tree_cost_usd", Reason: "max_tree_cost_exceeded", Unit: events.UnitUSD,
		About: "US dollars spent by a flow and all that descend from it, together.",
		Text:  "{head}{n} USD in the tree {bound}", Counts: CountedTreeCost, Shares: true, Tells: true,
		Action: events.Halt, Armed: true, Status: 402, From: "weir", Needs: NeedTokens, Default: most(Off, Off-1)},
	{ID: AgentRuleTreeDuration, Name: "max_tree_duration", Reason: "max_tree_duration_exceeded", Unit: events.UnitSeconds,
		About: "Seconds since a tree of flows began, looked at when one of them calls or spends.",
		Text:  "{head}the tree is {n} s old {bound}", Counts: CountedTreeAge, Tells: true, Most: episodeLength,
		Action: events.Halt, Status: 402, From: "weir", Needs: NeedTime, Default: stop(Off, Off)},
	{ID: AgentRuleTreeDepth, Name: "max_tree_depth", Reason: "max_tree_depth_exceeded", Unit: events.UnitHops,
		About: "How far a flow is below the root of its tree: 1 for one that the root opened. The order is about that flow alone.",
		Text:  "{head}the flow is {n} below the root {bound}", Counts: CountedTreeDepth, Most: childrenKept,
		Action: events.Halt, Status: 403, From: "weir", Needs: NeedCaller, Default: most(Off, Off-1)},
	{ID: AgentRuleTreeChildren, Name: "max_tree_children", Reason: "max_tree_children_exceeded", Unit: events.UnitFlows,
		About: "Flows below the root that are at work at one time. The order is about the flow that is one too many, until one of the others may have fallen silent.",
		Text:  "{head}{n} flows of the tree are at work {bound}", Counts: CountedTreeChildren, Most: childrenKept,
		Action: events.Throttle, Status: 429, From: "weir", Needs: NeedCaller, Default: most(Off, Off-1)},
}
