package analyzer

import (
	"fmt"
	"time"

	"weir/analyzer/rules"
	"weir/events"
)

// RuleID is the permanent number of a rule row. It stands in stored state, so it
// is never reused and never changes; new rows come at the end.
// Rows of agents have numbers of their own (agents.RuleID); both share names, since limits
// files list them side by side.
type RuleID uint8

// The rule rows.
const (
	// The order is also that in which rows are walked, and so that of verdicts of one event.
	RuleCorrelationID RuleID = iota
	RuleSelfCall
	RuleStackDepth
	RuleUniqueSessions
	RuleFlowDuration
	RuleCallerRate
	RuleFlowRate
	RuleTotalCalls
	RuleRevisits
	RulePingPongSame
	RulePingPongOther
	RuleRepeatedDelegation
	RuleStaleDelegation
	RuleStaleAnswers
	RuleNoWorkHops
	RuleNoWorkBurst
	RuleRepetition
	RuleRepetitionBlind
	RuleCircling
	RuleToolCycle
	RuleToolCycleLong
	RuleRepeatedError
	RuleNoProgress
	RuleToolCalls
	RuleTurns
	RuleChainDepth
	RuleInputTokens
	RuleOutputTokens
	RuleTotalTokens
	RuleCost
	RuleConversation
	RuleLoops
	RuleReflectLoops
	RuleDelegationDepth
	RuleOperator
	RuleRepetitionAny
	RuleHammering
	RuleCallsPerAgent
	RuleHotPolling
	RuleContextTokens
	RuleContextGrowth
	RuleSpawnContext
	// These are about subagents and follow each other, see keepsSpawns.
	RuleSpawns
	RuleBackgroundSpawns
	RuleSubagentCalls
	RuleSubagentTokens
	RuleSubagentTime
	RuleSubagentCost
	RuleForecast
	RuleRepeatedBrief
	RuleCount
)

// KindSet is a set of event kinds.
// A bit for each kind, so there may be 32 kinds at most; byKind of the Engine is as long.
type KindSet uint32

// kinds is a set of these.
// It is for the table, which is built once when the program starts.
func kinds(ks ...events.Kind) (s KindSet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s KindSet) Has(k events.Kind) bool { return s>>k&1 == 1 }

// FlowRule is one row of the table about flows. It defines its texts, what is measured after which
// events, and which parties and calls an order is about when the measure exceeds its limit. Rules
// never write to the flow and never see each other.
// A new rule is one row at the end, with the functions that measure and match; the fold itself
// looks only for the rows named below.
type FlowRule struct {
	// What may be said and set of the row, in the same form as for rows about agents.
	rules.Row
	// ID is its place in the table as well.
	ID RuleID
	// Empty for rows that the fold judges by itself: at a deadline, at a refused ask, or
	// never.
	On    KindSet          // kinds after which it is measured
	Scope events.ScopeKind // of a stop
	// For what can fall again, as a depth or a rate. Late events never lift.
	Lifts bool // the order is lifted when the measure falls below the limit
	// For budgets: used up, they stay so until the episode ends.
	Lasts bool // the order is renewed while the flow is active at all, not only while callers ignore it
	// For counts of what is there: events that are missing would only add to them.
	Grows bool // the value of a sample is one that was reached at least
	// For patterns, which a person who speaks has ended.
	Cleans          bool // a user's event clears it
	Repeat          bool // about repetition: tools can be exempt
	Rewords         bool // calls in other words count, so that one more wording of them is refused
	Guesses         bool // it also warns of hops of which it is unknown whether they came without work, see unsure
	HoldsCalls      bool // a hold is about the calls that the row refuses, and the rest of the flow goes on
	AlwaysPublished bool // verdicts about it are published also under a wider order, which says something else
	Deepens         bool // the value is what callers report as delegation_depth
	// Doubts reports that it only warns for now, because Row.OnlyWarns is unknown; nil for what Guesses says.
	// Of a moment with no call at hand, as in a view, it is about any of the flow's.
	Doubts func(f *Flow, m *moment) bool
	Leaves []string // tags of the note that a stop leaves with the agent that was stopped; none for no note

	// Whom returns the parties that an order is about, when they are not the parties of the
	// event as far as the scope names them.
	// a and b are indices of parties, or none.
	Whom    func(f *Flow, m *moment) (scope events.ScopeKind, a, b uint8)
	Subject func(ev *events.Event) string      // what keeps orders of one scope apart
	Match   func(f *Flow, m *moment, o *order) // fills in which calls the order refuses
	// Below the thresholds it may be anything; it must not change the flow, and reads the
	// moment only for what apply has found out.
	Value func(f *Flow, m *moment, set *rules.Setting) int64 // the observed value
	// Where Value has to walk a list. With it most events need no walk.
	AtMost func(f *Flow) int64 // what Value does not exceed; nil for unknown
	// Nil for what has no value between events; such rows are in no list of counters.
	Show func(f *Flow, set *rules.Setting) int64 // the value whatever the last event was, for people
}

