package otlp

import (
	"bytes"
	"strconv"
	"strings"

	"weir/events/adapter"
	"weir/events/adapter/anyvalue"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/tag"
)

// field is the meaning of an attribute, independent of its name in a convention.
// Values of attributes are kept by field, so a new field needs a name in aliases and code
// that reads it.
type field uint8

const (
	unknown field = iota
	// What a span is, as each convention says it. They are asked in the order of kindOf.
	operation
	spanKind // OpenInference
	operationID
	entityKind // OpenLLMetry
	genkitKind
	observationType // Langfuse
	mcpMethod
	a2aMethod
	// Whose span it is, and who called that agent.
	agentName
	agentID
	agentDescription
	calledBy
	callerType
	executorID
	metadata
	workflowName
	// Of a tool: its name, its call, and whether it passes control.
	toolName
	toolCallID
	toolType
	toolServer
	transferTarget
	transferMode
	transferTo
	// Content, which is hashed and not kept.
	toolArgs
	toolResult
	input
	output
	// What the flow may be called, see trace.flowOf.
	conversationID
	sessionID
	correlationID
	parentCorrelationID
	rootCorrelationID
	turnID
	flowTags // of the trace, whichever span says so
	spanTags // of the span, and of what it is part of
	// Tokens and money of a request, or the sums of a run.
	inputTokens
	outputTokens
	cacheReadTokens
	cacheCreationTokens
	reasoningTokens
	totalTokens
	costUSD
	serviceTier
	model
	provider
	invocationStatus // how a run of an agent ended
	// What went wrong.
	errorType
	errorMessage
	systemPrompt
	// What Langfuse, MLflow and LangChain put into objects of their own.
	usageDetails
	costDetails
	level
	lcAgent
	lcNode
	lcNamespace
	sent // what a runtime passes between agents (AutoGen)
	// fields is their number.
	fields
)

