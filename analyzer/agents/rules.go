package agents

import (
	"fmt"
	"time"
	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/events"
)

// RuleID is the permanent number of a rule row about agents. It stands in stored
// state, so it is never reused and never changes; new rows come at the end.
// Records hold it, and sets of counts have one place for each.
type RuleID uint8

// The rule rows about agents and projects.
const (
	RuleRate RuleID = iota
	RuleMinted
	RuleMessages
	RuleProject
	RuleAttempts
	RuleCriticalMargin
	RuleTightMargin
	RuleActivity
	RuleHealthPoor
	RuleHealthGood
	RuleCadence
	RuleRescue
	RuleTreeCalls
	RuleTreeTokens
	RuleTreeCost
	RuleTreeDuration
	RuleTreeDepth
	RuleTreeChildren
	RuleBudget
	RuleWakes
	RuleTreeSpawns
	RuleCount
)

// Rule is a rule about one agent, one project or one tree of flows.
// Counts or Speaks defines what it measures; there is no function for it as in rows
// about flows.
type Rule struct {
	rules.Row
	ID     RuleID
	Counts Counted // what is counted; nothing for what is about silence
	// The buckets of an agent are one set: of rows of this kind one counts agents and one
	// projects.
	Coarse bool                // counted in buckets, since numbers and windows are large
	Speaks func(a *Agent) bool // whether silence of an agent in this state counts
}

// Counted is what of the activity a row counts.
// The order matters: what is of trees comes last (OfTree), and the first three of those are in
// the order of a ledger (amountOf).
type Counted uint8

// What can be counted.
const (
	// Rows about silence, the row rescue, and budgets.
	CountedNothing  Counted = iota
	CountedEscaped          // messages to an agent that no flow counts; with Setting.All all of them
	CountedMessages         // messages to an agent
	CountedProject          // messages in a project
	CountedOpened           // flows that were opened by a call to an agent
	CountedRefused          // calls of an agent that orders refused
	CountedWakes            // flows that agents opened in a conversation that does not move on

	// Of a tree of flows.
	CountedTreeCalls    // of agents and tools, by all flows
	CountedTreeTokens   // by all flows
	CountedTreeCost     // by all flows
	CountedTreeAge      // seconds since the tree began
	CountedTreeDepth    // how far the flow is below the root
	CountedTreeChildren // flows below the root that are at work
	CountedTreeSpawns   // flows below the root that have started, those that ended included
)

// OfTree reports whether it is counted of a tree of flows.
// So it is looked up under the key of a tree, and not under that of an agent or a project.
func (c Counted) OfTree() bool { return c >= CountedTreeCalls }

// ruleOfRescue is the row that the fold itself looks up: a request for help.
const ruleOfRescue = RuleRescue

// ruleOfBudget is the row of all budgets over flows.
const ruleOfBudget = RuleBudget

// BudgetRule is the name of the row of budgets over flows, by which a grant names them.
func BudgetRule() string { return Rules[ruleOfBudget].Name }

// RescueRefused is a reason of no row: help was asked for and is not needed.
// It stands in verdicts of the row rescue.
const RescueRefused events.Reason = "rescue_refused_not_stuck"

// RuleNamed returns the row about agents or trees that limits files call name.
// It is asked for grants as well, whose row stands in the log by name.
func RuleNamed(name string) (RuleID, bool) {
	for r := range RuleCount {
		if Rules[r].Name == name {
			return r, true
		}
	}
	return 0, false
}

// Bounds of windows.
const (
	// Longer windows are counted in buckets (Coarse), which are exact to a sixtieth of them.
	maxAgentWindow = 3600           // seconds for which the times of messages to an agent are kept
	maxCapWindow   = 30 * 24 * 3600 // seconds
	maxGapFactor   = 100            // mean gaps between reports
)

