package events

import (
	"strconv"
	"strings"
)

// Reason is a reason code: snake_case, permanent, never reused. The codes are those of the
// rows of the analyzer, see reasons.go.
type Reason string

// Unit is what a limit counts.
type Unit string

// The units of limits and observed values.
const (
	UnitCalls    Unit = "calls"
	UnitMessages Unit = "messages"
	UnitSessions Unit = "sessions"
	UnitHops     Unit = "hops"
	UnitTurns    Unit = "turns"
	UnitLoops    Unit = "loops"
	UnitRevisits Unit = "revisits"
	UnitRepeats  Unit = "repeats"
	UnitRounds   Unit = "rounds"
	UnitPoints   Unit = "points"
	UnitSeconds  Unit = "s"
	UnitTokens   Unit = "tokens"
	UnitUSD      Unit = "usd"
	UnitFlows    Unit = "flows"
	UnitTimes    Unit = "times" // a multiple
	UnitSpawns   Unit = "spawns"
	UnitPercent  Unit = "percent"
	UnitNone     Unit = "none"
)

// Amount is so many of the unit for people, such as "1 call" or "20 calls".
func (u Unit) Amount(n float64) string {
	number := strconv.FormatFloat(n, 'f', -1, 64)
	switch {
	case u == UnitUSD:
		return "$" + number
	case u == "" || u == UnitNone:
		return number
	case u == UnitPercent:
		return number + " %"
	case u == UnitSeconds && n == 1:
		return "1 second"
	case u == UnitSeconds:
		return number + " seconds"
	case n == 1 && u != UnitTimes:
		return "1 " + strings.TrimSuffix(string(u), "s")
	}
	return number + " " + string(u)
}

// The values of Verdict.Effective: from the next call on, or with the one that was judged.
//
// EffectiveNext is given when a limit is used up but not passed: a stream sees a call only
// after it left, so the order is out before the next one (decision 3).
const (
	EffectiveNow  = "now"
	EffectiveNext = "next"
)

// The values of Verdict.Degraded: limits have shrunk because everything together is busy, or
// the answer was given by what had been folded before, because the fold is behind.
const (
	DegradedLoad   = "load"
	DegradedBehind = "behind"
)

