package mapped

import "strings"

// field is a field of an event that a mapping can fill.
type field uint8

const (
	id field = iota
	at
	kind
	source
	sequence
	// From here to traceID, and the three after spanID, are names of flows.
	correlationID
	parentID
	rootID
	baggage
	promptID
	traceID
	spanID
	conversationID
	sessionID
	taskID
	turnID
	messageID
	projectID
	teamID
	tenantID
	tags
	// Agents and their sessions; an agent may be known by either.
	from
	fromSession
	to
	toSession
	origin
	// The next six are of uses of tools.
	tool
	callID
	server
	args
	argsHash
	retryOf
	content
	status
	failure
	duration
	hadWork
	loopCount
	delegationDepth
	// Those from here to costUSD stand together: the mapping asks by their range whether the
	// log counts anything.
	inputTokens
	outputTokens
	cacheRead
	cacheCreation
	reasoning
	totalTokens
	costUSD
	scope
	model
	provider
	// fields is how many there are, and the length of all tables by field.
	fields
)

// names are the fields as a mapping spells them.
var names = [fields]string{
	id: "id", at: "time", kind: "kind", source: "source", sequence: "sequence",
	correlationID: "correlation_id", parentID: "parent_correlation_id", rootID: "root_correlation_id", baggage: "baggage", promptID: "prompt_id", traceID: "trace_id", spanID: "span_id",
	conversationID: "conversation_id", sessionID: "session_id", taskID: "task_id", turnID: "turn_id", messageID: "message_id",
	projectID: "project_id", teamID: "team_id", tenantID: "tenant_id", tags: "tags",
	from: "from", fromSession: "from_session", to: "to", toSession: "to_session", origin: "origin",
	tool: "tool", callID: "call_id", server: "server", args: "args", argsHash: "args_hash", retryOf: "retry_of",
	content: "content", status: "status", failure: "error", duration: "duration_ms", hadWork: "had_work",
	loopCount: "loop_count", delegationDepth: "delegation_depth",
	inputTokens: "input_tokens", outputTokens: "output_tokens", cacheRead: "cache_read_input_tokens", cacheCreation: "cache_creation_input_tokens",
	reasoning: "reasoning_output_tokens", totalTokens: "total_tokens", costUSD: "cost_usd", scope: "usage_scope", model: "model", provider: "provider",
}

// others are further spellings.
// They are words that people try first; what Fields lists and errors say is in names.
var others = map[string]field{"result": content, "message": content, "answer": content, "correlation": correlationID, "flow": correlationID, "ts": at,
	"timestamp": at, "conversation": conversationID, "session": sessionID, "task": taskID, "turn": turnID, "trace": traceID, "labels": tags}

// fieldNamed finds a field by any of its spellings. Fields are found in any case, their texts
// (FIELD.TEXT) are not.
func fieldNamed(name string) (field, bool) {
	name = strings.ToLower(name)
	for f, n := range names {
		if n == name {
			return field(f), true
		}
	}
	f, ok := others[name]
	return f, ok
}

// Fields lists the fields that a mapping can fill, as it spells them.
//
// The list is the caller's own.
func Fields() []string { return append([]string(nil), names[:]...) }