// What the bounds of what is remembered let rows observe.
var (
	// Each has the reason beside it that weir reports when a limit lies beyond.
	silenceKept      = rules.Reach{Most: int64(rules.MaxDuration / time.Second), Why: "nobody waits longer"}
	messageTimesKept = rules.Reach{Most: maxStamps, Why: fmt.Sprintf("the times of the last %d are kept; max_agent_messages counts further", maxStamps)}
	agentTimesKept   = rules.Reach{Most: maxStamps, Why: fmt.Sprintf("the times of the last %d are kept", maxStamps)}
	childrenKept     = rules.Reach{Most: ledger.MaxChildren, Why: fmt.Sprintf("at most %d flows of a tree are remembered one by one", ledger.MaxChildren)}
	agentWindows     = rules.Span{Least: 1, Most: maxAgentWindow, Why: "times are kept for an hour: max_agent_messages counts further"}
	capWindows       = rules.Span{Least: capBuckets, Most: maxCapWindow, Why: "a cap is for a long time: agent_message_rate is for a short one"}
	gapWindows       = rules.Span{Least: 1, Most: maxGapFactor, Why: "it is how many mean gaps between reports may pass"}
	treeLength       = rules.Reach{Most: int64(rules.MaxDuration / time.Second), Why: "no episode lasts longer"}
)