// Verdict is a standing order for a dispatcher, as the schema verdict.v1.json
// defines it. A verdict with a CorrelationID binds the calls of that flow alone;
// Scope says whom within it, Match which calls. It holds no wall-clock time: its
// bytes are the same whenever the log is folded again.
//
// Dispatchers keep the newest verdict for each scope and reason: of two with the same, the one
// with the greater Revision holds (decision 7). An absent field is the zero value, but for
// Limit and Observed, where 0 is a figure and nil is none.
type Verdict struct {
	SchemaVersion int     `json:"schema_version,omitempty"`
	ID            string  `json:"id"`
	Time          RFC3339 `json:"time"`
	Revision      int64   `json:"revision"`
	Mode          Mode    `json:"mode"`
	Scope         Scope   `json:"scope"`
	Action        Action  `json:"action"`
	// ControlledCutoff is true exactly for Deny and Halt.
	ControlledCutoff bool `json:"controlled_cutoff"`
	// Effective is empty for warnings, notices and what clears an order.
	Effective string `json:"effective,omitempty"` // now or next
	// Match is nil for an order about the whole scope.
	Match  *Match `json:"match,omitempty"`
	Reason Reason `json:"reason_code"`
	// Reasons are all codes in force for the scope; Reason is the strictest of them.
	Reasons []Reason `json:"reasons,omitempty"`
	// IncidentID is the same for all verdicts about one flow in one episode with one Cause, and
	// for those about one agent, project or tree from the first until its offence is over. Group
	// by it: an incident is one thing to look at, however many verdicts it gives.
	IncidentID string `json:"incident_id,omitempty"`
	Cause      string `json:"cause,omitempty"` // loop for all patterns of a flow that goes in circles, else the reason
	// RuleID is the name of the row as in the limits file; two rows may share a reason
	// (decision 10).
	RuleID        string `json:"rule_id,omitempty"`
	ConfigVersion string `json:"config_version,omitempty"` // hash of the limits in force
	// Limit and Observed are what stands in the limits file and what was measured, in Unit;
	// nil for orders that measure nothing, such as those of a person.
	Limit    *float64 `json:"limit,omitempty"`
	Observed *float64 `json:"observed,omitempty"`
	Unit     Unit     `json:"unit,omitempty"`
	// WindowS is in seconds; 0 means that the rule looks at no window of time.
	WindowS     float64 `json:"window_s,omitempty"`
	WindowCalls int64   `json:"window_calls,omitempty"` // last calls of the party that were looked at, its own included
	// Message and Detail may name parties and tools; AgentMessage never holds a word of the
	// log, since a model would take it for an instruction.
	Message      string `json:"message,omitempty"`       // for people
	AgentMessage string `json:"agent_message,omitempty"` // for the model: fixed words and numbers only
	Detail       string `json:"detail,omitempty"`
	// TTLS is how many seconds it stands from Time on; 0 means until it is cleared, and then
	// ExpiresAt is zero as well.
	TTLS      int64   `json:"ttl_s,omitempty"`
	ExpiresAt RFC3339 `json:"expires_at,omitzero"`
	// RetryAfterS is after how many seconds a try may help; 0 means that waiting does not.
	RetryAfterS int64 `json:"retry_after_s,omitempty"`
	// HTTPStatus is what a gateway answers a refused call with, as the row or the limits say
	// (decision 53).
	HTTPStatus int `json:"http_status,omitempty"`
	// Confidence is estimated when events stand for others that were left out
	// (Event.SampledRate).
	Confidence    string `json:"confidence,omitempty"` // exact, derived, estimated
	CorrelationID string `json:"correlation_id,omitempty"`
	// RootCorrelationID is of an order about a tree of flows, or about one flow because of its
	// tree: the flow that the others descend from.
	RootCorrelationID string `json:"root_correlation_id,omitempty"`
	// What follows up to DelegationDepth says whom it is about and which event brought it
	// about, so that people and dispatchers find it by whatever id they know.
	Session         string `json:"session,omitempty"`
	Agent           string `json:"agent,omitempty"`
	From            string `json:"from,omitempty"`
	To              string `json:"to,omitempty"`
	Tool            string `json:"tool,omitempty"`
	ArgsHash        string `json:"args_hash,omitempty"`
	TurnID          string `json:"turn_id,omitempty"`
	TaskID          string `json:"task_id,omitempty"`
	TaskType        string `json:"task_type,omitempty"`
	ProjectID       string `json:"project_id,omitempty"`
	TeamID          string `json:"team_id,omitempty"`
	TenantID        string `json:"tenant_id,omitempty"`
	MemoryTraceID   string `json:"memory_trace_id,omitempty"`
	ConversationID  string `json:"conversation_id,omitempty"`
	MessageID       string `json:"message_id,omitempty"`
	TraceID         string `json:"trace_id,omitempty"`
	SpanID          string `json:"span_id,omitempty"`
	LoopCount       int64  `json:"loop_count,omitempty"`
	DelegationDepth int64  `json:"delegation_depth,omitempty"`
	// Trigger is nil where no event gave the verdict, such as at a deadline.
	Trigger  *Trigger  `json:"trigger,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"`
	// Recovery is of verdicts about stuck agents.
	Recovery *Recovery `json:"recovery,omitempty"`
	// Degraded says that the limits were not those of quiet times, and why: DegradedLoad or
	// DegradedBehind.
	Degraded string `json:"degraded,omitempty"`
	// Remaining, in answers to asks alone, is what is left of each limit after the call: where
	// the ask wants to be told (Event.Tell), or the limits tell it of one.
	Remaining []Remaining `json:"remaining,omitempty"`
	// Waiting is of a hold that outlives a prompt cache: what the next call costs more then.
	Waiting *Waiting `json:"waiting,omitempty"`
	// ByHand is of an order that a person gave about a scope and not about one flow.
	ByHand *ByHand `json:"by_hand,omitempty"`
}

// ByHand is what an order has that a person gave about a scope. The id of the scope is a pattern, in
// which a star stands for any text and a question mark for one character. The order binds each call
// of the scope, whoever makes it, a person's as well.
type ByHand struct {
	By     string  `json:"by"`
	Reason string  `json:"reason,omitempty"`
	Within []Scope `json:"within,omitempty"` // each has to fit the call as well
	Except []Scope `json:"except,omitempty"` // a call that fits one of them may be made
}

// Remaining is what is left of a limit.
//
// A row that is not limited has none.
type Remaining struct {
	RuleID string  `json:"rule_id"`
	Left   float64 `json:"left"` // 0: used up
	Limit  float64 `json:"limit"`
	Unit   Unit    `json:"unit"`
	Until  RFC3339 `json:"until,omitzero"` // of a limit of time: when it is used up
	// Forecast is of budgets of which the final spend can be estimated; nil where the limits have no
	// forecasts.
	Forecast *Forecast `json:"forecast,omitempty"`
}

// Waiting is what it costs to let a held flow wait.
type Waiting struct {
	After   RFC3339 `json:"after"`              // when the first prompt cache forgets
	Tokens  int64   `json:"tokens"`             // cached tokens that are written again then
	CostUSD float64 `json:"cost_usd,omitempty"` // by how much that is more than to read them; missing without a price
}

// Forecast is what a flow is expected to have spent at its end, in the unit of its budget. The figures
// are 0 where fewer than 19 good runs of its kind came as far: then it is unknown.
type Forecast struct {
	Runs     int64   `json:"runs"`          // good runs of its kind that came as far
	Low      float64 `json:"low,omitempty"` // one run in twenty spends less
	Expected float64 `json:"expected,omitempty"`
	High     float64 `json:"high,omitempty"` // one run in twenty spends more
}

// Emitted is a verdict and the offset of the record that brought it about.
//
// The offset is no part of the verdict, see Trigger.
type Emitted struct {
	Verdict Verdict
	Offset  int64
}

// Scope is what an order is about.
//
// ID is of the flow, session, agent and so on that Kind says.
type Scope struct {
	Kind ScopeKind `json:"kind"`
	ID   string    `json:"id"` // pair: the two ids sorted and joined with a bar
}