// aliases are the names that conventions and frameworks have for a field, the one
// that is preferred first. This table is what an adapter for one more framework
// needs to change.
//
// Names that are not in it are skipped without a look at their values, which is most of the
// text of a batch.
var aliases = [fields][]string{
	operation:       {"gen_ai.operation.name"},
	spanKind:        {"openinference.span.kind"},
	operationID:     {"ai.operationId"},
	entityKind:      {"traceloop.span.kind"},
	genkitKind:      {"genkit:metadata:subtype"},
	observationType: {"langfuse.observation.type"},
	mcpMethod:       {"mcp.method.name", "mcp.method"},
	a2aMethod:       {"a2a.method.name", "a2a.method"},

	agentName:        {"gen_ai.agent.name", "agent.name", "graph.node.id", "ai.telemetry.functionId", "haystack.component.name", "agent_name"},
	agentID:          {"gen_ai.agent.id"},
	agentDescription: {"gen_ai.agent.description"},
	calledBy:         {"graph.node.parent_id", "gen_ai.caller.agent.name", "gen_ai.caller.name"},
	callerType:       {"gen_ai.caller.type", "gen_ai.execution.type"},
	executorID:       {"executor.id"},
	metadata:         {"metadata"},
	workflowName:     {"gen_ai.workflow.name", "workflow.name"},

	// The name of an entity is the tool's only on spans of tools, which OpenLLMetry says by
	// entityKind.
	toolName:       {"gen_ai.tool.name", "tool.name", "ai.toolCall.name", "haystack.tool.name", "mcp.tool.name", "traceloop.entity.name"},
	toolCallID:     {"gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id", "tool_call_id"},
	toolType:       {"gen_ai.tool.type"},
	toolServer:     {"mcp.server.name", "mcp.target"},
	transferTarget: {"gen_ai.transfer.target.name"},
	transferMode:   {"gen_ai.transfer.mode"},
	transferTo:     {"gen_ai.transfer.target.type"},
	// tool.parameters is not among them: it is the schema of the arguments.
	toolArgs: {"gen_ai.tool.call.arguments", "ai.toolCall.args", "gcp.vertex.agent.tool_call_args", "mcp.tool.arguments", "tool_arguments",
		"haystack.agent.step.tool.input", "gen_ai.retrieval.query.text", "gen_ai.memory.query.text"},
	toolResult: {"gen_ai.tool.call.result", "ai.toolCall.result", "gcp.vertex.agent.tool_response", "mcp.tool.result", "tool_response",
		"haystack.agent.step.tool.output", "gen_ai.retrieval.documents"},

	// Lists of messages as well as plain texts: lastText finds out which.
	input:  {"gen_ai.input.messages", "input.value", "ai.prompt", "gen_ai.prompt", "traceloop.entity.input", "haystack.agent.input", "genkit:input", "langfuse.observation.input", "input"},
	output: {"final_result", "gen_ai.output.messages", "output.value", "ai.response.text", "ai.response.object", "gen_ai.completion", "traceloop.entity.output", "haystack.agent.output", "genkit:output", "langfuse.observation.output", "output"},

	conversationID: {"gen_ai.conversation.id", "ai.telemetry.metadata.conversationId", "gcp.vertex.agent.session_id", "a2a.context.id", "mcp.session.id"},
	sessionID:      {"session.id"},
	// Baggage comes as attributes where a processor copies it; the SDKs put none on spans by
	// themselves.
	correlationID:       {"correlation_id", "correlation.id", "correlationId", "baggage.correlation_id", "weir.correlation_id", "ai.telemetry.metadata.correlation_id"},
	parentCorrelationID: {"parent_correlation_id", "baggage.parent_correlation_id", "weir.parent_correlation_id"},
	rootCorrelationID:   {"root_correlation_id", "baggage.root_correlation_id", "weir.root_correlation_id"},
	turnID:              {"gcp.vertex.agent.invocation_id"},

	flowTags: {"langfuse.trace.tags", "ai.telemetry.metadata.tags"},
	spanTags: {"tag.tags", "langsmith.span.tags", "langfuse.observation.metadata.tags", "logfire.tags"},

	// Sums of a run are among them, and are emitted as aggregates, see span.make.
	inputTokens: {"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.inputTokens", "ai.usage.promptTokens",
		"gen_ai.aggregated_usage.input_tokens", "llm.usage.prompt_tokens", "usage.prompt_tokens"},
	outputTokens: {"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "ai.usage.outputTokens", "ai.usage.completionTokens",
		"gen_ai.aggregated_usage.output_tokens", "llm.usage.completion_tokens", "usage.completion_tokens"},
	cacheReadTokens: {"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "llm.token_count.prompt_details.cache_read",
		"ai.usage.cachedInputTokens"},
	cacheCreationTokens: {"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.cache_write_input_tokens", "llm.token_count.prompt_details.cache_write",
		"ai.usage.inputTokenDetails.cacheWriteTokens"},
	reasoningTokens: {"gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.details.reasoning_tokens", "llm.token_count.completion_details.reasoning",
		"ai.usage.reasoningTokens", "gen_ai.usage.reasoning_tokens"},
	totalTokens: {"gen_ai.usage.total_tokens", "llm.token_count.total", "ai.usage.totalTokens", "llm.usage.total_tokens", "usage.total_tokens"},
	costUSD:     {"gen_ai.usage.cost", "operation.cost", "llm.cost.total"},
	serviceTier: {"openai.response.service_tier", "gen_ai.openai.response.service_tier", "gen_ai.response.service_tier", "gen_ai.request.service_tier"},

	model:    {"gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.response.model", "ai.model.id", "langfuse.observation.model.name", "mlflow.llm.model"},
	provider: {"gen_ai.provider.name", "gen_ai.system", "llm.provider", "ai.model.provider", "llm.system", "mlflow.llm.provider"},

	invocationStatus: {"gen_ai.agent.invocation.status"},

	errorType:    {"error.type", "exception.type"},
	errorMessage: {"exception.message", "langfuse.observation.status_message"},
	systemPrompt: {"gen_ai.system_instructions", "llm.input_messages.0.message.content"},

	// Usage and cost as objects, and LangChain's attributes of its graphs.
	usageDetails: {"langfuse.observation.usage_details", "mlflow.chat.tokenUsage"},
	costDetails:  {"langfuse.observation.cost_details"},
	level:        {"langfuse.observation.level"},
	lcAgent:      {"langfuse.observation.metadata.lc_agent_name", "langsmith.metadata.lc_agent_name"},
	lcNode:       {"langfuse.observation.metadata.langgraph_node", "langsmith.metadata.langgraph_node"},
	lcNamespace:  {"langfuse.observation.metadata.langgraph_checkpoint_ns", "langsmith.metadata.langgraph_checkpoint_ns"},
	sent:         {"message"},
}