// Rules is the table, in the order in which verdicts are given. Thresholds of the
// rows about silence are seconds that may pass: one millisecond more is too long; warn
// is "potentially stuck", stop is "stuck". The defaults are the balanced profile.
var Rules = [RuleCount]Rule{
	{ID: RuleRate, Counts: CountedEscaped, Row: rules.Row{
		Name: "agent_message_rate", Reason: "agent_message_rate_exceeded", Unit: events.UnitMessages,
		About:  "Messages of agents to one agent over all flows in a sliding window of event time: those without a correlation id of their own, or, as the setting count says, all.",
		Text:   "{head}{n} messages to one agent within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "team",
		Most:   messageTimesKept,
		Window: "seconds", Span: agentWindows, Default: rules.Window(60, rules.Most(8, 10))}},
	{ID: RuleMinted, Counts: CountedOpened, Row: rules.Row{
		Name: "agent_flow_rate", Reason: "agent_message_rate_exceeded", Unit: events.UnitMessages,
		About:  "Flows that agents opened by a call to this agent in a sliding window: a new correlation id for every call hides a loop from every flow.",
		Text:   "{head}{n} flows opened by calls to one agent within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "weir",
		Most:   messageTimesKept,
		Window: "seconds", Span: agentWindows, Default: rules.Window(60, rules.Most(60, rules.Off-1))}},
	{ID: RuleMessages, Counts: CountedMessages, Coarse: true, Row: rules.Row{
		Name: "max_agent_messages", Reason: "max_agent_messages_exceeded", Unit: events.UnitMessages,
		About:  "Messages of agents to one agent over all flows in a long window.",
		Text:   "{head}{n} messages to one agent within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "task (future work there)",
		Window: "seconds", Span: capWindows, Default: rules.Window(3600, rules.Most(rules.Off, rules.Off-1))}},
	{ID: RuleProject, Counts: CountedProject, Coarse: true, Row: rules.Row{
		Name: "max_project_messages", Reason: "max_project_messages_exceeded", Unit: events.UnitMessages,
		About:  "Messages between agents in one project over all flows in a long window.",
		Text:   "{head}{n} messages in one project within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "task (future work there)",
		Window: "seconds", Span: capWindows, Default: rules.Window(3600, rules.Most(rules.Off, rules.Off-1))}},
	{ID: RuleAttempts, Counts: CountedRefused, Row: rules.Row{
		Name: "agent_attempts", Reason: "orders_defied", Unit: events.UnitCalls,
		About:  "Calls that one agent tried against standing orders, over all flows in a sliding window.",
		Text:   "{head}{n} calls of one agent against standing orders within {window} s {bound}",
		Action: events.Halt, Status: 403, From: "weir",
		Most:   agentTimesKept,
		Window: "seconds", Span: agentWindows, Default: rules.Window(600, rules.Stop(24, rules.Off))}},
	{ID: RuleCriticalMargin, Row: rules.Row{
		Name: "critical_margin_timeout", Reason: "critical_margin_timeout", Unit: events.UnitSeconds,
		About:  "An agent whose margin is critical is silent.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Default: rules.Stop(rules.Off, 300)},
		Speaks: func(a *Agent) bool { return a.margin == "critical" }},
	{ID: RuleTightMargin, Row: rules.Row{
		Name: "tight_margin_timeout", Reason: "tight_margin_timeout", Unit: events.UnitSeconds,
		About:  "An agent whose margin is tight is silent.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Default: rules.Stop(900, rules.Off)},
		Speaks: func(a *Agent) bool { return a.margin == "tight" }},
	{ID: RuleActivity, Row: rules.Row{
		Name: "activity_timeout", Reason: "activity_timeout", Unit: events.UnitSeconds,
		About:  "An agent of which something is expected is silent.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Default: rules.Stop(600, 1800)},
		Speaks: func(*Agent) bool { return true }},
	{ID: RuleHealthPoor, Row: rules.Row{
		Name: "health_timeout", Reason: "health_timeout", Unit: events.UnitSeconds,
		About:  "An agent whose health is moderate or critical is silent.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Default: rules.Stop(rules.Off, 300)},
		Speaks: func(a *Agent) bool { return a.health == "moderate" || a.health == "critical" }},
	{ID: RuleHealthGood, Row: rules.Row{
		Name: "health_timeout_healthy", Reason: "health_timeout", Unit: events.UnitSeconds,
		About:  "A healthy agent is silent.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Default: rules.Stop(1800, rules.Off)},
		Speaks: func(a *Agent) bool { return a.health == "healthy" }},
	{ID: RuleCadence, Row: rules.Row{
		Name: "cadence_broken", Reason: "cadence_broken", Unit: events.UnitSeconds,
		About:  "An agent that has reported five times or more is silent for longer than the threshold and than so many of its mean gaps.",
		Action: events.Notify, From: "recovery",
		Most: silenceKept, Silence: true,
		Window: "gaps", Span: gapWindows, Default: rules.Window(6, rules.Stop(1800, rules.Off))},
		Speaks: hasCadence},
	{ID: RuleRescue, Row: rules.Row{
		Name: "rescue", Reason: "rescue_requested", Unit: events.UnitNone,
		About:  "Somebody asks for help for an agent, or an agent for itself by a note with the tags stuck and help.",
		Action: events.Resume, From: "recovery",
		Most: silenceKept}},
	{ID: RuleTreeCalls, Counts: CountedTreeCalls, Row: rules.Row{
		Name: "max_tree_calls", Reason: "max_tree_calls_exceeded", Unit: events.UnitCalls,
		About:  "Calls of agents and tools by a flow and all that descend from it, together.",
		Text:   "{head}{n} calls in the tree {bound}",
		Action: events.Halt, Armed: true, Status: 402, From: "weir",
		Needs: rules.NeedCaller, Tells: true, Shares: true,
		Default: rules.Most(rules.Off, rules.Off-1)}},
	{ID: RuleTreeTokens, Counts: CountedTreeTokens, Row: rules.Row{
		Name: "max_tree_tokens", Reason: "max_tree_tokens_exceeded", Unit: events.UnitTokens,
		About:  "Tokens of a flow and of all that descend from it, together; only deltas are summed.",
		Text:   "{head}{n} tokens in the tree {bound}",
		Action: events.Halt, Armed: true, Status: 402, From: "weir",
		Needs: rules.NeedTokens, Tells: true, Shares: true,
		Default: rules.Most(rules.Off, rules.Off-1)}},
	{ID: RuleTreeCost, Counts: CountedTreeCost, Row: rules.Row{
		Name: "max_tree_cost_usd", Reason: "max_tree_cost_exceeded", Unit: events.UnitUSD,
		About:  "US dollars spent by a flow and all that descend from it, together.",
		Text:   "{head}{n} USD in the tree {bound}",
		Action: events.Halt, Armed: true, Status: 402, From: "weir",
		Needs: rules.NeedTokens | rules.NeedPrice, Tells: true, Shares: true,
		Default: rules.Most(rules.Off, rules.Off-1)}},
	{ID: RuleTreeDuration, Counts: CountedTreeAge, Row: rules.Row{
		Name: "max_tree_duration", Reason: "max_tree_duration_exceeded", Unit: events.UnitSeconds,
		About:  "Seconds since a tree of flows began, looked at when one of them calls or spends.",
		Text:   "{head}the tree is {n} s old {bound}",
		Action: events.Halt, Status: 402, From: "weir",
		Needs: rules.NeedTime, Most: treeLength, Tells: true,
		Default: rules.Stop(rules.Off, rules.Off)}},
	{ID: RuleTreeDepth, Counts: CountedTreeDepth, Row: rules.Row{
		Name: "max_tree_depth", Reason: "max_tree_depth_exceeded", Unit: events.UnitHops,
		About:  "How far a flow is below the root of its tree: 1 for one that the root opened. The order is about that flow alone.",
		Text:   "{head}the flow is {n} below the root {bound}",
		Action: events.Halt, Status: 403, From: "weir",
		Needs: rules.NeedCaller, Most: childrenKept,
		Default: rules.Most(rules.Off, rules.Off-1)}},
	{ID: RuleTreeChildren, Counts: CountedTreeChildren, Row: rules.Row{
		Name: "max_tree_children", Reason: "max_tree_children_exceeded", Unit: events.UnitFlows,
		About:  "Flows below the root that are at work at one time. The order is about the flow that is one too many, until one of the others may have fallen silent.",
		Text:   "{head}{n} flows of the tree are at work {bound}",
		Action: events.Throttle, Status: 429, From: "weir",
		Needs: rules.NeedCaller, Most: childrenKept,
		Default: rules.Most(rules.Off, rules.Off-1)}},
	{ID: RuleBudget, Row: rules.Row{
		Name: "budget_exhausted", Reason: "budget_exhausted", Unit: events.UnitNone, Fixed: true, Default: rules.Stop(rules.Off, rules.Off),
		About:  "A budget over flows is used up, or near it: what a tenant, a team, an agent, a tool or all together may spend in an hour, a day, a week or a month. Write it under budgets in the limits file; rule_id is budget: and its name.",
		Text:   "the budget of the limits file, with what is spent, reserved and left",
		Action: events.Deny, Status: 402, From: "weir"}},
	{ID: RuleWakes, Counts: CountedWakes, Row: rules.Row{
		Name: "repeated_wakes", Reason: "repeated_wakes", Unit: events.UnitFlows,
		About:  "Flows that agents opened in one conversation (conversation_id) within a sliding window, each by the agent that was called last or with the same message as before, of which none is known to have worked and between which no person spoke: each new correlation id hides the loop from every flow. Flows that a timer, a hook or a person opens do not count. The order holds in that conversation of that tenant alone, and names the flows. Flows that began with one agent and that no person opened are counted apart, whatever their conversation: those in a row with the same message that came to the same, unless a timer or a hook opens them at 45 s or more. They are only warned of, unless a hook or a program opens each within 5 s of the end of the one before. Flows in a row that name one flow as their opener, each begun less than 10 s after the one before had ended, are throttled, unless a call of the flow waited 15 s or looked again at what still runs (retry_of). Such orders are about calls with that message alone.",
		Text:   "{head}agents woke each other {n} times in one conversation within {window} s, and nothing else happened {bound}",
		Action: events.Throttle, Status: 429, From: "weir",
		Needs: rules.NeedCaller, Most: agentTimesKept,
		Window: "seconds", Span: agentWindows, Default: rules.Window(3600, rules.Stop(10, 20))}},
	{ID: RuleTreeSpawns, Counts: CountedTreeSpawns, Row: rules.Row{
		Name: "max_tree_spawns", Reason: "max_tree_spawns_exceeded", Unit: events.UnitFlows,
		About:  "Flows below the root that have started so far, those that ended included. The order is about the flow that is one too many; with action: hold it waits for a person, so that {stop: 1, action: hold} asks before the first.",
		Text:   "{head}{n} flows of the tree have started {bound}",
		Action: events.Halt, Status: 403, From: "weir",
		Needs:   rules.NeedCaller,
		Default: rules.Most(rules.Off, rules.Off-1)}},
}
