package otlplogs

import "weir/events/adapter"

// what is the kind of a log record.
// The reader uses only these kinds; any other record is nothing.
type what uint8

const (
	nothing what = iota
	// A prompt is the call of the agent by its user.
	userPrompt
	toolResult
	// A request and a failed request give the same event, except for the counts.
	apiRequest
	apiError
	heartbeat
)

// whats are the names of events, without the prefix of the program.
//
// Claude Code puts its own name in front, see line.read.
var whats = map[string]what{
	"user_prompt": userPrompt,
	"tool_result": toolResult,
	"api_request": apiRequest,
	"api_error":   apiError,

	// No convention names these; any program may log them.
	"agent.status":    heartbeat,
	"agent.heartbeat": heartbeat,
}

// field is the meaning of an attribute, independent of its name in a version.
// A new field needs a name in aliases and code that reads it.
type field uint8

const (
	eventName field = iota
	serviceName
	// The next four name flows, see newReader.
	sessionID
	promptID
	correlationID
	baggageID
	sequence
	agentName
	// From here on to agentVoid it is what a heartbeat says.
	agentStatus
	agentMargin
	agentHealth
	agentCoherence
	agentRisk
	agentVoid
	prompt
	toolName
	callID
	toolServer
	toolArgs
	resultSize
	succeeded
	// The next two are of uses of tools and of requests alike.
	failure
	duration
	model
	inputTokens
	outputTokens
	cacheRead
	cacheCreation
	costUSD
	fields
)

// aliases are the names that versions have for a field, the one that is preferred
// first.
//
// Names of the resource are among them, for records that do not say it themselves.
var aliases = [fields][]string{
	eventName:      {"event.name"},
	serviceName:    {"service.name"},
	sessionID:      {"session.id", "session_id"},
	promptID:       {"prompt.id", "prompt_id"},
	correlationID:  {"correlation_id", "correlation.id", "correlationId"},
	baggageID:      {"baggage.correlation_id"},
	sequence:       {"event.sequence"},
	agentName:      {"gen_ai.agent.id", "agent.id", "gen_ai.agent.name", "agent.name", "agent_name"},
	agentStatus:    {"agent.status"},
	agentMargin:    {"agent.margin"},
	agentHealth:    {"agent.health"},
	agentCoherence: {"agent.coherence"},
	agentRisk:      {"agent.risk"},
	agentVoid:      {"agent.void_active"},
	prompt:         {"prompt"},
	toolName:       {"tool_name", "tool.name"},
	callID:         {"tool_use_id"},
	toolServer:     {"mcp_server_name"},
	toolArgs:       {"tool_input", "tool_parameters"},
	resultSize:     {"tool_result_size_bytes"},
	succeeded:      {"success", "tool.success"},
	failure:        {"error", "error.message"},
	duration:       {"duration_ms"},
	model:          {"model"},
	inputTokens:    {"input_tokens"},
	outputTokens:   {"output_tokens"},
	cacheRead:      {"cache_read_tokens"},
	cacheCreation:  {"cache_creation_tokens"},
	costUSD:        {"cost_usd"},
}

// places is by the name of the attribute.
var places = adapter.Aliases[field](aliases[:])
