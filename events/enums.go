package events

import "slices"

// Kind says what happened. Its text is the value of "kind" in the schema.
type Kind uint8

// The kinds. LimitsSet, Tick and AgentActivity are written by weir itself and refused from
// producers. Standing orders in stored state hold the number of a kind, so a new one comes at
// the end.
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
	// kindCount ends Kinds; it is no kind.
	kindCount
)

// kindNames stand at the places of the constants above, as all lists of names here do.
var kindNames = [...]string{"", "agent.call", "agent.return", "tool.call", "tool.result", "llm.call", "turn.start",
	"task.loop", "task.reflect", "agent.status", "note", "rescue.request", "flow.start", "flow.end", "verdict.ack",
	"review.result", "override.set", "operator.stop", "operator.release", "limits.set", "tick", "agent.activity"}

// String returns the kind as the schema spells it; "invalid" for a number that is none, which
// only a damaged record can hold.
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
// Of the other kinds nothing could be refused: a result or a status has happened.
func (k Kind) Asked() bool {
	return k == AgentCall || k == ToolCall || k == TaskLoop || k == TaskReflect
}

// Origin says who set an event off. Rules ask Event.By, which has an answer also when the
// producer gives none.
type Origin uint8

// The origins. Only agents count in agent-to-agent rules. A user's event clears patterns and
// their orders, see decision 5.
const (
	OriginUnset Origin = iota
	OriginUser
	OriginAgent
	OriginScheduler
	OriginApplet
	OriginSystem
)

// The first word of a list is what an absent field decodes to; it is never written.
var originNames = [...]string{"", "user", "agent", "scheduler", "applet", "system"}

// String returns the origin as the schema spells it.
func (o Origin) String() string { return nameOf(originNames[:], uint8(o)) }

// CorrelationSource says how a correlation id was found. It tells how far the flow can be
// trusted to be one action of a user: where the id is that of a conversation or a session it
// holds many of them, and a user's call begins a new episode (decision 5).
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

// correlationNames begin with the default and not with an empty word: it is left out of what
// is written.
var correlationNames = [...]string{"explicit", "baggage", "prompt", "trace", "conversation", "session", "task", "derived", "principal"}

// String returns the source as the schema spells it.
func (c CorrelationSource) String() string { return nameOf(correlationNames[:], uint8(c)) }

// ParseCorrelationSource returns the source that the schema spells so.
// It is for settings that name a source; Decode reads words by itself.
func ParseCorrelationSource(s string) (CorrelationSource, bool) {
	i, ok := indexOf(correlationNames[:], s)
	return CorrelationSource(i), ok
}

// PartyType says what a party is. Only PartyHuman matters: such a party is no agent in the
// rules, and a call by one is a user's, see Event.By. The other types are for people.
type PartyType uint8

// The party types. PartyAgent is the default.
const (
	PartyAgent PartyType = iota
	PartyWorkflow
	PartyHuman
	PartyTool
)

// PartyAgent is both the zero value and a word, so this list has no empty one.
var partyNames = [...]string{"agent", "workflow", "human", "tool"}

// String returns the type as the schema spells it.
func (p PartyType) String() string { return nameOf(partyNames[:], uint8(p)) }

// TransferMode says whether an agent.return will follow a call. When it is unset, an agent may
// be a speaker of a group chat who hands on the word.
type TransferMode uint8

// The transfer modes.
const (
	TransferUnset TransferMode = iota
	ReturnToCaller
	PassControl
)

// Both words are of tasks between agents, where control comes back or does not.
var transferNames = [...]string{"", "return_to_caller", "pass_control"}

// String returns the mode as the schema spells it.
func (t TransferMode) String() string { return nameOf(transferNames[:], uint8(t)) }

// Status is the outcome of a return, a result or an inference. StatusUnset is not success: the
// source did not say.
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

// input_required ends a call without an error: whoever asked has to answer first.
var statusNames = [...]string{"", "ok", "error", "denied", "cancelled", "timeout", "input_required"}

// String returns the status as the schema spells it.
func (s Status) String() string { return nameOf(statusNames[:], uint8(s)) }

// UsageScope says how token figures add up, since a source may tell single calls and their
// sum, and both counted would be twice the bill.
type UsageScope uint8

// The scopes. UsageDelta is the default.
const (
	UsageDelta UsageScope = iota
	UsageCumulative
	UsageAggregate
)

// As with correlationNames, the first is the default.
var usageNames = [...]string{"delta", "cumulative", "aggregate"}