// What begins the names of attributes that are members of the metadata of a trace, and of a span.
const (
	flowLabel = "langfuse.trace.metadata."
	spanLabel = "langsmith.metadata."
)

// place is a field and how far an alias is from the preferred one.
//
// Rank 0 is the name that is preferred.
type place struct {
	field field
	rank  uint8
}

// It is made once, and only read after that.
var places = func() map[string]place {
	m := map[string]place{}
	for f, names := range aliases {
		for rank, name := range names {
			m[name] = place{field(f), uint8(rank)}
		}
	}
	return m
}()

// attributes are those of one span that are of use, as texts: what a string says,
// the digits of a number, the JSON of a list. They alias the record.
// They are those of one span.
type attributes struct {
	// text and rank are indexed by field; a rank means nothing where the text is empty.
	text [fields][]byte
	rank [fields]uint8
	// eventContent and free fill in what conventions leave out, see their settle.
	eventContent eventContent
	free         free

	flowLabels, spanLabels []string // each an attribute of its own

	empty bool // the result of a tool was written, and is empty

	lines []line // parts of messages that are attributes of their own
}

// has takes an empty text for none, as exporters write what is not known.
func (a *attributes) has(f field) bool { return len(a.text[f]) > 0 }

// read reads a list of attributes.
//
// It may be called for the span and for each of its events, with attributes of their own.
func (a *attributes) read(c *jsonwalk.Cursor) {
	for c.Array(); c.Element(); {
		var key, value []byte
		known := true
		// Names that lists of messages are spread over are too many to be fields; free names
		// are known only by their ends.
		var part line
		isPart, isFree, ofFlow, ofSpan := false, false, false, false
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			// Most exporters write the key first; the other order is read as well, for names
			// that are known.
			case "key":
				key = c.Text()
				_, known = places[string(key)]
				part, isPart = flattened(key)
				ofFlow, ofSpan = !known && bytes.HasPrefix(key, []byte(flowLabel)), !known && bytes.HasPrefix(key, []byte(spanLabel))
				isFree = !known && !isPart && !ofFlow && !ofSpan && isFreeName(key)
			case "value":
				switch {
				case (known || isPart || isFree || ofFlow || ofSpan) && key != nil:
					value = anyvalue.Text(c)
				case known: // the value came before the key
					value = anyvalue.Text(jsonwalk.New(c.Raw()))
				default:
					c.Skip()
				}
			}
		}
		// What is beyond maxLines is left out.
		if isPart && len(value) > 0 && len(a.lines) < maxLines {
			part.value = value
			a.lines = append(a.lines, part)
		}
		if isFree {
			a.free.take(key, value)
		}
		switch {
		case ofFlow:
			a.flowLabels = tag.Label(a.flowLabels, string(key[len(flowLabel):]), value)
		case ofSpan:
			a.spanLabels = tag.Label(a.spanLabels, string(key[len(spanLabel):]), value)
		}
		p, known := places[string(key)]
		a.empty = a.empty || known && len(value) == 0 && (p.field == toolResult || p.field == output)
		// The preferred name counts, whichever came first in the list.
		if known && len(value) > 0 && (!a.has(p.field) || p.rank < a.rank[p.field]) {
			a.text[p.field], a.rank[p.field] = value, p.rank
		}
	}
}

// word is a name or an id. Some write it as JSON, in quotes.
//
// At most most characters of it are kept.
func (a *attributes) word(f field, most int) string {
	return adapter.Word(unquoted(a.text[f]), most)
}

// number returns a count of tokens; a value that is no number or negative is 0.
// has reports whether a 0 is a known value.
func (a *attributes) number(f field) int64 {
	v, err := strconv.ParseInt(string(a.text[f]), 10, 64)
	if err != nil || v < 0 {
		return 0
	}
	return v
}

// upper returns the text in upper case, for kinds that conventions spell in either.
func (a *attributes) upper(f field) string { return strings.ToUpper(string(a.text[f])) }