// What the bounds of what is remembered let rows observe.
var (
	// A threshold above them would be a limit that never speaks, so a limits file that has one
	// is refused, and Why is the sentence that it gets.
	yesOrNo        = rules.Reach{Most: 1, Why: "a call is one or it is not"}
	partiesKept    = rules.Reach{Most: maxParties, Why: fmt.Sprintf("at most %d parties of a flow are kept", maxParties)}
	hopTimesKept   = rules.Reach{Most: maxRateStamps, Why: fmt.Sprintf("the times of the last %d hops are kept; max_total_calls counts further", maxRateStamps)}
	burstTimesKept = rules.Reach{Most: maxBurst, Why: fmt.Sprintf("the times of the last %d such hops are kept; no_work_hops counts further", maxBurst)}
	roundsKept     = rules.Reach{Most: maxRounds, Why: fmt.Sprintf("the last %d rounds of a pair are looked at", maxRounds)}
	pointsKept     = rules.Reach{Most: maxPoints, Why: "points stop there"}
	callsKept      = rules.Reach{Most: maxCalls, Why: fmt.Sprintf("the last %d calls of a party are kept", maxCalls)}
	countKept      = rules.Reach{Most: rules.MaxCount, Why: "the counter stops there"}
	episodeLength  = rules.Reach{Most: int64(rules.MaxDuration / time.Second), Why: "no episode lasts longer"}

	// As long as times are kept; see maxRateWindow.
	hopWindows = rules.Span{Least: 1, Most: maxRateWindow, Why: "times are kept for 10 minutes"}
)

var (
	// A row that is measured after a kind that it says nothing of costs time with each such
	// event, so the sets are as small as they can be.
	calls     = kinds(events.AgentCall)
	toolCalls = kinds(events.ToolCall)
	results   = kinds(events.ToolResult)
	usage     = kinds(events.LLMCall, events.AgentReturn, events.ToolResult, events.AgentCall, events.FlowEnd)
	loops     = kinds(events.TaskLoop, events.TaskReflect, events.AgentCall)
)

//go:generate go test -run TestReasonsAreGenerated -update .