// String returns the scope as the schema spells it.
func (u UsageScope) String() string { return nameOf(usageNames[:], uint8(u)) }

// Tri is yes, no or unknown. Unknown is never taken for no, or whoever reports nothing would
// look idle.
type Tri uint8

// The three values.
const (
	Unknown Tri = iota
	No
	Yes
)

// ScopeKind says what an order or an override is about. It is its word in the schema, so that
// one of a later version goes through those that do not know it.
type ScopeKind string

// The scopes.
const (
	ScopeUnset   ScopeKind = ""
	ScopeFlow    ScopeKind = "flow"
	ScopeSession ScopeKind = "session"
	ScopeAgent   ScopeKind = "agent"
	ScopePair    ScopeKind = "pair"
	ScopeTask    ScopeKind = "task"
	ScopeProject ScopeKind = "project"
	ScopeTenant  ScopeKind = "tenant"
	ScopeTool    ScopeKind = "tool"
	ScopeTree    ScopeKind = "tree" // a flow and all that descend from it
	// The rest are of orders by hand alone, see ByHand.
	ScopeAll       ScopeKind = "all"
	ScopeTeam      ScopeKind = "team"
	ScopePrincipal ScopeKind = "principal" // whose token a check or a guard shows
	ScopeService   ScopeKind = "service"   // the source of events
	ScopeModel     ScopeKind = "model"
	ScopeBudget    ScopeKind = "budget" // the account of a budget over flows, NAME:VALUE; of verdicts alone
)

// scopes stand at their places, which stand in stored state: new ones come at the end.
var scopes = [...]ScopeKind{ScopeUnset, ScopeFlow, ScopeSession, ScopeAgent, ScopePair, ScopeTask, ScopeProject, ScopeTenant, ScopeTool, ScopeTree,
	ScopeAll, ScopeTeam, ScopePrincipal, ScopeService, ScopeModel, ScopeBudget}

// Place returns the number of the scope; 0 for one that this version does not know.
//
// What is stored of an order is its place; of a verdict it is the word.
func (s ScopeKind) Place() int { return max(0, slices.Index(scopes[:], s)) }

// ScopeAt returns the scope with that number; ScopeUnset where there is none.
func ScopeAt(place int) ScopeKind {
	if place < len(scopes) {
		return scopes[place]
	}
	return ScopeUnset
}

// Mode says how an order is meant.
type Mode string

// The values of Verdict.Mode: a shadow verdict is given and counted, and no dispatcher
// honors it.
const (
	ModeEnforce Mode = "enforce"
	ModeShadow  Mode = "shadow"
)

// Action is what a verdict orders. It is its word in the schema, so that one of a later
// version goes through those that do not know it.
type Action string

// The actions, from allow (an earlier verdict is cleared) to halt, then the recovery steps for
// stuck agents, and Hold. Their order up to Halt is that of severity.
const (
	ActionUnset Action = ""
	Allow       Action = "allow"
	Warn        Action = "warn"
	Throttle    Action = "throttle"
	Deny        Action = "deny"
	Halt        Action = "halt"
	Resume      Action = "resume"
	ReviewAgent Action = "review"
	Archive     Action = "archive"
	Notify      Action = "notify"
	Hold        Action = "hold" // the flow waits until a person grants it more or stops it
)

// actions stand at their places, which stand in stored state: new ones come at the end.
var actions = [ActionCount]Action{ActionUnset, Allow, Warn, Throttle, Deny, Halt, Resume, ReviewAgent, Archive, Notify, Hold}

// ActionCount is how many actions there are, ActionUnset among them.
//
// Arrays that count by action are as long.
const ActionCount = 11

// Place returns the number of the action; 0 for one that this version does not know, which
// counts as none.
func (a Action) Place() int { return max(0, slices.Index(actions[:], a)) }

// ActionAt returns the action with that number; ActionUnset where there is none.
func ActionAt(place int) Action {
	if place < len(actions) {
		return actions[place]
	}
	return ActionUnset
}

// Stops reports whether the action refuses calls: throttle, deny, hold or halt. Warn, notify
// and the recovery steps refuse nothing.
func (a Action) Stops() bool { return a == Throttle || a == Deny || a == Hold || a == Halt }

// nameOf is indexOf the other way round; it takes any number.
func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

// indexOf walks, for the lists are short. 0 with false is no place.
func indexOf(names []string, s string) (uint8, bool) {
	for i, n := range names {
		if n == s {
			return uint8(i), true
		}
	}
	return 0, false
}
