package events

import (
	"encoding/binary"
	"unsafe"
)

// fields are the names that one kind of object knows. A field is told by its place
// in the list of names; 0 stands for all names that are not in it.
//
// Tables are made once, when the program starts, and only read then. A name is looked for
// three times at most: as quickName reads it, by find, and folded when it is not known.
type fields struct {
	names  []string
	exact  index // of the names and their aliases
	folded index // of the names without case and underscores, to find misspellings
}

// alias is another name of a field that is as good as the first.
type alias struct {
	name  string
	field uint8
}

// names[0] stands for every name that is not known and is skipped. Aliases are found exactly
// and not folded: their misspellings fold to those of the name itself.
func newFields(names []string, aliases ...alias) *fields {
	f := &fields{names: names}
	for i, name := range names[1:] {
		f.exact.add(name, uint8(i+1))
		var buf [maxFolded]byte
		f.folded.add(string(fold(&buf, name)), uint8(i+1))
	}
	for _, a := range aliases {
		f.exact.add(a.name, a.field)
	}
	return f
}

// misspelled returns the name that was probably meant by one that is not known.
//
// It finds names that fold to the same letters; a slip of a letter is told by Misnamed, which
// costs more.
func (f *fields) misspelled(name string) (string, bool) {
	var buf [maxFolded]byte
	if i := f.folded.find(string(fold(&buf, name))); i > 0 {
		return f.names[i], true
	}
	return "", false
}

// maxFolded is one more than the longest known name has letters.
//
// So a longer name, cut to it by fold, can never be taken for a known one.
const maxFolded = 32

// fold drops the case of ASCII letters, the underscores and what is beyond maxFolded bytes.
func fold(buf *[maxFolded]byte, name string) []byte {
	out := buf[:0]
	for i := 0; i < len(name) && len(out) < maxFolded; i++ {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != '_' {
			out = append(out, c)
		}
	}
	return out
}

// index is a hash table from a few names to small numbers. It is a quarter full at
// most, so that nearly every name is found, or not found, at the first look.
//
// It lies in one piece of memory and has no pointers to follow but those of names, and it is
// searched for every name of every event.
type index [256]entry

// entry is one name in its slot. All that collide form a chain by next.
type entry struct {
	head  uint64 // of name
	name  string
	field uint8 // 0: empty
	next  uint8 // where to look when this is another name
}

// add puts a name into its slot or the next free one. next is only followed while a slot is
// taken, so all that collide form a chain that the first free slot ends; the number of the
// next slot wraps at 256.
func (x *index) add(name string, field uint8) {
	h := slot(head(name), len(name))
	for x[h].field != 0 {
		h++
	}
	x[h] = entry{head(name), name, field, h + 1}
}

// find returns the number of name, or 0.
//
// It is for names that quickName did not read: with escapes, or white space around.
func (x *index) find(name string) uint8 {
	first := head(name)
	for e := &x[slot(first, len(name))]; e.field != 0; e = &x[e.next] {
		if e.head == first && e.name == name {
			return e.field
		}
	}
	return 0
}

// head is the first eight bytes of name as one number, the first byte lowest.
//
// The rest is filled with zeros, as quickName clears what lies behind the quote: both have to
// give the same number for the same name.
func head(name string) (w uint64) {
	if len(name) >= 8 {
		return binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(name), 8))
	}
	for i := len(name) - 1; i >= 0; i-- {
		w = w<<8 | uint64(name[i])
	}
	return w
}

// slot mixes the head and the length, which tell nearly all names apart.
//
// The product's highest eight bits depend on all of them, which is why it is shifted and not
// masked.
func slot(head uint64, length int) uint8 {
	const golden = 0x9e3779b97f4a7c15
	return uint8((head + uint64(length)) * golden >> 56)
}

