package analyzer

import (
	"fmt"
	"time"

	"weir/analyzer/ledger"
	"weir/events"
)

// RuleID is the permanent number of a rule row. It stands in stored state, so it
// is never reused and never changes; new rows come at the end.
type RuleID uint8

// The rule rows.
const (
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
	RuleCount
)

// KindSet is a set of event kinds.
type KindSet uint32

func kinds(ks ...events.Kind) (s KindSet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s KindSet) Has(k events.Kind) bool { return s>>k&1 == 1 }

// Need is a set of things that a log has to tell for a rule to say anything: unknown is
// never taken for no.
type Need uint16

// The things. Only times are made up where a log has none.
const (
	NeedTools   Need = 1 << iota // calls of tools
	NeedArgs                     // their arguments
	NeedResults                  // results of tools, answers of agents
	NeedCaller                   // who called an agent
	NeedWork                     // whether a hop came without work
	NeedTurn                     // goal turns
	NeedTokens                   // tokens and money
	NeedTime                     // when things happened
	NeedTasks                    // tasks
)

// Rule is one row of the table: what is measured after which events, what an order says
// and does when the measure is over its limit, and all that is said and shown of the rule
// anywhere. Rules never write to the flow and never see each other.
//
// Two kinds of subject are judged, flows and (in the agent stage) agents; each has
// its own table of the same shape.
type Rule[S any, ID ~uint8] struct {
	ID     ID
	Name   string        // key in the limits file
	Reason events.Reason // reason code of its verdicts
	Unit   events.Unit
	About  string // one sentence for people
	// Text is the sentence of its verdicts, see text. Without one, it is made of the reason.
	Text        string
	Advice      string        // what the model is told instead of what it is told of others
	Action      events.Action // of a stop
	Armed       bool          // a budget: the order goes out when it is used up
	Tells       bool          // who asks is told what is left, see Engine.addRemaining
	Window      string        // what Setting.Window means; "" when the row has none
	Span        span          // how long a window may be that is not of calls
	From        string        // where the rule comes from
	Status      int           // HTTP status of a refusal
	Needs       Need          // what a log has to tell
	Most        reach         // the greatest value that can be observed; none for as much as can be written
	Told        bool          // people are told of it also under a wider order, which says something else
	Smells      int64         // a limit above it is a design smell; 0 for none
	Fixed       bool          // nothing about it can be set: it is a person's word
	Blind       bool          // the setting may say that results do not count
	Delegations bool          // the setting may say that calls count that are no delegations
	Returns     bool          // the setting may say that turns count again that come back
	Leaves      []string      // tags of the note that a stop leaves with the agent that was stopped; none for no note
	Deepens     bool          // the value is what callers tell as delegation_depth
	Beginning   bool          // the setting may say that only what the episode began with counts
	Unknown     bool          // the setting may say that hops count of which nobody knows whether they brought work
	Newcomers   bool          // the setting may say that hops count to whom the talk had not reached
	// About flows.
	On      KindSet          // kinds after which it is measured
	Scope   events.ScopeKind // of a stop
	Lifts   bool             // the order is lifted when the measure falls below the limit
	Lasts   bool             // the order is renewed while the flow is active at all, not only while it is defied
	Cleans  bool             // a user's event clears it
	Paced   bool             // the pace of the party widens the limit
	Repeat  bool             // about repetition: tools can be exempt
	Rewords bool             // calls in other words count, so that one more wording of them is refused
	// Whom says whom an order is about, when it is not the parties of the event as far as
	// the scope names them.
	Whom    func(s S, m *moment) (scope events.ScopeKind, a, b uint8)
	Subject func(ev *events.Event) string            // what keeps orders of one scope apart
	Match   func(s S, m *moment, o *order)           // fills in which calls the order refuses
	Value   func(s S, m *moment, set *Setting) int64 // the observed value
	Show    func(s S, set *Setting) int64            // the value whatever the last event was, for people
	// About agents, projects and trees of flows.
	Counts  Counted        // what is counted; nothing for what is about silence
	Coarse  bool           // counted in buckets, since numbers and windows are large
	Shares  bool           // the setting may set aside a share for each child of a tree
	Silence bool           // about silence: the value is seconds, the threshold a deadline
	Speaks  func(s S) bool // whether silence of an agent in this state counts

	Default Setting
}

// reach is the greatest value that a row can observe, and why it is not more.
type reach struct {
	most int64
	why  string
}

