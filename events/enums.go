package events

// Kind says what happened. Its text is the value of "kind" in the schema.
type Kind uint8

// The kinds. LimitsSet, Tick and AgentActivity are written by weir itself and refused from producers.
const (
	KindUnset Kind = iota
	AgentCall
	AgentReturn
	ToolCall
	ToolResult
	LLMCall
	TurnStart
	TaskLoop
	TaskReflect
	AgentStatus
	NoteAdded
	RescueRequest
	FlowStart
	FlowEnd
	VerdictAck
	ReviewResult
	OverrideSet
	OperatorStop
	OperatorRelease
	LimitsSet
	Tick
	AgentActivity // what a flow tells of a party; internal, like Tick
	kindCount
)

var kindNames = [...]string{"", "agent.call", "agent.return", "tool.call", "tool.result", "llm.call", "turn.start",
	"task.loop", "task.reflect", "agent.status", "note", "rescue.request", "flow.start", "flow.end", "verdict.ack",
	"review.result", "override.set", "operator.stop", "operator.release", "limits.set", "tick", "agent.activity"}

// String returns the kind as the schema spells it.
func (k Kind) String() string { return nameOf(kindNames[:], uint8(k)) }

// Kinds lists all kinds in the order of the schema.
func Kinds() []Kind {
	out := make([]Kind, 0, kindCount-1)
	for k := AgentCall; k < kindCount; k++ {
		out = append(out, k)
	}
	return out
}

// Asked reports whether events of the kind can be asked for before what they tell of happens.
func (k Kind) Asked() bool {
	return k == AgentCall || k == ToolCall || k == TaskLoop || k == TaskReflect
}

// Origin says who set an event off.
type Origin uint8

// The origins. Only agents count in agent-to-agent rules.
const (
	OriginUnset Origin = iota
	OriginUser
	OriginAgent
	OriginScheduler
	OriginApplet
	OriginSystem
)

var originNames = [...]string{"", "user", "agent", "scheduler", "applet", "system"}

// String returns the origin as the schema spells it.
func (o Origin) String() string { return nameOf(originNames[:], uint8(o)) }

// CorrelationSource says how a correlation id was found.
type CorrelationSource uint8

// The sources, from the most to the least trusted but for the last. Explicit is the default.
const (
	CorrelationExplicit CorrelationSource = iota
	CorrelationBaggage
	CorrelationPrompt
	CorrelationTrace
	CorrelationConversation
	CorrelationSession
	CorrelationTask
	CorrelationDerived
	// CorrelationPrincipal is of events that a gateway's authorizer asks about once more, in
	// the flow of what their caller cannot choose. Agents and projects are counted where the
	// caller's own flow is asked about, and not again here.
	CorrelationPrincipal
)

var correlationNames = [...]string{"explicit", "baggage", "prompt", "trace", "conversation", "session", "task", "derived", "principal"}

// String returns the source as the schema spells it.
func (c CorrelationSource) String() string { return nameOf(correlationNames[:], uint8(c)) }

// ParseCorrelationSource returns the source that the schema spells so.
func ParseCorrelationSource(s string) (CorrelationSource, bool) {
	i, ok := indexOf(correlationNames[:], s)
	return CorrelationSource(i), ok
}

// PartyType says what a party is.
type PartyType uint8

// The party types. PartyAgent is the default.
const (
	PartyAgent PartyType = iota
	PartyWorkflow
	PartyHuman
	PartyTool
)

var partyNames = [...]string{"agent", "workflow", "human", "tool"}

// String returns the type as the schema spells it.
func (p PartyType) String() string { return nameOf(partyNames[:], uint8(p)) }

// TransferMode says whether an agent.return will follow a call.
type TransferMode uint8

// The transfer modes.
const (
	TransferUnset TransferMode = iota
	ReturnToCaller
	PassControl
)

var transferNames = [...]string{"", "return_to_caller", "pass_control"}

// String returns the mode as the schema spells it.
func (t TransferMode) String() string { return nameOf(transferNames[:], uint8(t)) }

// Status is the outcome of a return, a result or an inference.
type Status uint8

// The outcomes.
const (
	StatusUnset Status = iota
	StatusOK
	StatusError
	StatusDenied
	StatusCancelled
	StatusTimeout
	StatusInputRequired
)

var statusNames = [...]string{"", "ok", "error", "denied", "cancelled", "timeout", "input_required"}

// String returns the status as the schema spells it.
func (s Status) String() string { return nameOf(statusNames[:], uint8(s)) }

// UsageScope says how token figures add up.
type UsageScope uint8

// The scopes. UsageDelta is the default.
const (
	UsageDelta UsageScope = iota
	UsageCumulative
	UsageAggregate
)

var usageNames = [...]string{"delta", "cumulative", "aggregate"}

// String returns the scope as the schema spells it.
func (u UsageScope) String() string { return nameOf(usageNames[:], uint8(u)) }

// Tri is yes, no or unknown. Unknown is never taken for no.
type Tri uint8

// The three values.
const (
	Unknown Tri = iota
	No
	Yes
)

// ScopeKind says what an order or an override is about.
type ScopeKind uint8

// The scopes.
const (
	ScopeUnset ScopeKind = iota
	ScopeFlow
	ScopeSession
	ScopeAgent
	ScopePair
	ScopeTask
	ScopeProject
	ScopeTenant
	ScopeTool
	ScopeTree // a flow and all that descend from it
)

var scopeNames = [...]string{"", "flow", "session", "agent", "pair", "task", "project", "tenant", "tool", "tree"}

// String returns the scope as the schema spells it.
func (s ScopeKind) String() string { return nameOf(scopeNames[:], uint8(s)) }

// ParseScopeKind returns the scope that the schema spells so.
func ParseScopeKind(s string) (ScopeKind, bool) {
	i, ok := indexOf(scopeNames[:], s)
	return ScopeKind(i), ok && i > 0
}

// Action is what a verdict orders.
type Action uint8

// The actions, from allow (an earlier verdict is cleared) to halt, then the
// recovery steps for stuck agents, and Hold. The numbers stand in stored state.
const (
	ActionUnset Action = iota
	Allow
	Warn
	Throttle
	Deny
	Halt
	Resume
	ReviewAgent
	Archive
	Notify
	Hold // the flow waits until a person grants it more or stops it
)

var actionNames = [...]string{"", "allow", "warn", "throttle", "deny", "halt", "resume", "review", "archive", "notify", "hold"}

// String returns the action as the schema spells it.
func (a Action) String() string { return nameOf(actionNames[:], uint8(a)) }

// ParseAction returns the action that the schema spells so; ActionUnset for none.
func ParseAction(s string) Action {
	i, _ := indexOf(actionNames[:], s)
	return Action(i)
}

// Stops reports whether the action refuses calls: throttle, deny, hold or halt.
func (a Action) Stops() bool { return a == Throttle || a == Deny || a == Hold || a == Halt }

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

func indexOf(names []string, s string) (uint8, bool) {
	for i, n := range names {
		if n == s {
			return uint8(i), true
		}
	}
	return 0, false
}