// Fields of an event, in the order of the schema.
//
// They count from 1, because 0 is the unknown name. A new one comes with a line in the list of
// names below, in scanner.event, in AppendJSON and in the schema.
const (
	eventSchemaVersion = iota + 1
	eventID
	eventSource
	eventTime
	eventObservedTime
	eventSequence
	eventKind
	eventCorrelationID
	eventCorrelationSource
	eventParentCorrelationID
	eventRootCorrelationID
	eventCausationID
	eventOrigin
	eventClaimed
	eventAsk
	eventTell
	eventFrom
	eventTo
	eventMessageID
	eventConversationID
	eventTaskID
	eventTaskType
	eventProjectID
	eventTeamID
	eventTenantID
	eventPrincipal
	eventMemoryTraceID
	eventTraceID
	eventSpanID
	eventParentSpanID
	eventTurnID
	eventLoopCount
	eventDelegationDepth
	eventTransferMode
	eventTool
	eventContentHash
	eventContentSim
	eventStatus
	eventErrorType
	eventDurationMS
	eventHadWork
	eventWork
	eventUsage
	eventModel
	eventProvider
	eventAgentState
	eventNote
	eventRescue
	eventAck
	eventReview
	eventOverride
	eventOperator
	eventLimits
	eventSampledRate
	eventTags
	eventAttributes
	eventBackground
)

// The aliases are how CloudEvents and one widespread dispatcher spell the field.
// Without case and underscores the names of a CloudEvents attribute are the same as ours, so
// they would be refused as misspellings if they were not aliases.
var eventFields = newFields([]string{
	eventSchemaVersion:       "schema_version",
	eventID:                  "id",
	eventSource:              "source",
	eventTime:                "time",
	eventObservedTime:        "observed_time",
	eventSequence:            "sequence",
	eventKind:                "kind",
	eventCorrelationID:       "correlation_id",
	eventCorrelationSource:   "correlation_source",
	eventParentCorrelationID: "parent_correlation_id",
	eventRootCorrelationID:   "root_correlation_id",
	eventCausationID:         "causation_id",
	eventOrigin:              "origin",
	eventClaimed:             "claimed",
	eventAsk:                 "ask",
	eventTell:                "tell",
	eventFrom:                "from",
	eventTo:                  "to",
	eventMessageID:           "message_id",
	eventConversationID:      "conversation_id",
	eventTaskID:              "task_id",
	eventTaskType:            "task_type",
	eventProjectID:           "project_id",
	eventTeamID:              "team_id",
	eventTenantID:            "tenant_id",
	eventPrincipal:           "principal",
	eventMemoryTraceID:       "memory_trace_id",
	eventTraceID:             "trace_id",
	eventSpanID:              "span_id",
	eventParentSpanID:        "parent_span_id",
	eventTurnID:              "turn_id",
	eventLoopCount:           "loop_count",
	eventDelegationDepth:     "delegation_depth",
	eventTransferMode:        "transfer_mode",
	eventTool:                "tool",
	eventContentHash:         "content_hash",
	eventContentSim:          "content_sim",
	eventStatus:              "status",
	eventErrorType:           "error_type",
	eventDurationMS:          "duration_ms",
	eventHadWork:             "had_work",
	eventWork:                "work",
	eventUsage:               "usage",
	eventModel:               "model",
	eventProvider:            "provider",
	eventAgentState:          "agent_state",
	eventNote:                "note",
	eventRescue:              "rescue",
	eventAck:                 "ack",
	eventReview:              "review",
	eventOverride:            "override",
	eventOperator:            "operator",
	eventLimits:              "limits",
	eventSampledRate:         "sampled_rate",
	eventTags:                "tags",
	eventAttributes:          "attributes",
	eventBackground:          "background",
}, alias{"correlationId", eventCorrelationID}, alias{"correlationid", eventCorrelationID})

// Fields of a party. As in all the lists below, a place is a bit of object.seen.
const (
	partySession = iota + 1
	partyAgent
	partyName
	partyType
	partyTags
)

var partyFields = newFields([]string{partySession: "session", partyAgent: "agent", partyName: "name", partyType: "type", partyTags: "tags"})

// Fields of a tool; sizes are called args_bytes and result_bytes on the wire.
const (
	toolName = iota + 1
	toolCallID
	toolServer
	toolType
	toolArgs
	toolArgsHash
	toolArgsBytes
	toolArgsSim
	toolResultBytes
	toolRetryOf
	toolAttempt
	toolTags
	toolBeside
	toolOutcome
)