// String returns kind and id with a colon between.
func (s Scope) String() string { return string(s.Kind) + ":" + s.ID }

// Match narrows an order: every field that is given must match the call to be
// dispatched; a list matches any of its members, NotFrom and NotTo none. A hash matches when
// the algorithm is the same and one value is a prefix of the other.
//
// An absent list narrows nothing. A nil Match is the whole scope.
type Match struct {
	From           []string `json:"from,omitempty"`
	To             []string `json:"to,omitempty"`
	NotFrom        []string `json:"not_from,omitempty"`
	NotTo          []string `json:"not_to,omitempty"`
	Tool           []string `json:"tool,omitempty"`
	ArgsHash       []string `json:"args_hash,omitempty"`
	ContentHash    []string `json:"content_hash,omitempty"`
	Edges          []Edge   `json:"edges,omitempty"` // caller and callee together
	TurnID         string   `json:"turn_id,omitempty"`
	NotTurnID      string   `json:"not_turn_id,omitempty"`
	TaskID         string   `json:"task_id,omitempty"`
	ConversationID string   `json:"conversation_id,omitempty"`
	ProjectID      string   `json:"project_id,omitempty"`
	// RootCorrelationID fits the calls of that flow and of all flows that name it as their root,
	// or, when they name no root, as their parent.
	RootCorrelationID string `json:"root_correlation_id,omitempty"`
	Kind              string `json:"kind,omitempty"` // agent.call or tool.call; absent: both
	// Background fits calls of agents that run in the background alone; false fits all calls.
	Background bool `json:"background,omitempty"`
}

// Edge is one direction between two parties.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Trigger is the event at which the verdict was given. Where it stands in its log
// is told by the record that carries the verdict, not by the verdict, so that a
// refold from another log gives the same bytes.
type Trigger struct {
	EventID string `json:"event_id,omitempty"`
	Ordinal int64  `json:"ordinal,omitempty"` // n-th event of the flow that was folded
}

// Evidence is what a person needs to believe the verdict.
//
// It holds names and figures, never contents.
type Evidence struct {
	Stack     []string `json:"stack,omitempty"`      // collapsed call stack
	ChainTail []string `json:"chain_tail,omitempty"` // last callees
	// Ordinals count the events of a flow from 1, as they were folded.
	Ordinals []int64 `json:"ordinals,omitempty"` // events of the flow that count, by ordinal
	Calls    int64   `json:"calls,omitempty"`    // calls spent since the offence began
	Tokens   int64   `json:"tokens,omitempty"`   // tokens spent since the offence began
	Period   int64   `json:"period,omitempty"`   // length of the repeating unit
	Attempts int64   `json:"attempts,omitempty"` // calls tried against the order
	Leaked   int64   `json:"leaked,omitempty"`   // calls that were in flight when the order went out
	Offences int64   `json:"offences,omitempty"` // how often this flow was stopped for the reason before
}

// Recovery is what the ladder for a stuck agent says.
//
// Reviewer is who is to look at the agent, and RequestedBy who asked for its rescue; Certainty
// is stuck or potentially_stuck.
type Recovery struct {
	SafeToResume bool    `json:"safe_to_resume"`
	Coherence    float64 `json:"coherence,omitempty"`
	Risk         float64 `json:"risk,omitempty"`
	VoidActive   bool    `json:"void_active,omitempty"`
	// IdleS is in seconds.
	IdleS       float64  `json:"idle_s,omitempty"`
	Margin      string   `json:"margin,omitempty"`
	Health      string   `json:"health,omitempty"`
	Conditions  []string `json:"conditions,omitempty"`
	Reviewer    string   `json:"reviewer,omitempty"`
	RequestedBy string   `json:"requested_by,omitempty"`
	Certainty   string   `json:"certainty,omitempty"`
}

// RFC3339 is a Stamp that is written as RFC 3339 in UTC with milliseconds.
//
// A Stamp itself is written by hand in AppendJSON; this type is for encoding/json.
type RFC3339 Stamp

// IsZero reports whether no time is given.
func (t RFC3339) IsZero() bool { return t == 0 }

// layout is what Stamp.append writes by hand.
const layout = "2006-01-02T15:04:05.000Z"

// MarshalText writes the time with exactly three digits of fraction.
func (t RFC3339) MarshalText() ([]byte, error) { return Stamp(t).Time().AppendFormat(nil, layout), nil }

// String returns the time as it is marshalled.
func (t RFC3339) String() string { return Stamp(t).Time().Format(layout) }

// OfSelfTest reports whether weir gave the verdict to itself: it is about a loop that weir
// makes to see that it is stopped, in a flow of SelfTestFlows, which nobody else may use. Such
// verdicts stand in weir's own log of verdicts and reach no consumer.
func (v *Verdict) OfSelfTest() bool { return strings.HasPrefix(v.CorrelationID, SelfTestFlows) }

// Stops reports whether the verdict orders to refuse calls, at once or from the next one
// on, in whatever mode it is given.
func (v *Verdict) Stops() bool {
	return v.Action.Stops()
}