// Rules is the table, in the order in which verdicts are given. The defaults are
// the balanced profile.
var Rules = [RuleCount]FlowRule{
	{ID: RuleCorrelationID, On: calls, Scope: events.ScopeFlow, Cleans: true, Grows: true, Row: rules.Row{
		Name: "correlation_id_required", Reason: "correlation_id_required", Unit: events.UnitCalls,
		About:  "An agent called an agent without a correlation id.",
		Text:   "{head}correlationId is required for agent-initiated calls",
		Advice: "{what}Calls between agents need the correlation id of the flow. Pass on the one that you were called with.",
		Action: events.Deny, Status: 400, From: "delegation",
		Needs: rules.NeedCaller, Most: yesOrNo,
		Default: rules.Stop(rules.Off, 1)},
		Value: uncorrelated, Match: matchEdge},
	{ID: RuleSelfCall, On: calls, Scope: events.ScopePair, Lasts: true, Grows: true, Row: rules.Row{
		Name: "self_call", Reason: "self_call", Unit: events.UnitCalls,
		About:  "An agent gave work to itself: a call to itself that is to return (transfer_mode). With count: all every call to itself, which in a group chat is the same speaker twice in a row.",
		Text:   "{head}self-calls are not allowed",
		Advice: "{what}You cannot call yourself. Do the work in this turn instead.",
		Action: events.Deny, Status: 400, From: "delegation",
		Needs: rules.NeedCaller, Most: yesOrNo, Delegations: true,
		Default: rules.Stop(rules.Off, 1)},
		Value: selfCall, Match: matchEdge},
	{ID: RuleStackDepth, On: kinds(events.AgentCall, events.AgentReturn), Scope: events.ScopeFlow, Lifts: true, Lasts: true, Row: rules.Row{
		Name: "max_stack_depth", Reason: "max_stack_depth_exceeded", Unit: events.UnitHops,
		About:  "Agents called agents that called agents: the depth of the collapsed call stack. A limit above 5 is a design smell. With extend_on_progress, agents that handed control on (transfer_mode pass_control, or a call after work of which the log names no mode) do not count.",
		Text:   "{head}effective call depth {n} {over}",
		Action: events.Deny, Armed: true, Status: 403, From: "delegation",
		Needs: rules.NeedCaller, Most: partiesKept, Smells: 5, Tells: true, Extend: true,
		Default: rules.Extending(rules.Most(5, 5))},
		Show:  stackDepth,
		Value: func(f *Flow, _ *moment, set *rules.Setting) int64 { return stackDepth(f, set) }, Match: matchOffStack},
	{ID: RuleUniqueSessions, On: calls, Scope: events.ScopeFlow, Lasts: true, Row: rules.Row{
		Name: "max_unique_sessions", Reason: "max_unique_sessions_exceeded", Unit: events.UnitSessions,
		About:  "Different parties that took part in the flow; those that one caller sends out together count as one. With extend_on_progress, four that returned count as one.",
		Text:   "{head}{n} agents or sessions in the flow {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "delegation",
		Needs: rules.NeedCaller, Most: countKept, Tells: true, Extend: true,
		Default: rules.Extending(rules.Most(rules.Off, 10))},
		Show:   uniqueSessions,
		AtMost: func(f *Flow) int64 { return int64(f.unique) },
		Value:  func(f *Flow, _ *moment, set *rules.Setting) int64 { return uniqueSessions(f, set) }, Match: matchNewParties},
	{ID: RuleFlowDuration, Scope: events.ScopeFlow, Lasts: true, Row: rules.Row{
		Name: "max_flow_duration", Reason: "max_flow_duration_exceeded", Unit: events.UnitSeconds,
		About:  "Seconds since the episode began; fires without an event. With extend_on_progress, seconds since a tool call last changed something or brought something new.",
		Text:   "{head}the flow is {n} s old {bound}",
		Action: events.Halt, Status: 402, From: "delegation",
		Needs: rules.NeedTime, Most: episodeLength, Tells: true, Extend: true,
		Default: rules.Extending(rules.Stop(2700, 5400))},
		Show:  func(f *Flow, set *rules.Setting) int64 { return flowDuration(f, f.last, set) },
		Value: func(f *Flow, m *moment, set *rules.Setting) int64 { return flowDuration(f, m.at, set) }, Match: matchAll},
	{ID: RuleCallerRate, On: calls, Scope: events.ScopeSession, Lifts: true, Grows: true, Row: rules.Row{
		Name: "call_rate_per_caller", Reason: "call_rate_exceeded", Unit: events.UnitCalls,
		About:  "Hops of one caller in a sliding window of event time.",
		Text:   "{head}{n} calls of one caller within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "delegation",
		Needs: rules.NeedCaller | rules.NeedTime, Most: hopTimesKept,
		Window: "seconds", Span: hopWindows, Default: rules.Window(60, rules.Most(18, 20))},
		AtMost: hopsKept, Value: callerRate, Match: matchCaller},
	{ID: RuleFlowRate, On: calls, Scope: events.ScopeFlow, Lifts: true, Grows: true, Row: rules.Row{
		Name: "call_rate_per_flow", Reason: "call_rate_exceeded", Unit: events.UnitCalls,
		About:  "Hops of the whole flow in a sliding window of event time. With count: beginning those of the first window of the episode, and none after it.",
		Text:   "{head}{n} calls in the flow within {window} s {bound}",
		Action: events.Throttle, Armed: true, Status: 429, From: "delegation",
		Needs: rules.NeedCaller | rules.NeedTime, Most: hopTimesKept, Beginning: true,
		Window: "seconds", Span: hopWindows, Default: rules.Window(60, rules.Most(rules.Off, 60))},
		Show: func(f *Flow, set *rules.Setting) int64 {
			n, _ := f.hopsIn(f.clock, set.Window, none, rules.Off)
			return n
		},
		AtMost: hopsKept, Value: flowRate, Match: matchCalls},
	{ID: RuleTotalCalls, On: calls, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_total_calls", Reason: "max_total_calls_exceeded", Unit: events.UnitCalls,
		About:  "Hops of the episode.",
		Text:   "{head}{n} calls between agents in the flow {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "delegation",
		Needs: rules.NeedCaller, Tells: true,
		Default: rules.Most(80, 100)},
		Show:  hopsSoFar,
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return int64(f.hops) }, Match: matchCalls},
	{ID: RuleRevisits, On: calls, Scope: events.ScopeFlow, Lasts: true, Row: rules.Row{
		Name: "max_revisits", Reason: "max_revisits_exceeded", Unit: events.UnitRevisits,
		About:  "Calls that returned to a party that control had come through.",
		Text:   "{head}control came back to one session {n} times {bound}",
		Action: events.Deny, Status: 403, From: "delegation",
		Needs: rules.NeedCaller, Most: countKept,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  widest(func(p *party) int64 { return int64(p.revisits) }),
		Value: revisits, Match: matchCallee},
	{ID: RulePingPongSame, On: calls, Scope: events.ScopePair, Cleans: true, Row: rules.Row{
		Name: "ping_pong_same", Reason: "a2a_ping_pong", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "A cycle of 2 to 8 hops without work, the same content at each position every round.",
		Text:   "{head}the same {period} calls between agents with the same content, {n} times in a row without work {bound}",
		Action: events.Deny, Status: 403, From: "delegation, gateway (future work there)",
		Needs: rules.NeedCaller | rules.NeedWork | rules.NeedMessage, Most: countKept, Unknown: true,
		Default: rules.Stop(2, 3)},
		Whom:  ringPair,
		Show:  func(f *Flow, _ *rules.Setting) int64 { n, _ := rounds(f.sameRun[:], 2, maxRing); return n },
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return f.pingPong(m, &f.sameRun) }, Match: matchRing},
	{ID: RulePingPongOther, On: calls, Scope: events.ScopePair, Cleans: true, Guesses: true, Row: rules.Row{
		Name: "ping_pong_other", Reason: "a2a_ping_pong", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "A cycle of 2 to 8 hops without work, whatever the content. Where nobody knows whether they came without work, four times as many rounds warn, and none stop.",
		Text:   "{head}the same {period} calls between agents, {n} times in a row without known work {bound}",
		Action: events.Deny, Status: 403, From: "delegation, gateway (future work there)",
		Needs: rules.NeedCaller | rules.NeedWork, OnlyWarns: rules.NeedWork, Most: countKept,
		Default: rules.Stop(3, 6)},
		Whom: ringPair,
		Show: func(f *Flow, _ *rules.Setting) int64 {
			n, _ := rounds(f.pairRun[:], 2, maxRing)
			if f.blindRing() {
				n /= unsure // as far as it goes towards a warning
			}
			return n
		},
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return f.anyPingPong(m) }, Match: matchRing},
	{ID: RuleRepeatedDelegation, On: calls, Scope: events.ScopePair, Cleans: true, Row: rules.Row{
		Name: "repeated_delegation", Reason: "repeated_delegation", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "The same message from one agent to another, neither having worked in between; silence does not clear it. Where the log tells neither work nor answers, two within half a minute count as one, else five.",
		Text:   "{head}the same message was sent {n} times without work in between {bound}",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedCaller | rules.NeedMessage, Most: countKept,
		Default: rules.Stop(3, 6)},
		Show:  mostRepeated,
		Value: repeatedDelegation, Match: matchDelegation},
	{ID: RuleStaleDelegation, On: kinds(events.AgentCall, events.AgentReturn), Scope: events.ScopePair, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "stale_delegation", Reason: "stale_delegation", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "Rounds in which the callee only made tool calls that it had made before.",
		Text:   "{head}in {n} rounds the callee only repeated earlier tool calls {bound}",
		Action: events.Deny, Status: 403, From: "weir, measured on real traces",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedCaller, Most: roundsKept, Paced: true,
		Default: rules.Stop(3, rules.Off)},
		Whom:  roundPair,
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return m.stale }, Match: matchPair},
	{ID: RuleStaleAnswers, On: kinds(events.AgentReturn), Scope: events.ScopePair, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "stale_answers", Reason: "stale_delegation", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "Such rounds whose answer was the same, or nearly, as one before.",
		Text:   "{head}in {n} rounds the callee only repeated earlier tool calls and answers {bound}",
		Action: events.Deny, Status: 403, From: "weir, measured on real traces",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedResults | rules.NeedCaller, Most: roundsKept, Paced: true,
		Default: rules.Stop(2, 3)},
		Whom:  roundPair,
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return m.staleSame }, Match: matchPair},
	{ID: RuleNoWorkHops, On: calls, Scope: events.ScopeFlow, Cleans: true, Row: rules.Row{
		Name: "no_work_hops", Reason: "no_work_rapid_fire", Cause: rules.CauseLoop, Unit: events.UnitHops,
		About:  "Hops in a row without work; delegations made side by side are one, and one that turns to somebody who took no part in the last eight counts for nothing, but with count: all.",
		Text:   "{head}{n} calls between agents in a row without work {bound}",
		Action: events.Deny, Status: 403, From: "delegation",
		Needs: rules.NeedCaller | rules.NeedWork, Most: countKept, Newcomers: true,
		Default: rules.Stop(7, 12)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return int64(f.streak) },
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return m.ifHop(int64(f.streak)) }, Match: matchCalls},
	{ID: RuleNoWorkBurst, On: calls, Scope: events.ScopeFlow, Cleans: true, Row: rules.Row{
		Name: "no_work_burst", Reason: "no_work_rapid_fire", Cause: rules.CauseLoop, Unit: events.UnitHops,
		About:  "Hops without work within a few seconds.",
		Text:   "{head}{n} calls between agents without work within {window} s {bound}",
		Action: events.Deny, Status: 403, From: "delegation",
		Needs: rules.NeedCaller | rules.NeedWork | rules.NeedTime, Most: burstTimesKept,
		Window: "seconds", Span: hopWindows, Default: rules.Window(10, rules.Stop(6, rules.Off))},
		Value: noWorkBurst, Match: matchCalls},
	{ID: RuleRepetition, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "repetition", Reason: "repetition_detected", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "The same tool call with the same result among the party's last calls. Where only sizes of results are reported, equal ones of more than 200 bytes are the same. Tests that fail bring the same while their figures stay; a change in between begins anew.",
		Text:   "{head}the same tool call brought the same result {n} times {bound}",
		Action: events.Deny, Status: 403, From: "gateway",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedResults, Paced: true,
		Window: "calls", Default: rules.Window(10, rules.Stop(3, 6))},
		Value: repetition, Match: matchCall},
	{ID: RuleRepetitionBlind, On: toolCalls, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "repetition_blind", Reason: "repetition_detected", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "The same tool call among the party's last calls, no result being in the log.",
		Text:   "{head}the same tool call was made {n} times {bound}",
		Action: events.Deny, Status: 403, From: "gateway",
		Needs: rules.NeedTools | rules.NeedArgs, Paced: true, Blind: true,
		Window: "calls", Default: rules.Window(32, rules.Stop(15, 30))},
		Value: repetitionBlind, Match: matchCall},
	{ID: RuleCircling, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Rewords: true, Row: rules.Row{
		Name: "circling", Reason: "circling", Cause: rules.CauseLoop, Unit: events.UnitPoints,
		About:  "Points for calls that bring what was known: same call and result 4, nearly the same result 3, another call with a known result 2, an edit that restores an earlier state 2, anything new -2. One more search that finds nothing, and one more text of 65 to 200 bytes that comes whatever is asked, is 1 point where most calls of the tool bring it. An edit of which only its success is told is new; what looks nearly the same after it makes no points.",
		Text:   "{head}tool calls go in circles: {n} points for what was known {bound}",
		Action: events.Deny, Status: 403, From: "weir, measured on real traces",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedResults, Most: pointsKept, Paced: true,
		Default: rules.Stop(8, 18)},
		Show:  widest(func(p *party) int64 { return int64(p.points) }),
		Value: circling, Match: matchScored},
	{ID: RuleToolCycle, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "tool_cycle", Reason: "tool_cycle_detected", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "Rounds of a repeating sequence of 2 to 7 tool calls with their results.",
		Text:   "{head}the same {period} tool calls brought the same results {n} times in a row {bound}",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedResults, Most: countKept, Paced: true,
		Default: rules.Stop(3, 4)},
		Show:  widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 2, 7); return n }),
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return m.toolCycle(f, 2, 7) }, Match: matchCycle},
	{ID: RuleToolCycleLong, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "tool_cycle_long", Reason: "tool_cycle_detected", Cause: rules.CauseLoop, Unit: events.UnitRounds,
		About:  "Rounds of a repeating sequence of 8 to 16 tool calls with their results.",
		Text:   "{head}the same {period} tool calls brought the same results {n} times in a row {bound}",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedResults, Most: countKept, Paced: true,
		Default: rules.Stop(2, 4)},
		Show:  widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 8, maxPeriod); return n }),
		Value: func(f *Flow, m *moment, _ *rules.Setting) int64 { return m.toolCycle(f, 8, maxPeriod) }, Match: matchCycle},
	{ID: RuleRepeatedError, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "repeated_error", Reason: "repeated_error", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "One tool brought the same error in a row, whatever its arguments; 429s and timeouts do not count (see no_progress). A refused edit is an error, whatever its status. Where the tool also worked, only the calls that failed are refused.",
		Text:   "{head}the tool failed in the same way {n} times in a row {bound}",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedTools, Most: countKept, Paced: true,
		Default: rules.Stop(3, 6)},
		Show:  longestRun(true),
		Value: func(_ *Flow, m *moment, _ *rules.Setting) int64 { return m.errors }, Match: matchFailing},
	{ID: RuleNoProgress, On: results, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "no_progress", Reason: "no_progress", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "One tool brought the same result in a row, whatever its arguments; one of at most 200 bytes, such as ok, counts a fourth where the call or what came in between is new. Errors that say that the provider is busy or away, as 429, 503, ECONNREFUSED and timeouts, count as the same result where no pause of five seconds comes before the next try. So do results of several tools in turn, each of which brings the same as the time before.",
		Text:   "{head}{n} tool calls in a row brought nothing new {bound}",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedTools | rules.NeedResults, Most: countKept,
		Default: rules.Stop(30, 60)},
		Show:  longestRun(false),
		Value: func(_ *Flow, m *moment, _ *rules.Setting) int64 { return max(m.oks, m.storm, m.inTurn) }, Match: matchStale},
	{ID: RuleToolCalls, On: toolCalls, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_tool_calls", Reason: "max_tool_calls_exceeded", Unit: events.UnitCalls,
		About:  "Tool calls of the episode.",
		Text:   "{head}{n} tool calls in the flow {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "gateway",
		Needs: rules.NeedTools, Tells: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return int64(f.toolCalls) },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return int64(f.toolCalls) }, Match: matchToolCalls},
	{ID: RuleTurns, On: kinds(events.TurnStart, events.ToolCall, events.AgentCall), Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_turns", Reason: "max_turns_exceeded", Unit: events.UnitTurns,
		About:  "Distinct turn ids of the episode. With count: changes every change of the turn id, so that turns that come back count again.",
		Text:   "{head}{n} turns {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "gateway",
		Needs: rules.NeedTurn, Most: countKept, Tells: true, Returns: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return int64(f.turns) },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return int64(f.turns) }, Match: matchNewTurn},
	{ID: RuleChainDepth, On: toolCalls, Scope: events.ScopeFlow, Lifts: true, Lasts: true, Cleans: true, Row: rules.Row{
		Name: "max_chain_depth", Reason: "max_chain_depth_exceeded", Unit: events.UnitCalls,
		About:  "Tool calls of one party after the one that opened the turn; without turn ids all calls count. With extend_on_progress, only those since a call changed something or brought something new.",
		Text:   "{head}{n} tool calls in one chain {bound}",
		Action: events.Deny, Armed: true, Status: 403, From: "gateway",
		Needs: rules.NeedTools, Tells: true, Extend: true,
		Default: rules.Extending(rules.Stop(150, 250))},
		Show:  widest(func(p *party) int64 { return int64(p.chain) }),
		Value: chainDepth, Match: matchThisTurn},
	{ID: RuleInputTokens, On: usage, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_input_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens,
		About:  "Input tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} input tokens in the flow {bound}",
		Action: events.Halt, Status: 402, From: "gateway",
		Needs: rules.NeedTokens, Tells: true,
		Default: rules.Most(rules.Off, rules.Off-1)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return f.tokens[0] },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return f.tokens[0] }, Match: matchAll},
	{ID: RuleOutputTokens, On: usage, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_output_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens,
		About:  "Output tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} output tokens in the flow {bound}",
		Action: events.Halt, Status: 402, From: "gateway",
		Needs: rules.NeedTokens, Tells: true,
		Default: rules.Most(rules.Off, rules.Off-1)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return f.tokens[1] },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return f.tokens[1] }, Match: matchAll},
	{ID: RuleTotalTokens, On: usage, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_total_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens,
		About:  "All tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} tokens in the flow {bound}",
		Action: events.Halt, Status: 402, From: "gateway",
		Needs: rules.NeedTokens, Tells: true,
		Default: rules.Most(rules.Off, rules.Off-1)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return f.tokens[2] },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return f.tokens[2] }, Match: matchAll},
	{ID: RuleCost, On: usage, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_cost_usd", Reason: "max_cost_exceeded", Unit: events.UnitUSD,
		About:  "US dollars spent in the episode.",
		Text:   "{head}{n} USD spent in the flow {bound}",
		Action: events.Halt, Status: 402, From: "weir",
		Needs: rules.NeedTokens | rules.NeedPrice, Tells: true,
		Default: rules.Most(rules.Off, rules.Off-1)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return f.cost },
		Value: func(f *Flow, _ *moment, _ *rules.Setting) int64 { return f.cost }, Match: matchAll},
	{ID: RuleConversation, On: calls, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_conversation_messages", Reason: "max_conversation_messages_exceeded", Unit: events.UnitMessages,
		About:  "Messages between agents in one conversation (the flow, when the log names none).",
		Text:   "{head}{n} messages in one conversation {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "team",
		Needs:   rules.NeedCaller,
		Default: rules.Stop(rules.Off, rules.Off)},
		Subject: conversationOf,
		Show:    hopsSoFar,
		Value:   func(_ *Flow, m *moment, _ *rules.Setting) int64 { return m.conversation }, Match: matchConversation},
	{ID: RuleLoops, On: loops, Scope: events.ScopeTask, Lasts: true, Leaves: []string{"error", "loop_limit", "system_halt"}, Grows: true, Row: rules.Row{
		Name: "max_loops", Reason: "max_loops_exceeded", Unit: events.UnitLoops,
		About:  "Iterations of one task: the larger of our count and the caller's loop_count.",
		Text:   "{warning}Loop limit exceeded: {n} loops reached for task {task}",
		Action: events.Halt, Status: 403, From: "task",
		Needs: rules.NeedTasks, Most: countKept,
		Default: rules.Stop(rules.Off, rules.Off)},
		Subject: taskOf,
		Value:   func(_ *Flow, m *moment, _ *rules.Setting) int64 { return m.loops }, Match: matchTask},
	{ID: RuleReflectLoops, On: loops, Scope: events.ScopeTask, Lasts: true, Leaves: []string{"error", "loop_limit", "system_halt", "reflection"}, Grows: true, Row: rules.Row{
		Name: "max_reflect_loops", Reason: "max_reflect_loops_exceeded", Unit: events.UnitLoops,
		About:  "Reflections of one task: the larger of our count and the caller's loop_count.",
		Text:   "{warning}Reflect loop limit exceeded: {n} loops reached for task {task}",
		Action: events.Halt, Status: 403, From: "task",
		Needs: rules.NeedTasks, Most: countKept,
		Default: rules.Stop(rules.Off, rules.Off)},
		Subject: taskOf,
		Value:   func(_ *Flow, m *moment, _ *rules.Setting) int64 { return m.reflects }, Match: matchTask},
	{ID: RuleDelegationDepth, On: kinds(events.AgentCall, events.AgentReturn), Scope: events.ScopeFlow, Lifts: true, Lasts: true, Deepens: true, Leaves: []string{"error", "delegation_limit", "system_halt"}, Row: rules.Row{
		Name: "max_delegation_depth", Reason: "max_delegation_depth_exceeded", Unit: events.UnitHops,
		About:  "Delegations that a call comes after, none for the first: the larger of our count and the caller's delegation_depth.",
		Text:   "{warning}Delegation depth exceeded: depth {n}, {over}",
		Action: events.Deny, Status: 403, From: "task",
		Needs: rules.NeedCaller, Tells: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return f.delegated() },
		Value: delegationDepth, Match: matchDeeper},
	{ID: RuleOperator, Scope: events.ScopeFlow, Row: rules.Row{
		Name: "operator_stop", Reason: "operator_stop", Unit: events.UnitNone,
		About:  "A person stopped the flow.",
		Text:   "Stopped by an operator.",
		Advice: "A person has stopped this flow. Do not call again. Report what is finished and what is not.",
		Action: events.Halt, Status: 403, From: "weir",
		Fixed:   true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Value: func(*Flow, *moment, *rules.Setting) int64 { return 0 }, Match: matchAll},
	{ID: RuleRepetitionAny, On: toolCalls, Scope: events.ScopeSession, Cleans: true, Repeat: true, Row: rules.Row{
		Name: "repetition_any", Reason: "repetition_detected", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "The same tool call among the party's last calls, whatever the results; off by default, since it cannot tell honest polling from a loop.",
		Text:   "{head}the same tool call was made {n} times {bound}",
		Action: events.Deny, Status: 403, From: "openclaw",
		Needs: rules.NeedTools | rules.NeedArgs, Paced: true,
		Window: "calls", Default: rules.Window(32, rules.Stop(rules.Off, rules.Off))},
		Value: repetitionAny, Match: matchCall},
	{ID: RuleHammering, Scope: events.ScopeSession, Cleans: true, AlwaysPublished: true, Row: rules.Row{
		Name: "hammering", Reason: "refusal_hammered", Cause: rules.CauseLoop, Unit: events.UnitCalls,
		About:  "A caller asked again and again after a refusal that no waiting ends, as clients do that try everything again.",
		Text:   "{head}asked {n} times after a final refusal {bound}",
		Advice: "{what}The refusal is final: asking again changes nothing. End your turn and report what is done and what is not.",
		Action: events.Halt, Status: 403, From: "weir",
		Needs: rules.NeedCaller, Most: countKept,
		Default: rules.Stop(20, 100)},
		Value: hammering, Match: matchCaller},
	{ID: RuleCallsPerAgent, On: calls, Scope: events.ScopeFlow, Lasts: true, Grows: true, Row: rules.Row{
		Name: "max_calls_per_agent", Reason: "max_calls_per_agent_exceeded", Unit: events.UnitCalls,
		About:  "Calls to one agent in the episode, those of its own as well: of talks in a group it tells those that go round from those that get on.",
		Text:   "{head}{n} calls to one agent {bound}",
		Action: events.Deny, Armed: true, Status: 402, From: "weir, measured on real traces",
		Needs: rules.NeedCaller, Most: countKept,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  widest(func(p *party) int64 { return int64(p.called) }),
		Value: calledSoFar, Match: matchCallee},
	{ID: RuleHotPolling, On: toolCalls, Scope: events.ScopeSession, Lifts: true, Cleans: true, Grows: true, Row: rules.Row{
		Name: "hot_polling", Reason: "hot_polling", Unit: events.UnitCalls,
		About:  "Equal calls within a sliding window that wait, or look at work that reports that it still runs (retry_of). They are slowed and never halted.",
		Text:   "{head}{n} looks at the same work within {window} s {bound}",
		Advice: "{what}The work still runs. Wait 30 s, then look again, or do something else meanwhile.",
		Action: events.Throttle, Status: 429, From: "weir",
		Needs: rules.NeedTools | rules.NeedArgs | rules.NeedTime, Most: callsKept,
		Window: "seconds", Span: hopWindows, Default: rules.Window(30, rules.Stop(15, 24))},
		Value: hotPolling, Match: matchCall},
	{ID: RuleContextTokens, On: kinds(events.LLMCall), Scope: events.ScopeSession, Lifts: true, Row: rules.Row{
		Name: "max_context_tokens", Reason: "max_context_tokens_exceeded", Unit: events.UnitTokens,
		About:  "Input tokens of the last model call of one party, cached ones included: its context. From warn on, the answers to its checks advise it to compact the context or to hand the work off. A smaller context lifts the order.",
		Text:   "{head}{n} tokens in the context of {from} {bound}",
		Advice: "{what}Compact the context, or hand the work off to a new session with a short summary. Then go on.",
		Hint:   "The flow guard counts {n} tokens in the context. Compact it, or hand the work off to a new session with a short summary, before calls are refused.",
		Action: events.Deny, Status: 402, From: "weir",
		Needs:   rules.NeedTokens,
		Default: rules.Stop(rules.Off, rules.Off)},
		Value: contextTokens, Match: matchParty},
	{ID: RuleContextGrowth, On: kinds(events.LLMCall), Scope: events.ScopeSession, Lifts: true, Row: rules.Row{
		Name: "context_growth", Reason: "context_growth", Unit: events.UnitTimes,
		About:  "How often the next model call of one party costs the median of its first five, because its context has grown. By the prices of the model, else by tokens. From warn on, the answers to its checks advise it to compact the context or to hand the work off. A cheaper call lifts the order.",
		Text:   "{head}the next model call of {from} costs {n} times the median of its first calls {bound}",
		Advice: "{what}Compact the context, or hand the work off to a new session with a short summary. Then go on.",
		Hint:   "The flow guard expects your next model call to cost {n} times what your first ones did. Compact the context, or hand the work off to a new session with a short summary.",
		Action: events.Deny, Status: 402, From: "weir",
		Needs:   rules.NeedTokens,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  widest(func(p *party) int64 { return p.course.times() }),
		Value: contextGrowth, Match: matchParty},
	{ID: RuleSpawnContext, On: kinds(events.LLMCall), Scope: events.ScopeSession, Lifts: true, HoldsCalls: true, Row: rules.Row{
		Name: "max_spawn_context_tokens", Reason: "max_spawn_context_tokens_exceeded", Unit: events.UnitTokens,
		About:  "Input tokens of the last model call of one party, as in max_context_tokens. At stop it may call no agent until its context is smaller; its tools it may use.",
		Text:   "{head}{n} tokens in the context of {from}, which may call no agent {bound}",
		Advice: "{what}Compact the context before you start another agent, or do the work yourself.",
		Hint:   "The flow guard counts {n} tokens in the context. Compact it before you start another agent.",
		Action: events.Deny, Status: 402, From: "weir",
		Needs:   rules.NeedTokens | rules.NeedCaller,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  widest(func(p *party) int64 { return int64(p.context) }),
		Value: contextTokens, Match: matchCaller},
	{ID: RuleSpawns, On: calls, Scope: events.ScopeFlow, Lasts: true, Grows: true, HoldsCalls: true, Row: rules.Row{
		Name: "max_spawns", Reason: "max_spawns_exceeded", Unit: events.UnitSpawns,
		About:  "Subagents started in the episode, those that ended included: calls of agents to agents that are not at work. With action: hold, the calls that would start one more wait for a person; all others go on.",
		Text:   "{head}{n} subagents of the flow {bound}{asked}",
		Advice: "{what}Start no further agent. Do the work yourself, or finish with what you have and report back.",
		Action: events.Deny, Armed: true, Status: 402, From: "weir",
		Needs: rules.NeedCaller, Most: countKept, Tells: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return int64(f.spawned) },
		Value: spawnedSoFar, Match: matchSpawn},
	{ID: RuleBackgroundSpawns, On: calls, Scope: events.ScopeFlow, Lasts: true, Grows: true, HoldsCalls: true, Row: rules.Row{
		Name: "max_background_spawns", Reason: "max_background_spawns_exceeded", Unit: events.UnitSpawns,
		About:  "Subagents of max_spawns that were started in the background (background in events, run_in_background of Claude Code): their caller does not wait for them.",
		Text:   "{head}{n} background subagents of the flow {bound}{asked}",
		Advice: "{what}Start no agent in the background. Run it in the foreground, or do the work yourself.",
		Action: events.Deny, Armed: true, Status: 402, From: "weir",
		Needs: rules.NeedCaller, Most: countKept, Tells: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Show:  func(f *Flow, _ *rules.Setting) int64 { return int64(f.behind) },
		Value: behindSoFar, Match: matchBackground},
	ofSubagent(FlowRule{ID: RuleSubagentCalls, On: kinds(events.AgentCall, events.ToolCall), Grows: true, Row: rules.Row{
		Name: "max_subagent_calls", Reason: "max_subagent_calls_exceeded", Unit: events.UnitCalls,
		About: "Calls of tools and agents by one subagent since it was called. The next call of the subagent after its return begins anew. subagents has other limits for single kinds.",
		Text:  "{head}{n} calls of the subagent {from} {bound}",
		Armed: true, Default: rules.Stop(rules.Off, rules.Off)}}),
	ofSubagent(FlowRule{ID: RuleSubagentTokens, On: usage, Grows: true, Row: rules.Row{
		Name: "max_subagent_tokens", Reason: "max_subagent_tokens_exceeded", Unit: events.UnitTokens,
		About: "Tokens of one subagent since it was called, input, cached and output. subagents has other limits for single kinds.",
		Text:  "{head}{n} tokens of the subagent {from} {bound}",
		Needs: rules.NeedTokens, Default: rules.Most(rules.Off, rules.Off-1)}}),
	ofSubagent(FlowRule{ID: RuleSubagentTime, On: kinds(events.AgentCall, events.ToolCall, events.ToolResult, events.LLMCall), Row: rules.Row{
		Name: "max_subagent_duration", Reason: "max_subagent_duration_exceeded", Unit: events.UnitSeconds,
		About:  "Seconds since one subagent was called, looked at with each of its events. subagents has other limits for single kinds.",
		Text:   "{head}the subagent {from} works for {n} s {bound}",
		Advice: "{what}Your time is used up. Return what you have found to your caller, and say what is missing.",
		Needs:  rules.NeedTime, Most: episodeLength, Default: rules.Stop(rules.Off, rules.Off)}}),
	ofSubagent(FlowRule{ID: RuleSubagentCost, On: usage, Grows: true, Row: rules.Row{
		Name: "max_subagent_cost_usd", Reason: "max_subagent_cost_exceeded", Unit: events.UnitUSD,
		About: "US dollars that one subagent has spent since it was called. subagents has other limits for single kinds.",
		Text:  "{head}{n} USD spent by the subagent {from} {bound}",
		Needs: rules.NeedTokens | rules.NeedPrice, Default: rules.Most(rules.Off, rules.Off-1)}}),
	{ID: RuleForecast, On: kinds(events.AgentCall, events.ToolCall), Scope: events.ScopeFlow, Lifts: true, Row: rules.Row{
		Name: "forecast_exceeds_budget", Reason: "forecast_exceeds_budget", Unit: events.UnitPercent,
		About:  "How much of its max_cost_usd or max_total_tokens the flow is expected to spend by its end, by what good runs of its kind spent that made as many calls (forecast in the limits file). Unknown below 19 such runs. It only warns.",
		Text:   "{head}the flow is expected to spend {n} % of its budget {bound}",
		Hint:   "The flow guard expects this work to cost {n} % of its budget in the end. Do what matters most first, keep the context small, and report what cannot be finished.",
		Action: events.Warn, From: "weir, measured on real traces",
		Needs: rules.NeedTokens, WarnsOnly: true,
		Default: rules.Stop(rules.Off, rules.Off)},
		Value: func(_ *Flow, m *moment, _ *rules.Setting) int64 { return m.foreseen }, Match: matchAll},
	{ID: RuleRepeatedBrief, On: calls, Scope: events.ScopeSession, Cleans: true, Row: rules.Row{
		Name: "repeated_brief", Reason: "repeated_delegation", Cause: rules.CauseLoop, Unit: events.UnitRepeats,
		About:  "One agent gave the same message to one agent after the other, whatever they are called, and each came to the same: the same tool calls with the same results, without tools the same answer, or the same failure without a change. Where the tool calls are the same and the answers are not, ten of them count as six. Where it is unknown whether they used tools, it takes five times as many to warn, and none stop. Agents that have the message at one time count as one. A pause of 45 s, a wait, a change or a new result of anybody else, and a user's message begin anew.",
		Text:   "{head}the same message was given to {n} agents one after the other and came to the same {bound}",
		Advice: "{what}Each agent with this message came to the same. Change the message, do the work yourself, or report what blocks it.",
		Action: events.Deny, Status: 403, From: "weir",
		Needs: rules.NeedCaller | rules.NeedMessage | rules.NeedResults | rules.NeedWork, OnlyWarns: rules.NeedWork, Most: countKept,
		Default: rules.Stop(4, 6)},
		Doubts: briefDoubt,
		Show:   mostBriefed,
		Value:  sameBrief, Match: matchBrief},
}

// ofSubagent completes a row about what one subagent has used since it was called.
func ofSubagent(r FlowRule) FlowRule {
	r.Scope, r.Lasts, r.HoldsCalls = events.ScopeSession, true, true
	r.Action, r.Status, r.From, r.Tells = events.Deny, 402, "weir", true
	r.Needs |= rules.NeedCaller
	if r.Advice == "" {
		r.Advice = "{what}Your share is used up. Return what you have found to your caller, and say what is missing."
	}
	r.Show, r.Value, r.Match = longestJob(r.ID), jobValue(r.ID), matchParty
	return r
}

// The rows that the fold itself looks for.
const (
	// Everything else about a row stands in the table. These are the places in which the fold
	// knows one by name.
	ruleOfAge    = RuleFlowDuration // it has a deadline of its own
	ruleOfPerson = RuleOperator     // it stands because a person says so
	ruleOfTurns  = RuleTurns        // its setting says which turns count
	ruleOfIdle   = RulePingPongSame // its setting says whether unknown work is none
	ruleOfTalk   = RuleNoWorkHops   // its setting says whether a hop to a new party counts
	ruleOfPoints = RuleCircling     // what its exemptions leave alone adds no points
	ruleOfTries  = RuleHammering    // it is about calls that were asked for and refused

	// What these measure is kept only where one of them is on.
	ruleOfContext = RuleContextTokens
	ruleOfGrowth  = RuleContextGrowth
	ruleOfSpawns  = RuleSpawnContext

	// Subagents are counted where one of these rows and those between them is on.
	ruleOfSpawnCount = RuleSpawns
	// What subagents use, in the order of the figures of KindLimits.
	ruleOfJobCalls  = RuleSubagentCalls
	ruleOfJobTokens = RuleSubagentTokens
	ruleOfJobTime   = RuleSubagentTime
	ruleOfJobCost   = RuleSubagentCost
	jobRows         = int(ruleOfJobCost-ruleOfJobCalls) + 1

	// FirstOfJobs is the first of the rows that limits of kinds of subagents are about.
	FirstOfJobs = ruleOfJobCalls

	// What agents were given, and what came of it, is kept where it is on.
	ruleOfBriefs = RuleRepeatedBrief

	// What is foreseen is held against the budgets.
	ruleOfForecast = RuleForecast
	ruleOfCost     = RuleCost
	ruleOfTokens   = RuleTotalTokens
)

// RuleNamed returns the row that the limits file calls name.
func RuleNamed(name string) (RuleID, bool) {
	for i := range Rules {
		if Rules[i].Name == name {
			return RuleID(i), true
		}
	}
	return 0, false
}
