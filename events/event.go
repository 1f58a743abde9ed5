package events

import (
	"math"
	"strings"
	"time"
)

// Stamp is a point in event time, in milliseconds since the Unix epoch, UTC.
// The zero Stamp means "not given". Rules measure by such times alone; the machine's clock
// decides nothing (decision 1).
type Stamp int64

// StampOf returns t as a Stamp; fractions of a millisecond are cut off. A time before 1970
// becomes negative, which no decoded Stamp is.
func StampOf(t time.Time) Stamp { return Stamp(t.UnixMilli()) }

// Time returns s as a time in UTC.
func (s Stamp) Time() time.Time { return time.UnixMilli(int64(s)).UTC() }

// Add returns s moved by d; fractions of a millisecond in d are cut off.
func (s Stamp) Add(d time.Duration) Stamp { return s + Stamp(d.Milliseconds()) }

// Sub returns the duration from o to s, at most the 292 years that a Duration holds. Two times
// from 1970 to 9999 may lie farther apart, and an overflow would turn a long silence into a
// negative one.
func (s Stamp) Sub(o Stamp) time.Duration {
	const most = Stamp(math.MaxInt64 / time.Millisecond)
	return time.Duration(max(-most, min(most, s-o))) * time.Millisecond
}

// DurationText writes a duration as people do, without zeros at its end: 10m, where String writes 10m0s.
func DurationText(d time.Duration) string {
	s := d.String()
	// In this order: 1h0m0s loses its seconds first, then its minutes.
	for _, zero := range [...]string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Event is one fact about an agent flow, as the schema event.v1.json defines it.
// An absent field is the zero value; where absence and zero differ in meaning the
// field has a type of its own (Tri, Work.Known, Usage.Known).
//
// Strings of a decoded Event alias the bytes that Decode was given. Whoever keeps
// one longer than those bytes must clone it.
type Event struct {
	// The fields that the fold reads of nearly each event come first. A sweep holds more events than the caches
	// of a processor, so each line of memory that the fold need not read saves time.

	// ID must stay the same when the event is sent again: a new one makes a retry look like a
	// loop.
	ID     string // unique within Source; (Source, ID) is what repeats are told by
	Source string // URI reference of the producer
	Kind   Kind

	CorrelationSource CorrelationSource
	// Origin is as it was told; rules ask By.
	Origin Origin // who set it off; OriginUnset when the producer did not say (see By)
	// Claimed only takes a right away, so nobody gains by sending or leaving it out (decision
	// 59).
	Claimed bool // that a user set it off is only its sender's claim; written by intakes
	// Allowed, an Ask is the call itself and is not told again (decision 9).
	Ask  bool // asked before it is sent: refused it counts as an attempt, not as a call
	Tell bool // with Ask: the answer is to say what is left of each limit, see Verdict.Remaining
	// TransferMode is of agent.call.
	TransferMode TransferMode
	// Background is of agent.call: the caller goes on and does not wait for the answer.
	Background bool
	// Status and ErrorType are of returns, results, inferences and flows.
	Status Status
	// Work is believed when HadWork, Work or the tools that weir has seen tell of it; that there
	// was none is believed only of who would know (decision 4).
	HadWork Tri // did the agent use tools or make outputs since it was called

	// Time is the start of calls and the end of returns and results.
	Time     Stamp // when it happened
	Appended Stamp // when the log took it; set by the log's reader, never decoded

	// Without a CorrelationID an agent's call is answered with correlation_id_required, so it
	// is not refused as input; see FlowKey.
	CorrelationID string // one flow: all that follows from one user, scheduler or applet action
	// From calls, returns or acts; To is called, returned to, or the agent that a rescue, a
	// note or a review is about.
	From, To Party // the zero Party as From means a human
	// Producers leave what changes by itself (ids, times, addresses) out before they hash, or
	// nothing is ever the same again; package fingerprint does so for adapters.
	Content Hash        // of the message of agent.call, the answer of agent.return, the result of tool.result
	Sim     Fingerprint // of the same content, for "nearly the same"
	// Another TurnID than the last one is another turn, and chains of tool calls are counted
	// within one.
	TurnID string // goal turn as the orchestrator marks it
	Work   Work

	// Tags are what the producer tags the flow with, or in agent.status the agent that reports; a
	// label is a tag written name=value. They are kept with what they are of, and limits may
	// exempt by them.
	Tags        []string
	SampledRate int64 // this event stands for so many; 0 and 1 mean itself
	// They may only raise what weir counts itself, so a caller that resets them gains nothing.
	LoopCount, DelegationDepth int64 // as the caller tells them; hints, never trusted below our own count

	// Tool is of tool.call and tool.result.
	Tool Tool
	// Of all kinds only llm.call carries deltas, see UsageScope.
	Usage Usage

	// Names of the producer's own. Limits are counted by TaskID, ProjectID and ConversationID;
	// all of them go into verdicts, so that people find the flow again.
	ConversationID, TaskID, ProjectID, TeamID, TenantID string
	// ParentCorrelationID is the flow that opened this one, and RootCorrelationID the first of
	// them all, whose budget the whole tree of flows shares. A flow that names neither is a root.
	ParentCorrelationID, RootCorrelationID string

	// Each of these up to Limits is nil unless its producer gave it, which belongs to the kind
	// that stands behind.
	AgentState *AgentState // agent.status
	Note       *Note       // note
	Rescue     *Rescue     // rescue.request
	Ack        *Ack        // verdict.ack
	Review     *Review     // review.result
	Override   *Override   // override.set
	Operator   *Operator   // operator.stop, operator.release
	Limits     []byte      // limits.set: the whole limits document, as JSON; written by weir alone

	// DurationMS is how long it took, in milliseconds; 0 is not told.
	DurationMS float64
	ErrorType  string
	Model      string
	Provider   string
	Observed   Stamp // when the producer or collector saw it
	// Times of milliseconds are often equal; Sequence is what keeps a call before its result.
	Sequence int64 // order within Source, to break ties of Time
	// CausationID is passed through for people; no rule reads it.
	CausationID string // ID of the event that caused this one
	// Principal is the name of the access file that sent the event. Intakes write it, and remove what a
	// sender has written.
	Principal                          string
	MessageID, TaskType, MemoryTraceID string
	// They place the event in a trace; weir does not follow spans.
	TraceID, SpanID, ParentSpanID string      // lower-case hex, W3C
	Attributes                    []Attribute // passed through, used by no rule
}

// By tells who set the event off: what the producer said, or, when it did not, a human for an
// agent.call without a caller and an agent for everything else. An agent that only claims to
// be the user, a scheduler or the system is an agent: a user's message takes orders back, and only
// agents count in the rules between agents, so who could claim otherwise could free himself
// (decision 59). A tool call is no message, so that of a user is an agent's: otherwise it would
// pass the stop of a person.
func (e *Event) By() Origin {
	human := e.From.IsZero() || e.From.Type == PartyHuman
	switch {
	case e.Claimed && !human, e.Origin == OriginUser && e.Kind == ToolCall:
		return OriginAgent
	case e.Origin != OriginUnset:
		return e.Origin
	case e.Kind == AgentCall && human:
		return OriginUser
	}
	return OriginAgent
}

// Refusable reports whether an agent calls an agent or a tool, which is what an order can
// refuse. A user's message never is.
func (e *Event) Refusable() bool {
	return (e.Kind == AgentCall || e.Kind == ToolCall) && e.By() != OriginUser
}

// FlowKey is the key under which the event's flow is kept: its correlation id, or,
// when it has none, "agent:" and the party that it concerns, so that calls that
// escaped correlation are still folded in one place.
func (e *Event) FlowKey() string {
	// The callee comes first: calls without correlation pile up there, whoever makes them.
	if e.CorrelationID != "" {
		return e.CorrelationID
	}
	switch {
	case !e.To.IsZero():
		return "agent:" + e.To.ID()
	case !e.From.IsZero():
		return "agent:" + e.From.ID()
	}
	return "agent:"
}

// Root is the flow whose budget the event counts against beside that of its own flow: the root
// that it names, else the parent; empty for an event that names neither. The parent is the
// root in trees of two levels; deeper ones have to name theirs.
func (e *Event) Root() string {
	if e.RootCorrelationID != "" {
		return e.RootCorrelationID
	}
	return e.ParentCorrelationID
}

// Party is who acts or is acted on: a running session, a stable agent, or both, as far as the
// source knows them.
type Party struct {
	Session string // the running instance
	Agent   string // the stable id
	Name    string // for people
	Type    PartyType
	Tags    []string // what its producer tags the agent with, as Event.Tags
}

// IsZero reports whether nothing identifies the party, which as caller means a human.
func (p Party) IsZero() bool { return p.Session == "" && p.Agent == "" }

// ID is the identity that rules compare by default: the session, else the agent. One agent in
// two sessions is two parties by it.
func (p Party) ID() string {
	if p.Session != "" {
		return p.Session
	}
	return p.Agent
}

// Tool is the tool of a tool.call or tool.result. The rules look at names, hashes,
// sizes and fingerprints, never into arguments or results.
type Tool struct {
	Name     string
	CallID   string // joins tool.call with tool.result
	Server   string
	Type     string
	Args     []byte // raw JSON, when the producer may send content; only its hash is kept
	ArgsHash Hash
	ArgsSize int64 // bytes
	// ArgsSim is a fingerprint of the arguments, by which the same call in other words is told
	// (fingerprint.ArgsText).
	ArgsSim Fingerprint
	// ResultSize is how many bytes the result has. Only sources whose Status says which results
	// are errors tell it: a short result that is none proves nothing when it comes again.
	ResultSize int64
	RetryOf    string // CallID that this call legitimately repeats; never counted as repetition
	// Beside marks a call that one message of the model made with the call before it: neither knew
	// the other's result, also where the log has that result between them.
	Beside bool
	// Attempt counts from 1, as the producer does; 0 means that it does not say.
	Attempt int64
	Outcome *Outcome // of tool.result; nil when nothing is known of it
	Tags    []string // as Event.Tags, of the tool
}

// Work is what an agent did between its call and this event, as the producer counts it. Known
// tells "no tool calls" from "not told" (decision 4).
type Work struct {
	Known     bool
	ToolCalls int64
	Outputs   int64
}

// Usage is tokens and money. Deltas are summed. Of a cumulative figure, tokens and money alike,
// the growth is, for each source and party by itself: one that is less than the one before has
// begun again and counts whole, unless it comes late, and 0 is a figure that is not told.
// Aggregates are summed apart, and the larger of both sums counts.
type Usage struct {
	Known bool
	Scope UsageScope
	// CacheInInput says whether CacheRead and CacheCreation are a part of Input; Unknown where the
	// source does not say.
	CacheInInput Tri
	// Batch says that the request was one of a batch, which providers charge less for.
	Batch         bool
	Input         int64 // tokens
	Output        int64 // tokens
	CacheRead     int64 // tokens
	CacheCreation int64 // tokens
	CacheHour     int64 // tokens of CacheCreation that the cache keeps an hour, which costs more
	Reasoning     int64 // tokens
	Total         int64 // tokens; 0 means Input + Output
	CostMicroUSD  int64 // millionths of a US dollar
}

// AgentState is what an agent.status tells of its agent. Coherence and Risk lie between 0 and
// 1; whether they were told stands beside them, because 0 is a value.
type AgentState struct {
	Status       string // active, waiting_input, paused, archived, ...
	Margin       string // comfortable, tight, critical
	Health       string // healthy, moderate, critical
	Coherence    float64
	Risk         float64
	HasCoherence bool
	HasRisk      bool
	VoidActive   bool
	TotalUpdates int64
	LastUpdate   Stamp
}

// Note is a knowledge note; the tags stuck and help together call for rescue. An agent keeps
// its last eight (decision 46).
type Note struct {
	Summary string
	Tags    []string
	Details string
}

// Rescue asks for help for the agent in To. Whoever may send events may ask, and is refused
// unless the agent is stuck (decision 46).
type Rescue struct {
	Reason string
	Admin  bool // a claim only
}

// Ack says that a dispatcher applied, or overrode, a verdict.
// LatencyMS is how long the dispatcher took to apply it, in milliseconds; 0 is not told.
type Ack struct {
	VerdictID      string
	Applied        bool
	OverrideReason string
	LatencyMS      float64
}

// Review is a reviewer's decision about a stuck agent (the agent in To).
type Review struct {
	Decision string // resume, keep, archive
	Reason   string
}

// Override changes one limit for one scope until it expires.
type Override struct {
	Scope   ScopeKind // project, agent, tool, flow or tree
	ScopeID string
	Rule    string   // name of the rule row, as in the limits file
	Warn    Optional // new warn threshold
	Stop    Optional // new stop threshold
	Extra   int64    // so much more than the limit, or than was used when more was; 0 for none
	Mode    string   // off, shadow, warn, enforce; empty keeps it
	Reason  string
	By      string
	Expires Stamp
}

// Optional is a number that may be absent. Copies of an Override share nothing, as they would
// with a pointer.
type Optional struct {
	Set   bool
	Value int64
}

// Operator is a person's order about the flow of the event. For is how long a stop stands, and
// 0 stands for DefaultStop; of a release it is how long nothing of the tree is limited. It is
// written in whole seconds and is at most MaxHold.
type Operator struct {
	Reason string
	By     string
	For    time.Duration
}

// Attribute is a name and a scalar that is passed through. Value aliases the decoded bytes, as
// the strings of an Event do.
type Attribute struct {
	Name  string
	Value []byte // raw JSON scalar
}