// span is the shortest and the longest window of a row, and why they are so.
type span struct {
	least, most int64
	why         string
}

// What the bounds of what is remembered let rows observe.
var (
	yesOrNo          = reach{1, "a call is one or it is not"}
	partiesKept      = reach{maxParties, fmt.Sprintf("at most %d parties of a flow are kept", maxParties)}
	hopTimesKept     = reach{maxRateStamps, fmt.Sprintf("the times of the last %d hops are kept; max_total_calls counts further", maxRateStamps)}
	burstTimesKept   = reach{maxBurst, fmt.Sprintf("the times of the last %d such hops are kept; no_work_hops counts further", maxBurst)}
	roundsKept       = reach{maxRounds, fmt.Sprintf("the last %d rounds of a pair are looked at", maxRounds)}
	pointsKept       = reach{maxPoints, "points stop there"}
	countKept        = reach{MaxCount, "the counter stops there"}
	episodeLength    = reach{int64(MaxDuration / time.Second), "no episode lasts longer"}
	silenceKept      = reach{int64(MaxDuration / time.Second), "nobody waits longer"}
	messageTimesKept = reach{maxAgentStamps, fmt.Sprintf("the times of the last %d are kept; max_agent_messages counts further", maxAgentStamps)}
	agentTimesKept   = reach{maxAgentStamps, fmt.Sprintf("the times of the last %d are kept", maxAgentStamps)}

	childrenKept = reach{ledger.MaxChildren, fmt.Sprintf("at most %d flows of a tree are remembered one by one", ledger.MaxChildren)}

	hopWindows   = span{1, maxRateWindow, "times are kept for 10 minutes"}
	agentWindows = span{1, maxAgentWindow, "times are kept for an hour: max_agent_messages counts further"}
	capWindows   = span{capBuckets, maxCapWindow, "a cap is for a long time: agent_message_rate is for a short one"}
	gapWindows   = span{1, maxGapFactor, "it is how many mean gaps between reports may pass"}
)

// FlowRule is a rule about one flow.
type FlowRule = Rule[*Flow, RuleID]

var (
	calls     = kinds(events.AgentCall)
	toolCalls = kinds(events.ToolCall)
	results   = kinds(events.ToolResult)
	usage     = kinds(events.LLMCall, events.AgentReturn, events.ToolResult, events.AgentCall, events.FlowEnd)
	loops     = kinds(events.TaskLoop, events.TaskReflect, events.AgentCall)
)

func stop(warn, at int64) Setting { return Setting{Warn: warn, Stop: at} }
func most(warn, n int64) Setting  { return Setting{Warn: warn, Stop: n + 1, Max: true} }
func window(w int64, s Setting) Setting {
	s.Window = w
	return s
}

//go:generate go test -run TestReasonsAreGenerated -update .