var toolFields = newFields([]string{toolName: "name", toolCallID: "call_id", toolServer: "server", toolType: "type",
	toolArgs: "args", toolArgsHash: "args_hash", toolArgsBytes: "args_bytes",
	toolArgsSim: "args_sim", toolResultBytes: "result_bytes", toolRetryOf: "retry_of", toolAttempt: "attempt", toolTags: "tags",
	toolBeside: "beside", toolOutcome: "outcome"})

// Fields of an outcome.
const (
	outcomeEffect = iota + 1
	outcomeState
	outcomeFiles
	outcomeExit
	outcomePassed
	outcomeFailed
)

var outcomeFields = newFields([]string{outcomeEffect: "effect", outcomeState: "state_hash", outcomeFiles: "files", outcomeExit: "exit_code",
	outcomePassed: "tests_passed", outcomeFailed: "tests_failed"})

// Fields of work, which are counts.
const (
	workToolCalls = iota + 1
	workOutputs
)

var workFields = newFields([]string{workToolCalls: "tool_calls", workOutputs: "outputs"})

// Fields of usage, by the names of the GenAI conventions where they have one.
const (
	usageScope = iota + 1
	usageInput
	usageOutput
	usageCacheRead
	usageCacheCreation
	usageReasoning
	usageTotal
	usageCost
	usageCacheInInput
	usageBatch
	usageCacheHour
)

var usageFields = newFields([]string{usageScope: "scope", usageInput: "input_tokens", usageOutput: "output_tokens",
	usageCacheRead: "cache_read_input_tokens", usageCacheCreation: "cache_creation_input_tokens",
	usageReasoning: "reasoning_output_tokens", usageTotal: "total_tokens", usageCost: "cost_usd",
	usageCacheInInput: "cache_in_input", usageBatch: "batch", usageCacheHour: "cache_creation_1h_input_tokens"})

// Fields of an agent's state, as it reports it.
const (
	stateStatus = iota + 1
	stateMargin
	stateHealth
	stateCoherence
	stateRisk
	stateVoidActive
	stateTotalUpdates
	stateLastUpdate
)

var stateFields = newFields([]string{stateStatus: "status", stateMargin: "margin", stateHealth: "health",
	stateCoherence: "coherence", stateRisk: "risk", stateVoidActive: "void_active", stateTotalUpdates: "total_updates",
	stateLastUpdate: "last_update"})

// Fields of a note.
const (
	noteSummary = iota + 1
	noteTags
	noteDetails
)

var noteFields = newFields([]string{noteSummary: "summary", noteTags: "tags", noteDetails: "details"})

// Fields of a cry for help.
const (
	rescueReason = iota + 1
	rescueAdmin
)

var rescueFields = newFields([]string{rescueReason: "reason", rescueAdmin: "admin"})

// Fields of an answer to a verdict.
const (
	ackVerdictID = iota + 1
	ackApplied
	ackOverrideReason
	ackLatencyMS
)

var ackFields = newFields([]string{ackVerdictID: "verdict_id", ackApplied: "applied",
	ackOverrideReason: "override_reason", ackLatencyMS: "latency_ms"})

// Fields of a review; who is reviewed is the event's to.
const (
	reviewDecision = iota + 1
	reviewReason
)

var reviewFields = newFields([]string{reviewDecision: "decision", reviewReason: "reason"})

// Fields of an override. Extra came behind the others, whose places no file or state holds.
const (
	overrideScope = iota + 1
	overrideScopeID
	overrideRule
	overrideWarn
	overrideStop
	overrideMode
	overrideReason
	overrideBy
	overrideExpires
	overrideExtra
)

var overrideFields = newFields([]string{overrideScope: "scope", overrideScopeID: "scope_id", overrideRule: "rule",
	overrideWarn: "warn", overrideStop: "stop", overrideMode: "mode", overrideReason: "reason", overrideBy: "by",
	overrideExpires: "expires", overrideExtra: "extra"})

// Fields of an order of a person's. The time is in whole seconds on the wire, hence its name.
const (
	operatorReason = iota + 1
	operatorBy
	operatorFor
)

var operatorFields = newFields([]string{operatorReason: "reason", operatorBy: "by", operatorFor: "for_s"})

// anyFields knows no name: all fields of its objects are read over.
//
// With it the scanner reads objects of which it wants no field, or all of them.
var anyFields = newFields([]string{""})
