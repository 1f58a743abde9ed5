package agentgateway

import "weir/events/adapter"

// field is what a key of the log is about, whatever a version or a setting calls it.
type field uint8

const (
	httpStatus field = iota
	httpPath
	protocol
	route
	endpoint
	source
	principal
	correlationID
	baggage
	turnID
	traceID
	spanID
	contextID
	sessionID
	mcpMethod
	target
	toolName
	toolArgs
	toolResult
	a2aMethod
	agentName
	model
	provider
	inputTokens
	outputTokens
	cacheRead
	cacheCreation
	reasoning
	totalTokens
	took
	failure
	fields
)

// aliases are the names that versions have for a field, and those under which the log
// may be set to add it, the one that is preferred first.
//
// Versions renamed keys towards the GenAI conventions; both are read.
var aliases = [fields][]string{
	httpStatus:    {"http.status", "http.response.status_code"},
	httpPath:      {"http.path", "url.path"},
	protocol:      {"protocol"},
	route:         {"route"},
	endpoint:      {"endpoint"},
	source:        {"src.addr", "client.address"},
	principal:     {"jwt.sub", "gen_ai.caller.agent.name", "mcp.client.name", "user"},
	correlationID: {"correlation_id", "correlation.id", "x-correlation-id"},
	baggage:       {"baggage"},
	turnID:        {"turn_id", "x-goal-turn"},
	traceID:       {"trace.id", "trace_id"},
	spanID:        {"span.id", "span_id"},
	contextID:     {"a2a.context.id", "gen_ai.conversation.id"},
	sessionID:     {"mcp.session.id"},
	mcpMethod:     {"mcp.method.name", "mcp.method"},
	target:        {"mcp.target", "mcp.server.name"},
	toolName:      {"gen_ai.tool.name", "mcp.tool.name"},
	toolArgs:      {"mcp.tool.arguments", "gen_ai.tool.call.arguments"},
	toolResult:    {"mcp.tool.result", "gen_ai.tool.call.result"},
	a2aMethod:     {"a2a.method", "a2a.method.name"},
	agentName:     {"gen_ai.agent.name", "a2a.agent.name"},
	model:         {"gen_ai.response.model", "gen_ai.request.model"},
	provider:      {"gen_ai.provider.name", "gen_ai.system"},
	inputTokens:   {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"},
	outputTokens:  {"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"},
	cacheRead:     {"gen_ai.usage.cache_read.input_tokens"},
	cacheCreation: {"gen_ai.usage.cache_creation.input_tokens"},
	reasoning:     {"gen_ai.usage.reasoning.output_tokens"},
	totalTokens:   {"gen_ai.usage.total_tokens"},
	took:          {"duration"},
	failure:       {"mcp.tool.error", "mcp.error.message", "error"},
}

// places is by the key of the log.
var places = adapter.Aliases[field](aliases[:])