// Rules is the table, in the order in which verdicts are given. The defaults are
// the balanced profile.
var Rules = [RuleCount]FlowRule{
	{ID: RuleCorrelationID, Name: "correlation_id_required", Reason: "correlation_id_required", Unit: events.UnitCalls, On: calls,
		About:  "An agent called an agent without a correlation id.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 400, From: "delegation", Cleans: true,
		Text:   "{head}correlationId is required for agent-initiated calls",
		Advice: "{what}Calls between agents need the correlation id of the flow. Pass on the one that you were called with.",
		Needs:  NeedCaller, Most: yesOrNo,
		Value: uncorrelated, Match: matchEdge, Default: stop(Off, 1)},
	{ID: RuleSelfCall, Name: "self_call", Reason: "self_call", Unit: events.UnitCalls, On: calls,
		About:  "An agent gave work to itself: a call to itself that is to return (transfer_mode). With count: all every call to itself, which in a group chat is the same speaker twice in a row.",
		Action: events.Deny, Scope: events.ScopePair, Status: 400, From: "delegation", Lasts: true,
		Text:   "{head}self-calls are not allowed",
		Advice: "{what}You cannot call yourself. Do the work in this turn instead.",
		Needs:  NeedCaller, Most: yesOrNo,
		Delegations: true,
		Value:       selfCall, Match: matchEdge, Default: stop(Off, 1)},
	{ID: RuleStackDepth, Name: "max_stack_depth", Reason: "max_stack_depth_exceeded", Unit: events.UnitHops, On: kinds(events.AgentCall, events.AgentReturn),
		About:  "Agents called agents that called agents: the depth of the collapsed call stack. A limit above 5 is a design smell.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "delegation", Armed: true, Lifts: true, Lasts: true,
		Text:   "{head}effective call depth {n} {over}",
		Smells: 5,
		Tells:  true, Needs: NeedCaller, Most: partiesKept,
		Show:  func(f *Flow, _ *Setting) int64 { return f.depth() },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return f.depth() }, Match: matchOffStack, Default: most(5, 5)},
	{ID: RuleUniqueSessions, Name: "max_unique_sessions", Reason: "max_unique_sessions_exceeded", Unit: events.UnitSessions, On: calls,
		About:  "So many different parties took part in the flow; those whom one caller sends out together count as one.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 402, From: "delegation", Armed: true, Lasts: true,
		Text:  "{head}{n} agents or sessions in the flow {bound}",
		Tells: true, Needs: NeedCaller, Most: countKept,
		Show:  func(f *Flow, _ *Setting) int64 { return uniqueSessions(f) },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return uniqueSessions(f) }, Match: matchNewParties, Default: most(Off, 10)},
	{ID: RuleFlowDuration, Name: "max_flow_duration", Reason: "max_flow_duration_exceeded", Unit: events.UnitSeconds,
		About:  "Seconds since the episode began; fires without an event.",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 402, From: "delegation", Lasts: true,
		Text:  "{head}the flow is {n} s old {bound}",
		Tells: true, Needs: NeedTime, Most: episodeLength,
		Show:  func(f *Flow, _ *Setting) int64 { return int64(f.ageOf(f.last).Seconds()) },
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return int64(f.ageOf(m.at).Seconds()) }, Match: matchAll, Default: stop(2700, 5400)},
	{ID: RuleCallerRate, Name: "call_rate_per_caller", Reason: "call_rate_exceeded", Unit: events.UnitCalls, On: calls,
		About:  "Hops of one caller in a sliding window of event time.",
		Action: events.Throttle, Scope: events.ScopeSession, Status: 429, From: "delegation", Armed: true, Lifts: true,
		Text:  "{head}{n} calls of one caller within {window} s {bound}",
		Needs: NeedCaller | NeedTime, Most: hopTimesKept,
		Value: callerRate, Match: matchCaller, Window: "seconds", Span: hopWindows, Default: window(60, most(18, 20))},
	{ID: RuleFlowRate, Name: "call_rate_per_flow", Reason: "call_rate_exceeded", Unit: events.UnitCalls, On: calls,
		About:  "Hops of the whole flow in a sliding window of event time. With count: beginning those of the first window of the episode, and none after it.",
		Action: events.Throttle, Scope: events.ScopeFlow, Status: 429, From: "delegation", Armed: true, Lifts: true,
		Text:      "{head}{n} calls in the flow within {window} s {bound}",
		Beginning: true,
		Needs:     NeedCaller | NeedTime, Most: hopTimesKept,
		Show:  func(f *Flow, set *Setting) int64 { n, _ := f.hopsIn(f.clock, set.Window, none, Off); return n },
		Value: flowRate, Match: matchCalls, Window: "seconds", Span: hopWindows, Default: window(60, most(Off, 60))},
	{ID: RuleTotalCalls, Name: "max_total_calls", Reason: "max_total_calls_exceeded", Unit: events.UnitCalls, On: calls,
		About:  "Hops of the episode.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 402, From: "delegation", Armed: true, Lasts: true,
		Text:  "{head}{n} calls between agents in the flow {bound}",
		Tells: true, Needs: NeedCaller,
		Show:  hopsSoFar,
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return int64(f.hops) }, Match: matchCalls, Default: most(80, 100)},
	{ID: RuleRevisits, Name: "max_revisits", Reason: "max_revisits_exceeded", Unit: events.UnitRevisits, On: calls,
		About:  "Calls that returned to a party that control had come through.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "delegation", Lasts: true,
		Text:  "{head}control came back to one session {n} times {bound}",
		Needs: NeedCaller, Most: countKept,
		Show:  widest(func(p *party) int64 { return int64(p.revisits) }),
		Value: revisits, Match: matchCallee, Default: stop(Off, Off)},
	{ID: RulePingPongSame, Name: "ping_pong_same", Reason: "a2a_ping_pong", Unit: events.UnitRounds, On: calls,
		About:  "A cycle of 2 to 8 hops without work, the same content at each position every round.",
		Action: events.Deny, Scope: events.ScopePair, Status: 403, From: "delegation, gateway (future work there)", Cleans: true,
		Text:    "{head}the same {period} calls between agents with the same content, {n} times in a row without work {bound}",
		Unknown: true,
		Needs:   NeedCaller | NeedWork, Most: countKept, Whom: ringPair,
		Show:  func(f *Flow, _ *Setting) int64 { n, _ := rounds(f.sameRun[:], 2, maxRing); return n },
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return f.pingPong(m, &f.sameRun) }, Match: matchRing, Default: stop(2, 3)},
	{ID: RulePingPongOther, Name: "ping_pong_other", Reason: "a2a_ping_pong", Unit: events.UnitRounds, On: calls,
		About:  "A cycle of 2 to 8 hops without work, whatever the content.",
		Action: events.Deny, Scope: events.ScopePair, Status: 403, From: "delegation, gateway (future work there)", Cleans: true,
		Text:  "{head}the same {period} calls between agents, {n} times in a row without work {bound}",
		Needs: NeedCaller | NeedWork, Most: countKept, Whom: ringPair,
		Show:  func(f *Flow, _ *Setting) int64 { n, _ := rounds(f.pairRun[:], 2, maxRing); return n },
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return f.pingPong(m, &f.pairRun) }, Match: matchRing, Default: stop(3, 6)},
	{ID: RuleRepeatedDelegation, Name: "repeated_delegation", Reason: "repeated_delegation", Unit: events.UnitRepeats, On: calls,
		About:  "The same message from one agent to another, neither having worked in between; silence does not clear it. Where the log tells neither work nor answers, two within half a minute count as one, else five.",
		Action: events.Deny, Scope: events.ScopePair, Status: 403, From: "weir", Cleans: true,
		Text:  "{head}the same message was sent {n} times without work in between {bound}",
		Needs: NeedCaller, Most: countKept,
		Show:  mostRepeated,
		Value: repeatedDelegation, Match: matchDelegation, Default: stop(3, 6)},
	{ID: RuleStaleDelegation, Name: "stale_delegation", Reason: "stale_delegation", Unit: events.UnitRounds, On: kinds(events.AgentCall, events.AgentReturn),
		About:  "Rounds in which the callee only made tool calls that it had made before.",
		Action: events.Deny, Scope: events.ScopePair, Status: 403, From: "weir, measured on real traces", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}in {n} rounds the callee only repeated earlier tool calls {bound}",
		Needs: NeedTools | NeedArgs | NeedCaller, Most: roundsKept, Whom: roundPair,
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return m.stale }, Match: matchPair, Default: stop(3, Off)},
	{ID: RuleStaleAnswers, Name: "stale_answers", Reason: "stale_delegation", Unit: events.UnitRounds, On: kinds(events.AgentReturn),
		About:  "Such rounds whose answer was the same, or nearly, as one before.",
		Action: events.Deny, Scope: events.ScopePair, Status: 403, From: "weir, measured on real traces", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}in {n} rounds the callee only repeated earlier tool calls and answers {bound}",
		Needs: NeedTools | NeedArgs | NeedResults | NeedCaller, Most: roundsKept, Whom: roundPair,
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return m.staleSame }, Match: matchPair, Default: stop(2, 3)},
	{ID: RuleNoWorkHops, Name: "no_work_hops", Reason: "no_work_rapid_fire", Unit: events.UnitHops, On: calls,
		About:  "Hops in a row without work; delegations made side by side are one, and one that turns to somebody who took no part in the last eight counts for nothing, but with count: all.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "delegation", Cleans: true,
		Text:  "{head}{n} calls between agents in a row without work {bound}",
		Needs: NeedCaller | NeedWork, Most: countKept, Newcomers: true,
		Show:  func(f *Flow, _ *Setting) int64 { return int64(f.streak) },
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return m.ifHop(int64(f.streak)) }, Match: matchCalls, Default: stop(7, 12)},
	{ID: RuleNoWorkBurst, Name: "no_work_burst", Reason: "no_work_rapid_fire", Unit: events.UnitHops, On: calls,
		About:  "Hops without work within a few seconds.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "delegation", Cleans: true,
		Text:  "{head}{n} calls between agents without work within {window} s {bound}",
		Needs: NeedCaller | NeedWork | NeedTime, Most: burstTimesKept,
		Value: noWorkBurst, Match: matchCalls, Window: "seconds", Span: hopWindows, Default: window(10, stop(6, Off))},
	{ID: RuleRepetition, Name: "repetition", Reason: "repetition_detected", Unit: events.UnitRepeats, On: results,
		About:  "The same tool call with the same result among the party's last calls.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "gateway", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}the same tool call brought the same result {n} times {bound}",
		Needs: NeedTools | NeedArgs | NeedResults,
		Value: repetition, Match: matchCall, Window: "calls", Default: window(10, stop(3, 6))},
	{ID: RuleRepetitionBlind, Name: "repetition_blind", Reason: "repetition_detected", Unit: events.UnitRepeats, On: toolCalls,
		About:  "The same tool call among the party's last calls, no result being in the log.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "gateway", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}the same tool call was made {n} times {bound}",
		Needs: NeedTools | NeedArgs,
		Blind: true,
		Value: repetitionBlind, Match: matchCall, Window: "calls", Default: window(32, stop(15, 30))},
	{ID: RuleCircling, Name: "circling", Reason: "circling", Unit: events.UnitPoints, On: results,
		About:  "Points for calls that bring what was known: same call and result 4, nearly the same result 3, another call with a known result 2, anything new -2.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "weir, measured on real traces", Cleans: true, Paced: true, Repeat: true,
		Text:    "{head}tool calls go in circles: {n} points for what was known {bound}",
		Rewords: true,
		Needs:   NeedTools | NeedArgs | NeedResults, Most: pointsKept,
		Show:  widest(func(p *party) int64 { return int64(p.points) }),
		Value: circling, Match: matchScored, Default: stop(8, 18)},
	{ID: RuleToolCycle, Name: "tool_cycle", Reason: "tool_cycle_detected", Unit: events.UnitRounds, On: results,
		About:  "Rounds of a repeating sequence of 2 to 7 tool calls with their results.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "weir", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}the same {period} tool calls brought the same results {n} times in a row {bound}",
		Needs: NeedTools | NeedArgs | NeedResults, Most: countKept,
		Show:  widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 2, 7); return n }),
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return m.toolCycle(f, 2, 7) }, Match: matchCycle, Default: stop(3, 4)},
	{ID: RuleToolCycleLong, Name: "tool_cycle_long", Reason: "tool_cycle_detected", Unit: events.UnitRounds, On: results,
		About:  "Rounds of a repeating sequence of 8 to 16 tool calls with their results.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "weir", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}the same {period} tool calls brought the same results {n} times in a row {bound}",
		Needs: NeedTools | NeedArgs | NeedResults, Most: countKept,
		Show:  widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 8, maxPeriod); return n }),
		Value: func(f *Flow, m *moment, _ *Setting) int64 { return m.toolCycle(f, 8, maxPeriod) }, Match: matchCycle, Default: stop(2, 4)},
	{ID: RuleRepeatedError, Name: "repeated_error", Reason: "repeated_error", Unit: events.UnitRepeats, On: results,
		About:  "One tool brought the same error in a row, whatever its arguments; 429s and timeouts do not count. Where the tool also worked, only the calls that failed are refused.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "weir", Cleans: true, Paced: true, Repeat: true,
		Text:  "{head}the tool failed in the same way {n} times in a row {bound}",
		Needs: NeedTools, Most: countKept,
		Show:  longestRun(true),
		Value: func(_ *Flow, m *moment, _ *Setting) int64 { return m.errors }, Match: matchFailing, Default: stop(3, 6)},
	{ID: RuleNoProgress, Name: "no_progress", Reason: "no_progress", Unit: events.UnitRepeats, On: results,
		About:  "One tool brought the same result in a row, whatever its arguments.",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "weir", Cleans: true, Repeat: true,
		Text:  "{head}the tool brought the same result {n} times in a row {bound}",
		Needs: NeedTools | NeedResults, Most: countKept,
		Show:  longestRun(false),
		Value: func(_ *Flow, m *moment, _ *Setting) int64 { return m.oks }, Match: matchTool, Default: stop(30, 60)},
	{ID: RuleToolCalls, Name: "max_tool_calls", Reason: "max_tool_calls_exceeded", Unit: events.UnitCalls, On: toolCalls,
		About:  "Tool calls of the episode.",
		Text:   "{head}{n} tool calls in the flow {bound}",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 402, From: "gateway", Armed: true, Lasts: true,
		Tells: true, Needs: NeedTools,
		Show:  func(f *Flow, _ *Setting) int64 { return int64(f.toolCalls) },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return int64(f.toolCalls) }, Match: matchToolCalls, Default: stop(Off, Off)},
	{ID: RuleTurns, Name: "max_turns", Reason: "max_turns_exceeded", Unit: events.UnitTurns, On: kinds(events.TurnStart, events.ToolCall, events.AgentCall),
		About:  "Distinct turn ids of the episode. With count: changes every change of the turn id, so that turns that come back count again.",
		Text:   "{head}{n} turns {bound}",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 402, From: "gateway", Armed: true, Lasts: true,
		Tells: true, Needs: NeedTurn, Most: countKept, Returns: true,
		Show:  func(f *Flow, _ *Setting) int64 { return int64(f.turns) },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return int64(f.turns) }, Match: matchNewTurn, Default: stop(Off, Off)},
	{ID: RuleChainDepth, Name: "max_chain_depth", Reason: "max_chain_depth_exceeded", Unit: events.UnitCalls, On: toolCalls,
		About:  "Tool calls of one party after the one that opened the turn; without turn ids all calls count.",
		Text:   "{head}{n} tool calls in one chain {bound}",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "gateway", Armed: true, Lifts: true, Lasts: true, Cleans: true,
		Tells: true, Needs: NeedTools,
		Show:  widest(func(p *party) int64 { return int64(p.chain) }),
		Value: chainDepth, Match: matchThisTurn, Default: stop(150, 250)},
	{ID: RuleInputTokens, Name: "max_input_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens, On: usage,
		About:  "Input tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} input tokens in the flow {bound}",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 402, From: "gateway", Lasts: true,
		Tells: true, Needs: NeedTokens,
		Show:  func(f *Flow, _ *Setting) int64 { return f.tokens[0] },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return f.tokens[0] }, Match: matchAll, Default: most(Off, Off-1)},
	{ID: RuleOutputTokens, Name: "max_output_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens, On: usage,
		About:  "Output tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} output tokens in the flow {bound}",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 402, From: "gateway", Lasts: true,
		Tells: true, Needs: NeedTokens,
		Show:  func(f *Flow, _ *Setting) int64 { return f.tokens[1] },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return f.tokens[1] }, Match: matchAll, Default: most(Off, Off-1)},
	{ID: RuleTotalTokens, Name: "max_total_tokens", Reason: "max_tokens_exceeded", Unit: events.UnitTokens, On: usage,
		About:  "All tokens of the episode; only deltas are summed.",
		Text:   "{head}{n} tokens in the flow {bound}",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 402, From: "gateway", Lasts: true,
		Tells: true, Needs: NeedTokens,
		Show:  func(f *Flow, _ *Setting) int64 { return f.tokens[2] },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return f.tokens[2] }, Match: matchAll, Default: most(Off, Off-1)},
	{ID: RuleCost, Name: "max_cost_usd", Reason: "max_cost_exceeded", Unit: events.UnitUSD, On: usage,
		About:  "US dollars spent in the episode.",
		Text:   "{head}{n} USD spent in the flow {bound}",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 402, From: "weir", Lasts: true,
		Tells: true, Needs: NeedTokens,
		Show:  func(f *Flow, _ *Setting) int64 { return f.cost },
		Value: func(f *Flow, _ *moment, _ *Setting) int64 { return f.cost }, Match: matchAll, Default: most(Off, Off-1)},
	{ID: RuleConversation, Name: "max_conversation_messages", Reason: "max_conversation_messages_exceeded", Unit: events.UnitMessages, On: calls,
		About:  "Messages between agents in one conversation (the flow, when the log names none).",
		Text:   "{head}{n} messages in one conversation {bound}",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 402, From: "team", Armed: true, Lasts: true,
		Needs: NeedCaller, Subject: conversationOf,
		Show:  hopsSoFar,
		Value: func(_ *Flow, m *moment, _ *Setting) int64 { return m.conversation }, Match: matchConversation, Default: stop(Off, Off)},
	{ID: RuleLoops, Name: "max_loops", Reason: "max_loops_exceeded", Unit: events.UnitLoops, On: loops,
		About:  "Iterations of one task: the larger of our count and the caller's loop_count.",
		Action: events.Halt, Scope: events.ScopeTask, Status: 403, From: "task", Lasts: true,
		Text:   "{warning}Loop limit exceeded: {n} loops reached for task {task}",
		Leaves: []string{"error", "loop_limit", "system_halt"},
		Needs:  NeedTasks, Most: countKept, Subject: taskOf,
		Value: func(_ *Flow, m *moment, _ *Setting) int64 { return m.loops }, Match: matchTask, Default: stop(Off, Off)},
	{ID: RuleReflectLoops, Name: "max_reflect_loops", Reason: "max_reflect_loops_exceeded", Unit: events.UnitLoops, On: loops,
		About:  "Reflections of one task: the larger of our count and the caller's loop_count.",
		Action: events.Halt, Scope: events.ScopeTask, Status: 403, From: "task", Lasts: true,
		Text:   "{warning}Reflect loop limit exceeded: {n} loops reached for task {task}",
		Leaves: []string{"error", "loop_limit", "system_halt", "reflection"},
		Needs:  NeedTasks, Most: countKept, Subject: taskOf,
		Value: func(_ *Flow, m *moment, _ *Setting) int64 { return m.reflects }, Match: matchTask, Default: stop(Off, Off)},
	{ID: RuleDelegationDepth, Name: "max_delegation_depth", Reason: "max_delegation_depth_exceeded", Unit: events.UnitHops, On: kinds(events.AgentCall, events.AgentReturn),
		About:  "Delegations that a call comes after, none for the first: the larger of our count and the caller's delegation_depth.",
		Action: events.Deny, Scope: events.ScopeFlow, Status: 403, From: "task", Lifts: true, Lasts: true,
		Text:   "{warning}Delegation depth exceeded: depth {n}, {over}",
		Leaves: []string{"error", "delegation_limit", "system_halt"},
		Tells:  true, Deepens: true, Needs: NeedCaller,
		Show:  func(f *Flow, _ *Setting) int64 { return f.delegated() },
		Value: delegationDepth, Match: matchDeeper, Default: stop(Off, Off)},
	{ID: RuleOperator, Name: "operator_stop", Reason: "operator_stop", Unit: events.UnitNone,
		About:  "A person stopped the flow.",
		Action: events.Halt, Scope: events.ScopeFlow, Status: 403, From: "weir", Fixed: true,
		Text:   "Stopped by an operator.",
		Advice: "A person has stopped this flow. Do not call again. Report what is finished and what is not.",
		Value:  func(*Flow, *moment, *Setting) int64 { return 0 }, Match: matchAll, Default: stop(Off, Off)},
	{ID: RuleRepetitionAny, Name: "repetition_any", Reason: "repetition_detected", Unit: events.UnitRepeats, On: toolCalls,
		About:  "The same tool call among the party's last calls, whatever the results; off by default, since it cannot tell honest polling from a loop.",
		Text:   "{head}the same tool call was made {n} times {bound}",
		Action: events.Deny, Scope: events.ScopeSession, Status: 403, From: "openclaw", Cleans: true, Paced: true, Repeat: true,
		Needs: NeedTools | NeedArgs,
		Value: repetitionAny, Match: matchCall, Window: "calls", Default: window(32, stop(Off, Off))},
	{ID: RuleHammering, Name: "hammering", Reason: "refusal_hammered", Unit: events.UnitCalls,
		About:  "A caller asked again and again after a refusal that no waiting ends, as clients do that try everything again.",
		Action: events.Halt, Scope: events.ScopeSession, Status: 403, From: "weir", Cleans: true,
		Text:   "{head}asked {n} times after a final refusal {bound}",
		Advice: "{what}The refusal is final: asking again changes nothing. End your turn and report what is done and what is not.",
		Needs:  NeedCaller, Most: countKept, Told: true,
		Value: hammering, Match: matchCaller, Default: stop(20, 100)},
}

// The rows that the fold itself looks for.
const (
	ruleOfAge    = RuleFlowDuration // it has a deadline of its own
	ruleOfPerson = RuleOperator     // it stands because a person says so
	ruleOfTurns  = RuleTurns        // its setting says which turns count
	ruleOfIdle   = RulePingPongSame // its setting says whether unknown work is none
	ruleOfTalk   = RuleNoWorkHops   // its setting says whether a hop to somebody new counts
	ruleOfTries  = RuleHammering    // it is about calls that were asked for and refused
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
