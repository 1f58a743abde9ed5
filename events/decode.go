package events

import (
	"fmt"
	"time"
)

// MaxEventBytes is the length of the longest event that Decode takes.
// An event has hashes in the place of contents, so one that is longer carries what it should not.
const MaxEventBytes = 1 << 20

// The lengths of texts, in characters, and of lists.
//
// Decode checks them, so that whatever lies behind it (state records, keys, messages for
// people) needs no bound of its own. A character is a rune: a text that is not ASCII may have
// up to four times as many bytes.
const (
	MaxID         = 256 // ids, and names of tools, models and the like
	MaxSource     = 512
	MaxTaskType   = 128
	MaxProvider   = 128
	MaxToolType   = 64
	MaxStatusText = 64 // agent_state.status
	MaxLevel      = 32 // agent_state.margin and health
	MaxTags       = 32
	MaxTag        = 64
	MaxReason     = 1024 // reasons and summaries, which people write
	MaxDetails    = 8192 // note.details
	MaxRule       = 64   // override.rule
	MaxAttributes = 64
)

// MaxHold is the longest time that an operator's order may be given for: what is to stand
// longer than a year is a setting and not an order.
const MaxHold = 366 * 24 * time.Hour

// DefaultStop is how long a person's stop stands that does not say for how long: long enough
// for somebody to look, and not for ever if nobody does.
const DefaultStop = 24 * time.Hour

// Decode reads one canonical JSON event, as event.v1.json describes it, into e,
// which it resets first. It is strict where two readers could differ: names are
// exact (correlation_id may also be spelled correlationId or correlationid), no
// name may be given twice in any object, a known name in other case or with other
// underscores is refused, and so are bad UTF-8 and anything after the object.
// Other unknown fields are ignored.
//
// The strings and raw values of e alias p: whoever changes p or keeps e longer than
// p must clone them. The kinds of weir's own are read too, for weir reads them
// in its own log; see FromProducer. The error is a *DecodeError, and then what e
// holds is not to be relied on, unless it says that the id or the time is missing: all
// else that was given is in e then.
func Decode(p []byte, e *Event) error {
	*e = Event{}
	if len(p) > MaxEventBytes {
		return &DecodeError{Code: CodeTooLong, Offset: MaxEventBytes,
			Reason: fmt.Sprintf("the event has %d bytes; want at most %d: send hashes instead of contents", len(p), MaxEventBytes)}
	}
	s := scanner{p: p}
	if !s.event(e) || !s.end() {
		return s.err
	}
	if err := e.validate(); err != nil {
		err.Offset = len(p)
		return err
	}
	return nil
}

// end checks that nothing but white space follows.
// What follows is refused and not ignored: two objects on one line would otherwise count as
// one event, and the second would be lost without a word.
func (s *scanner) end() bool {
	if s.peek(); s.i < len(s.p) {
		return s.fail(CodeTrailingData, s.i, "want nothing after the object; send one object at a time")
	}
	return true
}

// event reads the object itself. Which fields must be there depends on the kind, so that is
// left to validate, which runs after all fields were read in whatever order.
func (s *scanner) event(e *Event) bool {
	o := object{known: eventFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		// A field of the table that has no case here leaves ok false with no fault told, and
		// in would panic on it: the first event with that field finds the mistake.
		ok := false
		switch o.field {
		case eventSchemaVersion:
			ok = s.version()
		case eventID:
			ok = s.id(&e.ID)
		case eventSource:
			ok = s.line(&e.Source, MaxSource)
		case eventTime:
			ok = s.time(&e.Time)
		case eventObservedTime:
			ok = s.time(&e.Observed)
		case eventSequence:
			ok = s.count(&e.Sequence, 0)
		case eventKind:
			ok = s.kind(&e.Kind)
		case eventCorrelationID:
			ok = s.id(&e.CorrelationID)
		case eventCorrelationSource:
			ok = s.oneOf((*uint8)(&e.CorrelationSource), correlationNames[:])
		case eventParentCorrelationID:
			ok = s.id(&e.ParentCorrelationID)
		case eventRootCorrelationID:
			ok = s.id(&e.RootCorrelationID)
		case eventCausationID:
			ok = s.id(&e.CausationID)
		case eventOrigin:
			ok = s.oneOf((*uint8)(&e.Origin), originNames[:])
		case eventClaimed:
			ok = s.bool(&e.Claimed)
		case eventAsk:
			ok = s.bool(&e.Ask)
		case eventTell:
			ok = s.bool(&e.Tell)
		case eventFrom:
			ok = s.party(&e.From)
		case eventTo:
			ok = s.party(&e.To)
		case eventMessageID:
			ok = s.id(&e.MessageID)
		case eventConversationID:
			ok = s.id(&e.ConversationID)
		case eventTaskID:
			ok = s.id(&e.TaskID)
		case eventTaskType:
			ok = s.line(&e.TaskType, MaxTaskType)
		case eventProjectID:
			ok = s.id(&e.ProjectID)
		case eventTeamID:
			ok = s.id(&e.TeamID)
		case eventTenantID:
			ok = s.id(&e.TenantID)
		case eventPrincipal:
			ok = s.id(&e.Principal)
		case eventMemoryTraceID:
			ok = s.id(&e.MemoryTraceID)
		case eventTraceID:
			ok = s.hex(&e.TraceID, 32)
		case eventSpanID:
			ok = s.hex(&e.SpanID, 16)
		case eventParentSpanID:
			ok = s.hex(&e.ParentSpanID, 16)
		case eventTurnID:
			ok = s.id(&e.TurnID)
		case eventLoopCount:
			ok = s.count(&e.LoopCount, 0)
		case eventDelegationDepth:
			ok = s.count(&e.DelegationDepth, 0)
		case eventTransferMode:
			ok = s.oneOf((*uint8)(&e.TransferMode), transferNames[:])
		case eventBackground:
			ok = s.bool(&e.Background)
		case eventTool:
			ok = s.tool(&e.Tool)
		case eventContentHash:
			ok = s.hash(&e.Content)
		case eventContentSim:
			ok = s.fingerprint(&e.Sim)
		case eventStatus:
			ok = s.oneOf((*uint8)(&e.Status), statusNames[:])
		case eventErrorType:
			ok = s.line(&e.ErrorType, MaxID)
		case eventDurationMS:
			ok = s.float(&e.DurationMS, MaxNumber)
		case eventHadWork:
			ok = s.tri(&e.HadWork)
		case eventWork:
			ok = s.work(&e.Work)
		case eventUsage:
			ok = s.usage(&e.Usage)
		case eventModel:
			ok = s.line(&e.Model, MaxID)
		case eventProvider:
			ok = s.line(&e.Provider, MaxProvider)
		case eventAgentState:
			e.AgentState = new(AgentState)
			ok = s.agentState(e.AgentState)
		case eventNote:
			e.Note = new(Note)
			ok = s.note(e.Note)
		case eventRescue:
			e.Rescue = new(Rescue)
			ok = s.rescue(e.Rescue)
		case eventAck:
			e.Ack = new(Ack)
			ok = s.ack(e.Ack)
		case eventReview:
			e.Review = new(Review)
			ok = s.review(e.Review)
		case eventOverride:
			e.Override = new(Override)
			ok = s.override(e.Override)
		case eventOperator:
			e.Operator = new(Operator)
			ok = s.operator(e.Operator)
		case eventLimits:
			ok = s.rawObject(&e.Limits)
		case eventSampledRate:
			ok = s.count(&e.SampledRate, 1)
		case eventTags:
			ok = s.tags(&e.Tags)
		case eventAttributes:
			ok = s.attributes(&e.Attributes)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

// version takes 1 alone. Another number means that names may mean something else, so nothing
// of the event can be trusted.
// Absent means 1, too: see AppendJSON, which never writes it.
func (s *scanner) version() bool {
	s.peek()
	start, v := s.i, int64(0)
	if !s.count(&v, 0) {
		// The fault is told already.
		return false
	}
	if v != 1 {
		return s.fail(CodeInvalidValue, start, "want 1, the only version that this reader knows")
	}
	return true
}

// party reads a party or null, which is the zero Party.
// An object with neither session nor agent is refused: taken for a human it would lift limits
// that hold for agents alone.
func (s *scanner) party(dst *Party) bool {
	// Of the known fields only parties may be null: no caller is how the schema writes a human.
	if s.peek() == 'n' {
		return s.word("null")
	}
	o := object{known: partyFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		// Session and agent may not be empty: an empty id would be compared as one, and all
		// that have none would be one party.
		case partySession:
			ok = s.id(&dst.Session)
		case partyAgent:
			ok = s.id(&dst.Agent)
		case partyName:
			ok = s.line(&dst.Name, MaxID)
		case partyType:
			ok = s.oneOf((*uint8)(&dst.Type), partyNames[:])
		case partyTags:
			ok = s.tags(&dst.Tags)
		}
		if !ok {
			return s.in(&o)
		}
	}
	if s.err == nil && dst.IsZero() {
		s.fail(CodeMissingField, s.i-1, "want session or agent; a human is null")
	}
	return s.err == nil
}

// tool reads the tool of a call or a result. The name is the only thing that rules cannot do
// without: arguments and ids may be unknown.
func (s *scanner) tool(dst *Tool) bool {
	o := object{known: toolFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case toolName:
			// A missing name leaves Name empty; require refuses it below, so nobody folds a
			// tool without one.
			ok = s.id(&dst.Name)
		case toolCallID:
			ok = s.id(&dst.CallID)
		case toolServer:
			ok = s.line(&dst.Server, MaxID)
		case toolType:
			ok = s.line(&dst.Type, MaxToolType)
		case toolArgs:
			dst.Args, ok = s.raw()
		case toolArgsHash:
			ok = s.hash(&dst.ArgsHash)
		case toolArgsBytes:
			ok = s.count(&dst.ArgsSize, 0)
		case toolArgsSim:
			ok = s.fingerprint(&dst.ArgsSim)
		case toolResultBytes:
			ok = s.count(&dst.ResultSize, 0)
		case toolRetryOf:
			ok = s.id(&dst.RetryOf)
		case toolAttempt:
			ok = s.count(&dst.Attempt, 1)
		case toolTags:
			ok = s.tags(&dst.Tags)
		case toolBeside:
			ok = s.bool(&dst.Beside)
		case toolOutcome:
			dst.Outcome = new(Outcome)
			ok = s.outcome(dst.Outcome)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.require(&o, toolName)
}

// outcome reads what a call achieved. A count of 0 is a figure here, so whether it was given is
// kept.
func (s *scanner) outcome(dst *Outcome) bool {
	o := object{known: outcomeFields}
	if !s.open(&o) {
		return false
	}
	given := func(v *Optional) bool {
		v.Set = true
		return s.count(&v.Value, 0)
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case outcomeEffect:
			ok = s.oneOf((*uint8)(&dst.Effect), effectNames[:])
		case outcomeState:
			ok = s.hash(&dst.State)
		case outcomeFiles:
			ok = s.count(&dst.Files, 0)
		case outcomeExit:
			ok = given(&dst.Exit)
		case outcomePassed:
			ok = given(&dst.Passed)
		case outcomeFailed:
			ok = given(&dst.Failed)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

// work reads what the agent did. That the object is there makes it known, also when it is
// empty: then no work was done, which is not the same as not told (decision 4).
func (s *scanner) work(dst *Work) bool {
	o := object{known: workFields}
	if !s.open(&o) {
		return false
	}
	// Set before the fields are read, as an object without fields is known as well.
	dst.Known = true
	for s.next(&o) {
		ok := false
		switch o.field {
		case workToolCalls:
			ok = s.count(&dst.ToolCalls, 0)
		case workOutputs:
			ok = s.count(&dst.Outputs, 0)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

// usage reads tokens and money. As with work, an empty object is a usage of nothing and not an
// unknown one.
func (s *scanner) usage(dst *Usage) bool {
	o := object{known: usageFields}
	if !s.open(&o) {
		return false
	}
	dst.Known = true
	for s.next(&o) {
		ok := false
		switch o.field {
		case usageScope:
			ok = s.oneOf((*uint8)(&dst.Scope), usageNames[:])
		case usageInput:
			ok = s.count(&dst.Input, 0)
		case usageOutput:
			ok = s.count(&dst.Output, 0)
		case usageCacheRead:
			ok = s.count(&dst.CacheRead, 0)
		case usageCacheCreation:
			ok = s.count(&dst.CacheCreation, 0)
		case usageCacheHour:
			ok = s.count(&dst.CacheHour, 0)
		case usageReasoning:
			ok = s.count(&dst.Reasoning, 0)
		case usageTotal:
			ok = s.count(&dst.Total, 0)
		case usageCost:
			ok = s.dollars(&dst.CostMicroUSD)
		case usageCacheInInput:
			ok = s.tri(&dst.CacheInInput)
		case usageBatch:
			ok = s.bool(&dst.Batch)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

// require refuses an object that was read to its end without one of the fields.
// The fault is told at the closing brace, where it became certain.
func (s *scanner) require(o *object, wanted ...uint8) bool {
	if s.err != nil {
		return false
	}
	for _, f := range wanted {
		if !o.has(f) {
			s.fail(CodeMissingField, s.i-1, "is missing; add it")
			s.err.Field = o.known.names[f]
			return false
		}
	}
	return true
}
