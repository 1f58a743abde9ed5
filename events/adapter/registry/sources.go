package registry

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"weir/events/adapter"
	"weir/events/adapter/mapped"
	"weir/events/adapter/otlp"
)

// Sources returns what is known of the programs and libraries whose logs weir reads, in
// the order in which they are shown.
// A format says what it gives in general; a source says it where the program gives less or
// more, and what it leaves out is the format's.
//
// The rows are texts for people, of which code reads Name, Known, Format and Gives.
func Sources() []adapter.Source {
	// The slice is made anew each time, so that the caller may change it.
	out := sources()
	for i := range out {
		s := &out[i]
		f, err := Lookup(s.Format)
		if err != nil { // the table is wrong, which its test says
			continue
		}
		if s.Gives == (adapter.Gives{}) {
			s.Gives = f.Gives
		}
		if s.Title == "" {
			s.Title = f.Title
		}
	}
	return out
}

// Source returns the source of that name or alias, or the first of the format of that name.
// For a mapping it returns what the mapping can report. The error wraps ErrUnknown.
func Source(name string) (adapter.Source, error) {
	// Three passes: names as they stand, then as people write them, then formats.
	all := Sources()
	for i := range all {
		if all[i].Name == name {
			return all[i], nil
		}
	}
	// Names as they stand go first, so that no nickname hides the name of another program.
	for i := range all {
		if alike(all[i].Name, name) || slices.ContainsFunc(all[i].Known, func(known string) bool { return alike(known, name) }) {
			return all[i], nil
		}
	}
	f, err := Lookup(name)
	if err != nil {
		return adapter.Source{}, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	for i := range all {
		if all[i].Format == f.Name {
			return all[i], nil
		}
	}
	// It has to stay the last row of the table.
	s := all[len(all)-1] // that of mappings
	s.Name, s.Format, s.Gives = name, name, f.Gives
	return s, nil
}

// alike compares names of programs as people write them: "Llama Index", "llama_index".
//
// So it is no matter of case, blanks, dashes, underscores and dots.
func alike(a, b string) bool {
	// -1 leaves a character out.
	plain := func(r rune) rune {
		if strings.ContainsRune(" -_.", r) {
			return -1
		}
		return unicode.ToLower(r)
	}
	return strings.Map(plain, a) == strings.Map(plain, b)
}

// spans is what OTLP spans give if a library reports everything.
// Time, caller and work are always reported: spans have times, are nested, and tools have
// spans of their own.
func spans(args, results, turn, tokens adapter.Level) adapter.Gives {
	return adapter.Gives{Tools: adapter.Always, Args: args, Results: results, Caller: adapter.Always, Turn: turn, Tokens: tokens,
		Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always}
}

// mapping is an example of one.
//
// The row of mappings has to name a format that Lookup finds.
const mapping = mapped.Prefix + "correlation_id=.flow,time=.ts,kind=.type,kind.ask=agent.call,kind.tool=tool.call,kind.done=tool.result," +
	"from=.sender.id,to=.target,tool=.tool.name,args=.tool.args,result=.out"

// sources is the table. Sample is a recorded log below events/adapter/testdata; a test holds
// SOURCES.md to the same rows.
//
// Where several rows have one format, its name stands for the first of them, see Source.
func sources() []adapter.Source {
	// Short names keep the rows readable.
	const never, sometimes, always = adapter.Never, adapter.Sometimes, adapter.Always
	return []adapter.Source{
		// Events of weir's own go first: nothing has to be read into them.
		{Name: "canonical", Format: "canonical", Sample: "golden/canonical/basic.in",
			Set:   "Have the program write events of weir's own, as schemas/event.v1.json defines them, one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "correlation_id, as the program sets it",
			Sees:  "All that the program writes down.",
			Blind: "What it leaves out: no had_work and no tools means that work is unknown, and unknown is never taken for none."},
		{Name: "cloudevents", Format: "cloudevents", Sample: "golden/cloudevents/structured.in",
			Set:   "Wrap events of weir's own into CloudEvents 1.0, structured mode, type weir.KIND.v1; the extension correlationid is the flow.",
			Run:   "weir replay cloudevents.jsonl",
			Flow:  "correlationid, or correlation_id in the data",
			Sees:  "As weir's own format; attributes fill in what the data does not say.",
			Blind: "CloudEvents of other types."},
		// From here to voltagent are spans, and between them the exports of those who collect spans.
		// The general row stands before the libraries of which something is particular.
		{Name: "otel-genai", Format: "otlp", Sample: "real/google_adk/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, sometimes, sometimes),
			Known: []string{"opentelemetry", "otel", "genkit"},
			Title: "any program with OpenTelemetry spans by the GenAI conventions, old and new names",
			Set: "Point the OTLP exporter at a file (the Collector's fileexporter, JSON or protobuf, compressed or not, or the JSON file exporter of an SDK) or at weir; record content " +
				"(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true) if arguments shall be compared.",
			Run:   "weir replay spans.jsonl",
			Flow:  "baggage correlation_id where a baggage span processor puts it on spans, else the trace",
			Sees:  "Agents, who called whom, tools, tokens and errors, when a span has ended; children that come before their parents are held back.",
			Blind: "What has not ended. Without content only names and counts of calls are left, so nothing about repetition is said."},
		{Name: "openinference", Format: "otlp", Sample: "real/openinference_openai_agents/handoff_pingpong.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Known: []string{"langchain-openinference", "beeai", "beeai-framework", "arize"},
			Title: "OpenInference instrumentations (openai-agents, LangChain and LangGraph, and others)",
			Set:   "Instrument the library (OpenAIAgentsInstrumentor().instrument(), LangChainInstrumentor().instrument(), ...) and export OTLP JSON; using_session(ID) names conversations, using_tags([\"nightly\"]) and using_metadata tag the flow for exempt in a limits file.",
			Run:   "weir replay spans.jsonl",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "Agents, handoffs, tools with arguments and results, tokens of the innermost spans.",
			Blind: "What has not ended; for agents inside LangGraph, those without a name of their own."},
		{Name: "strands", Format: "otlp", Sample: "frameworks/strands/swarm_pingpong.default.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Known: []string{"strands-agents", "aws-strands", "strands-js"},
			Title: "Strands Agents",
			Set: "pip install 'strands-agents[otel]'; StrandsTelemetry().setup_otlp_exporter() and OTEL_EXPORTER_OTLP_ENDPOINT. " +
				"Content is recorded by default, as events of the spans.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, swarms and graphs, handoffs, agents that are tools, tools with arguments and results, tokens; by the default telemetry as by gen_ai_latest_experimental.",
			Blind: "What has not ended: the span of a swarm or graph ends last."},
		{Name: "ag2", Format: "otlp", Sample: "frameworks/ag2/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Known: []string{"autogen2"},
			Title: "AG2 with its telemetry middleware",
			Set:   "Agent(..., middleware=[TelemetryMiddleware(tracer_provider=P, agent_name=NAME)]) and an OTLP exporter; content is recorded by default, without agent_name all agents are called unknown.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, tools with arguments and results, tokens.",
			Blind: "What has not ended."},
		{Name: "agno", Format: "otlp", Sample: "frameworks/agno/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Title: "Agno with OpenInference",
			Set:   "AgnoInstrumentor().instrument() and an OTLP exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "Agents, tools with arguments and results, tokens.",
			Blind: "What has not ended."},
		{Name: "model-client", Format: "otlp", Sample: "frameworks/camel/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Title: "programs whose client of a model is instrumented and nothing else (CAMEL, Langroid, Griptape, programs without a framework)",
			Known: []string{"camel", "camel-ai", "langroid", "griptape", "openai", "openai-python", "openlit"},
			Set: "OpenAIInstrumentor().instrument() of opentelemetry-instrumentation-openai (OpenLLMetry) or openinference-instrumentation-openai, or openlit.init(), and an OTLP exporter; " +
				"with content: TRACELOOP_TRACE_CONTENT=false, OPENINFERENCE_HIDE_INPUTS and the like hide the calls.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace; requests of which one brings the result of a call that another one asked for are one flow",
			Sees:  "Tokens, and the calls of tools that the model asks for, with arguments and results, when the next request brings what they brought.",
			Blind: "Agents: all are the program. A call before its result is there. Without content tokens only."},
		{Name: "adk-otel", Format: "otlp", Sample: "frameworks/google_adk/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, sometimes, sometimes),
			Known: []string{"google-adk-otel", "adk-js"},
			Title: "OpenTelemetry spans of Google ADK",
			Set:   "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY (from 2.x on; true records none in spans) and an OTLP exporter; ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true before.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, transfers, tools with arguments and results, tokens where the model tells them.",
			Blind: "What has not ended. Without content no two calls can be compared."},
		{Name: "haystack", Format: "otlp", Sample: "frameworks/haystack/agents_as_tools.native_content.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, never),
			Known: []string{"haystack-ai"},
			Title: "Haystack with opentelemetry-haystack",
			Set:   "tracing.enable_tracing(OpenTelemetryTracer(tracer)) and HAYSTACK_CONTENT_TRACING_ENABLED=true; without the latter there are no arguments and no results.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, called as their component or the tool that runs them, tools with arguments and results.",
			Blind: "Tokens. With OpenInference instead there are runs of agents only, and no tools."},
		{Name: "langfuse", Format: "otlp", Sample: "frameworks/langfuse/tool_loop.langchain.otlp.jsonl.gz", Gives: spans(always, always, never, sometimes),
			Known: []string{"langfuse-sdk"},
			Title: "Langfuse SDKs: decorators, and the handler of LangChain and LangGraph",
			Set:   "Langfuse(tracer_provider=P) with P sending to weir, too (a processor with an OTLP exporter): what is observed goes to both. Tools need as_type=\"tool\", agents as_type=\"agent\". propagate_attributes(tags=[\"nightly\"], metadata=...) tags the flow for exempt in a limits file, tags of a LangChain tool the tool.",
			Run:   "weir replay spans.jsonl",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "Agents, tools with arguments and results, tokens and cost of generations.",
			Blind: "What has not ended. Functions that are observed without a type are neither tools nor agents."},
		{Name: "langfuse-export", Format: "langfuse", Sample: "exports/langfuse/loop.json.gz",
			Set:   "Export observations (the table of traces, GET /api/public/observations or /v2/observations, GET /api/public/traces/ID, the page of a trace, or the export to blob storage; JSON, JSONL or CSV) with their input and output.",
			Run:   "weir replay observations.json",
			Flow:  "the session where the export names it, else the trace",
			Sees:  "What the spans told that the observations were made of.",
			Blind: "What was exported without input and output has no arguments and no results."},
		{Name: "phoenix", Format: "phoenix", Sample: "exports/phoenix/loop.json.gz",
			Known: []string{"arize-phoenix"},
			Set:   "Save GET /v1/projects/PROJECT/spans, or get_spans_dataframe().to_json(PATH, orient=\"records\", lines=True). Live, send the OpenInference spans to weir, too.",
			Run:   "weir replay spans.json",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "What the OpenInference spans told: agents, tools with arguments and results, tokens.",
			Blind: "What has not ended. Pages are read in the order in which they are given: those of one trace belong into one file."},
		{Name: "span-exports", Format: "spanjson", Sample: "exports/spans/loop.console.json.gz",
			Known: []string{"jaeger", "zipkin", "stdouttrace", "console-exporter", "mlflow-trace"},
			Set:   "Download traces as JSON from Jaeger (its page, GET /api/traces, or its indexes in Elasticsearch) or Zipkin, keep what a console exporter prints (Python, Go), or save trace.to_json() of MLflow.",
			Run:   "weir replay trace.json",
			Flow:  "as with OpenTelemetry spans: a correlation id in baggage, the session where one is named, else the trace",
			Sees:  "What the spans tell by their attributes.",
			Blind: "Events of spans, so contents that only stand in them."},
		{Name: "litellm", Format: "litellm", Sample: "exports/litellm/loop.jsonl.gz",
			Known: []string{"litellm-proxy"},
			Set: "A callback that writes kwargs[\"standard_logging_object\"], one per line, or the proxy's log to a bucket; rows of spend logs with store_prompts_in_spend_logs: true. " +
				"One trace_id or session_id for a run (litellm_trace_id, or x-litellm-trace-id at the proxy).",
			Run:   "weir replay litellm.jsonl",
			Flow:  "trace_id, else session_id, else each request is a flow of its own, marked as derived",
			Sees:  "Requests with tokens and cost, the calls of tools that models ask for with their arguments, and what these brought, one request later; calls of tools that the proxy's MCP gateway makes.",
			Blind: "Agents: a client is one party, called by agent_id, its end user or its key. Without messages neither calls nor results."},
		{Name: "agento11y", Format: "otlp", Sample: "frameworks/agento11y/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Known: []string{"sigil", "grafana-agento11y"},
			Title: "Grafana's agento11y (formerly sigil) with its handlers",
			Set:   "A tracer provider with an OTLP exporter, and a handler (with_agento11y_langgraph_callbacks(...)); content_capture decides about arguments and results.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace; where no span lies around the run, each call is a trace of its own, and the conversation is the flow: name it (thread_id in LangGraph)",
			Sees:  "Tools with arguments and results as far as the handler gets them, tokens.",
			Blind: "Without a span around the run and without a name for the conversation each call stands alone. The handler of OpenAI Agents gets no arguments."},
		{Name: "mcp-sdk", Format: "otlp", Sample: "frameworks/mcp_sdk/tool_loop.otlp.jsonl.gz", Gives: spans(never, never, never, never),
			Known: []string{"mcp-python", "fastmcp"},
			Title: "OpenTelemetry spans of the MCP SDK for Python, by the conventions for MCP, old and new names",
			Set:   "A tracer provider with an OTLP exporter, in the client, the server or both; nothing else.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace, which has to begin around the run: without one each call is a flow",
			Sees:  "Calls of tools, their errors and how long they took; once, where client and server both tell of it.",
			Blind: "Arguments and results, which the SDK never records: a guard or hook sees them."},
		{Name: "traceloop", Format: "otlp", Sample: "frameworks/traceloop_langgraph/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Known: []string{"openllmetry", "langchain", "langgraph", "langchain-js", "langgraph-js"},
			Title: "OpenLLMetry (Traceloop) instrumentations, here of LangChain and LangGraph",
			Set: "LangchainInstrumentor().instrument() of opentelemetry-instrumentation-langchain, or manuallyInstrument({callbackManagerModule}) of @traceloop/instrumentation-langchain, " +
				"and an OTLP exporter; TRACELOOP_TRACE_CONTENT=false takes arguments and results away.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace; in JavaScript each span is one unless a span of the program lies around the run, and then the ids of calls tell which belong together",
			Sees:  "Agents, tools with arguments and results, tokens. " + otlp.Notes,
			Blind: "What has not ended."},
		{Name: "semantic-kernel", Format: "otlp", Sample: "frameworks/semantic_kernel/tool_loop.content.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Title: "Semantic Kernel",
			Set: "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true and an OTLP exporter; ..._OTEL_DIAGNOSTICS=true alone records no " +
				"arguments, results and messages.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace, or all traces of one conversation: its runtime starts one for each message and links them",
			Sees:  "Agents, tools with arguments and results, tokens; with messages recorded, which agent of a chat answers which.",
			Blind: "What has not ended. Without messages nobody knows who speaks to whom in a chat, so its turns are the program's calls and no loop of talk is seen."},
		{Name: "smolagents", Format: "otlp", Sample: "real/smolagents/managed_agent_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Title: "smolagents with OpenInference",
			Set:   "SmolagentsInstrumentor().instrument() and an OTLP JSON exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "Managed agents as calls and answers, tools, tokens (the sums on agents' spans are not added again).",
			Blind: "What has not ended: a manager's span ends last, and until then the program stands in for the manager."},
		{Name: "llamaindex", Format: "otlp", Sample: "real/llama_index/handoff_pingpong.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Known: []string{"llama-index"},
			Title: "LlamaIndex workflows with OpenInference",
			Set:   "LlamaIndexInstrumentor().instrument() and an OTLP JSON exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Handoffs, tools without the changing context among their arguments, tokens of the inner request.",
			Blind: "Names of agents stand in texts only: the first turn of one may be told under the name of the workflow."},
		{Name: "agentframework", Format: "otlp", Sample: "real/agent_framework/handoff_pingpong.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Known: []string{"microsoft-agent-framework", "agent-framework"},
			Title: "Microsoft Agent Framework",
			Set:   "setup_observability(enable_sensitive_data=True) with an OTLP exporter; without sensitive data there are no arguments and results.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace (workflow.build is one of its own, in which nothing happens)",
			Sees:  "Hops along delivered messages, group chats through their orchestrator, tools, tokens.",
			Blind: "Broadcasts and dropped messages are no hops; a handoff leaves no call of a tool."},
		{Name: "pydanticai", Format: "otlp", Sample: "real/pydantic_ai/delegation_pingpong.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Known: []string{"pydantic-ai", "logfire"},
			Title: "Pydantic AI",
			Set:   "Agent.instrument_all() and an OTLP JSON exporter; content is recorded by default.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace; gen_ai.conversation.id is new for every run of an agent and does not join them",
			Sees:  "Agents that are tools of each other, tools with arguments and results, tokens.",
			Blind: "What has not ended."},
		{Name: "vercel-ai-sdk", Format: "otlp", Sample: "frameworks/ai_sdk/tool_loop.otlp.jsonl.gz", Gives: spans(sometimes, sometimes, never, always),
			Known: []string{"vercel", "ai", "ai-sdk"},
			Title: "Vercel AI SDK (npm ai)",
			Set: "From version 7 on registerTelemetry(new OpenTelemetry()) of @ai-sdk/otel; before, experimental_telemetry: {isEnabled: true, functionId: AGENT, metadata: " +
				"{correlation_id: FLOW}} on each call; and an OTLP exporter. Content is recorded by default; recordInputs: false and recordOutputs: false hide it.",
			Run:   "weir replay spans.jsonl",
			Flow:  "metadata correlation_id, else the trace",
			Sees:  "Agents by functionId, tools with arguments and results, tokens.",
			Blind: "What has not ended; agents without a functionId have the name of the program."},
		{Name: "mastra", Format: "otlp", Sample: "frameworks/mastra/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Title: "Mastra with its exporter for OpenTelemetry",
			Set:   "new Observability({configs: {otel: {serviceName: NAME, exporters: [new OtelExporter({provider: {custom: {endpoint: \"http://127.0.0.1:8080/v1/traces\"}}})]}}}) in new Mastra.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace, one for each call of an agent",
			Sees:  "Agents, tools with arguments and results, tokens.",
			Blind: "What has not ended: its exporter sends a trace when its root is over."},
		{Name: "openai-agents-js", Format: "otlp", Sample: "frameworks/openai_agents_js/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Title: "OpenAI Agents SDK for TypeScript with OpenInference",
			Set:   "new OpenAIAgentsInstrumentation({tracerProvider: P}).manuallyInstrument(agents) of @arizeai/openinference-instrumentation-openai-agents, and an OTLP exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace, one for each run",
			Sees:  "Agents, handoffs, tools with arguments and results, tokens.",
			Blind: "What has not ended."},
		{Name: "mlflow", Format: "otlp", Sample: "frameworks/mlflow/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Known: []string{"mlflow-tracing", "databricks"},
			Title: "MLflow tracing: decorators and autolog, exported by OTLP",
			Set: "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf with the endpoint, and mlflow.langchain.autolog(), mlflow.openai.autolog() or @mlflow.trace(span_type=\"TOOL\"); " +
				"MLFLOW_TRACE_ENABLE_OTLP_DUAL_EXPORT=true keeps MLflow's own copy.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, tools with arguments and results, tokens; of functions that are traced without a type nothing.",
			Blind: "What has not ended. Where only the client of a model is traced, see model-client."},
		{Name: "agentscope", Format: "otlp", Sample: "frameworks/agentscope/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, always),
			Title: "AgentScope with its TracingMiddleware",
			Set:   "Agent(..., middlewares=[TracingMiddleware()]), a tracer provider and an OTLP exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace, one for each reply",
			Sees:  "Agents, tools with arguments and results, tokens.",
			Blind: "What has not ended. Its results have an id in them, another one each time, so a loop is stopped as circling and not as repetition."},
		{Name: "voltagent", Format: "otlp", Sample: "frameworks/voltagent/tool_loop.otlp.jsonl.gz", Gives: spans(always, always, never, sometimes),
			Known: []string{"agentops", "laminar", "lmnr"},
			Title: "VoltAgent, and other programs whose spans follow no convention but say what they are",
			Set:   "new VoltAgentObservability({spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())]}) as observability of an agent; for others an OTLP exporter.",
			Run:   "weir replay spans.jsonl",
			Flow:  "the trace",
			Sees:  "Agents, tools with arguments and results, tokens. " + otlp.Free,
			Blind: "What has not ended. Of a span whose attributes say neither a kind nor a type nothing is seen, and how many these are is said."},
		// Agents that write code, by the logs that they keep of themselves.
		{Name: "claude-code", Format: "claudecode", Sample: "golden/claudecode/files.in",
			Known: []string{"claude"},
			Set:   "Nothing: Claude Code writes transcripts to ~/.claude/projects/PROJECT/SESSION.jsonl and, for child agents, below SESSION/.",
			Run:   "weir replay session.jsonl",
			Flow:  "one prompt of the user (promptId), else the session",
			Sees:  "Prompts, uses of tools with arguments and results, child agents and who called them, tokens.",
			Blind: "Children whose transcripts are not among the files, beyond that they ran."},
		{Name: "claude-code-hooks", Format: "claudehooks", Sample: "golden/claudehooks/session.in",
			Set:   "Register for PreToolUse, PostToolUse, UserPromptSubmit, SubagentStop and Stop the command: jq -c '. + {time: (now | todate)}' >> ~/hooks.jsonl",
			Run:   "weir replay hooks.jsonl",
			Flow:  "one prompt of the user (prompt_id), else the session",
			Sees:  "Uses of tools before they happen and after, child agents, ends of turns.",
			Blind: "Tokens; what no hook is registered for; times, unless the hook adds them."},
		{Name: "codex", Format: "codex", Sample: "real/codex/looping.jsonl.gz",
			Set:   "Nothing: Codex writes ~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay rollout.jsonl",
			Flow:  "one turn, which is one prompt of the user, or the turn that an agent was made in; else the session",
			Sees:  "Uses of tools with arguments and results, agents that were made, tokens, ends of turns.",
			Blind: "What an agent that was made answers, as an answer: it comes with a tool, wait_agent. Searches that the model's service makes itself have no results."},
		{Name: "copilot", Format: "copilot", Sample: "real/copilot/looping.jsonl.gz",
			Known: []string{"copilot-cli", "github-copilot"},
			Set:   "Nothing: Copilot CLI writes ~/.copilot/session-state/ID/events.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay events.jsonl",
			Flow:  "one message of the user (interactionId), else the session",
			Sees:  "Uses of tools with arguments and results, agents that are given tasks and what they do, the ends of answers.",
			Blind: "Tokens other than those of answers, in versions before 1.0.100 or so."},
		{Name: "gemini-cli", Format: "geminicli", Sample: "real/gemini/looping.jsonl.gz",
			Known: []string{"gemini"},
			Set:   "Nothing: Gemini CLI writes ~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay session.jsonl",
			Flow:  "one message of the user",
			Sees:  "Uses of tools with arguments and results, tokens, the answers that end turns.",
			Blind: "Calls before their results are there, so that live a loop is seen one call later; in one document per session (older versions) nothing live."},
		{Name: "qwen-code", Format: "qwencode", Sample: "real/qwen/looping.jsonl.gz",
			Known: []string{"qwen"},
			Set:   "Nothing: Qwen Code writes ~/.qwen/projects/CWD/chats/ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay chat.jsonl",
			Flow:  "one prompt of the user",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents, tokens, the answers that end turns.",
			Blind: "What an agent does that was given a task."},
		{Name: "opencode", Format: "opencode", Sample: "real/opencode/looping.export.json.gz",
			Set:   "Nothing: OpenCode keeps its sessions in a database; opencode export SESSION > session.json prints one. For what runs: opencode run --format json ... > run.jsonl",
			Run:   "weir replay session.json",
			Flow:  "one message of the user; in a run the session",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents, tokens and cost, ends of turns.",
			Blind: "In a run what the user said, and calls before they are over; what an agent does that was given a task stands in a session of its own."},
		{Name: "cline", Format: "cline", Sample: "real/cline/looping.messages.json.gz",
			Known: []string{"cline-cli"},
			Set:   "Nothing: Cline's command line writes ~/.cline/data/sessions/ID/ID.messages.json for each session, and one beside it for each agent; the folder may be named, too.",
			Run:   "weir replay session.messages.json",
			Flow:  "one prompt of the user; of an agent that was given a task its session",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents and what these do, tokens, the answers that end turns.",
			Blind: "Anything before the file is written anew: it is one document. Five equal calls one after the other end a run of Cline by themselves.",
		},
		{Name: "claude-code-otel", Format: "otlplogs", Sample: "golden/otlplogs/claude_code.in",
			Title: "OpenTelemetry logs of Claude Code",
			Set: "CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/json and an endpoint; OTEL_LOG_TOOL_DETAILS=1 " +
				"for arguments.",
			Run:   "weir replay logs.jsonl",
			Flow:  "one prompt of the user (prompt.id), else the session",
			Sees:  "Uses of tools when they are over, tokens, money and errors of every request.",
			Blind: "Results of tools, so repetition is told late and by the calls alone; which agent called which."},
		// Libraries and services, by records of a form of their own.
		{Name: "managed-agents", Format: "managedagents", Sample: "golden/managedagents/stream.in",
			Set:   "Save the stream of a session (GET /v1/sessions/ID/events/stream) or its list; add session_id to each line when a file holds several sessions.",
			Run:   "weir replay events.jsonl",
			Flow:  "session_id where it was added, else what follows from one message of the user, marked as derived: it only warns",
			Sees:  "Messages, tools with arguments and results, calls between threads, tokens of every request.",
			Blind: "What other threads do, unless their streams are saved, too."},
		{Name: "openai-agents", Format: "openaiagents", Sample: "real/openai_agents/handoff_pingpong.jsonl.gz",
			Known: []string{"openai-agents-sdk", "openai-agents-python"},
			Set:   "add_trace_processor() with a processor that writes trace.export() at the start of a trace and span.export() at the end of a span, one per line.",
			Run:   "weir replay trace.jsonl",
			Flow:  "correlation_id in the metadata of the trace, else the trace; group_id is the conversation. A trace that is begun in a tool descends from the flow around it, one with parent_correlation_id from that.",
			Sees:  "Handoffs, agents as tools, tools with arguments and results, tokens of requests (the sums on turns are not added again).",
			Blind: "Exported at the start of spans there are no arguments and no tokens; with ZDR neither."},
		{Name: "langsmith", Format: "langsmith", Sample: "real/langgraph/handoff_pingpong.langsmith_batch.jsonl.gz",
			Set: "LANGSMITH_TRACING=true and LANGSMITH_ENDPOINT at whatever keeps the bodies of POST /runs/batch or /runs/multipart; thread_id in metadata names the thread; tags and metadata of the first run, as config={\"tags\": [\"nightly\"]}, tag the flow for exempt in a limits file, those of a tool the tool. " +
				"With LANGSMITH_OTEL_ENABLED=true its spans are read as otel-genai.",
			Run:   "weir replay runs.jsonl",
			Flow:  "correlation_id in metadata, else the trace; thread_id is the conversation. Metadata may name parent_correlation_id and root_correlation_id.",
			Sees:  "Agents and nodes of graphs, handoffs by Command, tools with arguments and results, tokens.",
			Blind: "With hidden inputs and outputs (LANGSMITH_HIDE_INPUTS) neither arguments nor results."},
		{Name: "crewai", Format: "crewai", Sample: "real/crewai/delegate_pingpong.jsonl.gz",
			Set:   "A listener on the event bus (BaseEventListener) that writes event.to_json() of every event, one per line.",
			Run:   "weir replay bus.jsonl",
			Flow:  "one run of a crew, or correlation_id in its inputs",
			Sees:  "Delegations and questions to coworkers, refused ones too, tools with arguments and results, tokens.",
			Blind: "Agents of one role cannot be told apart. The log holds the keys of models: weir reads none of it, but keep it safe."},
		{Name: "autogen", Format: "autogen", Sample: "real/autogen/swarm_handoff_pingpong.core_events.jsonl.gz",
			Known: []string{"autogen-agentchat"},
			Title: "AutoGen (its OpenTelemetry spans are read, too, as otel-genai, with what its runtime writes of tools; for AG2 use these)",
			Set:   "logging.getLogger(\"autogen_core.events\") at INFO to a file, one message per line, with logging.Formatter(\"%(asctime)s %(name)s %(message)s\"): only the messages of teams have times of their own.",
			Run:   "weir replay core_events.jsonl",
			Flow:  "the run of a team (the uuid in its AgentIds), or correlation_id in metadata; all that runs outside of a team is one flow of its log, marked as derived",
			Sees:  "Who speaks after whom in teams, handoffs, tools with arguments and results, tokens.",
			Blind: "Times of tools and requests, unless the formatter adds them; the logger autogen_agentchat.events is no JSON and is not read."},
		{Name: "openhands", Format: "openhands", Sample: "real/openhands/task_same_child.jsonl.gz",
			Set:   "Conversation(..., persistence_dir=DIR): the files below DIR/ID/events are the log; cat them in the order of their names.",
			Run:   "weir replay events.jsonl",
			Flow:  "the conversation, by its chain of events",
			Sees:  "Actions and observations, tasks given to other agents, sums of tokens where the state tells them.",
			Blind: "What a child agent does belongs to a conversation of its own; times have no zone and are taken for UTC."},
		{Name: "llamaindex-events", Format: "llamaindex", Sample: "real/llama_index/handoff_pingpong.events.jsonl.gz",
			Set:   "Write {\"event\": type(ev).__name__, \"data\": ev.model_dump()} for each event of handler.stream_events(), one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "what follows from one message of the user, marked as derived: it only warns",
			Sees:  "Handoffs and tools with arguments and results, as they begin.",
			Blind: "Times and tokens; its spans (llamaindex) tell both."},
		{Name: "adk", Format: "adk", Sample: "real/google_adk/transfer_pingpong.events.jsonl.gz",
			Known: []string{"google-adk"},
			Title: "Google ADK: events or sessions (its spans are read, too, as otel-genai)",
			Set:   "Write event.model_dump_json() of every event of runner.run_async(), or Session.model_dump_json(), one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "one invocation, which is one message of the user",
			Sees:  "Transfers, sub-agents, parallel branches, tools with arguments and results, tokens.",
			Blind: "Who called a workflow agent, where the events do not name it."},
		// Traffic between agents, clients and servers, as a component in between recorded it.
		{Name: "mcp", Format: "mcp", Sample: "real/mcp/tool_loop_meta.jsonl.gz",
			Set:   "Put a proxy before the server that logs requests and responses, one JSON object each (time, direction, exchange, proxy, headers, body).",
			Run:   "weir replay mcp.jsonl",
			Flow:  "baggage or trace in _meta or headers, else the MCP session, else all calls of a client, marked as derived: it only warns",
			Sees:  "Every call of a tool with arguments and result, as it is sent; also of calls that become tasks. A look at a task before its pollIntervalMs counts as a call of its own.",
			Blind: "Agents: a client is one party, whoever in it calls. Tokens, turns, calls between agents."},
		{Name: "a2a", Format: "a2a", Sample: "real/a2a/same_question_v1.jsonl.gz",
			Set:   "Put a proxy before each agent that logs requests and responses, one JSON object each (time, direction, exchange, proxy, headers, body).",
			Run:   "weir replay a2a.jsonl",
			Flow:  "x-correlation-id, baggage or trace in headers or metadata, else derived from what lies inside what: it only warns",
			Sees:  "Every message to an agent as it is sent, its answer, its status.",
			Blind: "Tools, tokens and work of the agents, so a loop of messages is told by repetition alone; who calls, unless it says so."},
		{Name: "agentgateway", Format: "agentgateway", Sample: "golden/agentgateway/json.in",
			Set: "frontendPolicies.accessLog.add: {correlation_id: request.headers[\"x-correlation-id\"], mcp.tool.arguments: mcp.tool.arguments}; text or JSON. " +
				"Its traces are read as otel-genai.",
			Run:   "weir replay access.log",
			Flow:  "correlation_id where it was added, else the trace, the A2A context or the MCP session, else all requests of a caller, marked as derived",
			Sees:  "Calls of tools, agents and models when they are over, with tokens for models, refusals of the gateway included.",
			Blind: "Arguments and results, unless they were added; what agents do beside the gateway, so work is unknown."},
		// Single programs, and recorded runs.
		{Name: "caco", Format: "caco", Sample: "golden/caco/posts.in",
			Set:   "Log each POST /api/sessions/ID/messages as {time, path, body}; session logs lie in session-state/ID/events.jsonl.",
			Run:   "weir replay caco.jsonl",
			Flow:  "correlationId of a message, inherited by what its session then does; else the session, marked as derived",
			Sees:  "Messages between sessions; with the session logs tools, results and tokens.",
			Blind: "Session logs know neither the correlationId nor, by themselves, their session; one by itself is taken for Copilot CLI's (--format caco)."},
		{Name: "tinyagi", Format: "tinyagi", Sample: "golden/tinyagi/rows.in",
			Set:   "sqlite3 -readonly -json tinyagi.db 'SELECT * FROM messages ORDER BY id' > messages.json; weir does not open the database itself.",
			Run:   "weir replay messages.json",
			Flow:  "what follows from the last message of the same sender on the channel, marked as derived: it only warns",
			Sees:  "Every message to an agent, with its sender.",
			Blind: "Tools, answers, tokens and work; rows are deleted a day after they were dealt with."},
		{Name: "trace", Format: "trace", Sample: "golden/trace/basic.in",
			Set:   "Convert a dataset of recorded runs: dataset, trace_id, seq, ts, from, to, kind, tool, args_hash, had_work, sim, one fact per line.",
			Run:   "weir replay traces.jsonl",
			Flow:  "dataset/trace_id",
			Sees:  "All facts of the run, texts as hashes.",
			Blind: "Times, where the dataset has none; kinds of errors."},
		// Transcripts of one reader, by their dialects.
		{Name: "claude-code-stream", Format: "claudestream", Sample: "golden/claudestream/session.in",
			Known: []string{"claude-agent-sdk", "claude -p", "stream-json"},
			Set:   "claude -p --output-format stream-json --verbose; of the Claude Agent SDK, write each message that it yields as a line.",
			Run:   "weir replay stream.jsonl",
			Flow:  "one prompt of the user, or the session where the stream begins without one",
			Sees:  "Uses of tools with arguments and results, subagents and what they do, tokens, the end of each turn.",
			Blind: "Times of answers; they take that of the line before. Without any times the lines are 2 s apart."},
		{Name: "pi", Format: "pi", Sample: "golden/pi/session.in",
			Known: []string{"openclaw"},
			Set:   "Nothing: Pi writes sessions below ~/.pi/agent/sessions, OpenClaw below ~/.openclaw/agents/NAME/sessions.",
			Run:   "weir replay session.jsonl",
			Flow:  "one prompt of the user",
			Sees:  "Uses of tools with arguments and results, tokens, the answers that end turns.",
			Blind: "Branches of a session are read one after the other, in the order of the file."},
		{Name: "atif", Format: "atif", Sample: "golden/atif/run.in",
			Known: []string{"harbor", "terminal-bench"},
			Set:   "Nothing: Harbor leaves trajectory.json in the folder agent of each trial.",
			Run:   "weir replay trajectory.json",
			Flow:  "one prompt of the user, or the session",
			Sees:  "Uses of tools with arguments and results, tokens of each step.",
			Blind: "Trajectories of subagents, which are files of their own. A result has the time of its step."},
		{Name: "ag-ui", Format: "agui", Sample: "golden/agui/run.in",
			Set:   "Write each event that the agent emits as a line of JSON.",
			Run:   "weir replay events.jsonl",
			Flow:  "one run",
			Sees:  "Calls of tools with arguments and results as they happen, the end of a run.",
			Blind: "Tokens; the prompt, unless RUN_STARTED has the input; times, where events have none."},
		{Name: "openai-messages", Format: "messages", Sample: "golden/messages/openai.in",
			Known: []string{"openai-responses", "anthropic-messages", "gemini-contents"},
			Gives: adapter.Gives{Tools: always, Args: always, Results: always, Caller: always, Turn: never, Tokens: sometimes, Time: never, Starts: always, Work: always},
			Title: "lists of messages as the APIs of OpenAI, Anthropic and Gemini take them",
			Set:   "Write the list of messages, contents or Responses items that the program keeps; as an array, one per line, or in a document that has it as messages, contents or input.",
			Run:   "weir replay messages.json",
			Flow:  "one prompt of the user; a list without an id is called by its first messages",
			Sees:  "Calls of tools with arguments and results, in their order.",
			Blind: "Times: messages are 2 s apart. Two lists that begin alike, with calls of the same ids, count once."},
		{Name: "roo-code", Format: "messages", Sample: "golden/messages/roo.in",
			Known: []string{"cline-editor", "roo"},
			Title: "histories of Roo Code and of Cline in editors (api_conversation_history.json)",
			Set:   "Nothing: the extension writes tasks/ID/api_conversation_history.json below its folder of the editor.",
			Run:   "weir replay api_conversation_history.json",
			Flow:  "one prompt of the user; a history is called by its first message",
			Sees:  "Uses of tools with arguments and results, native or by tags in the text.",
			Blind: "Tokens; times, in versions that do not write ts."},
		{Name: "swe-agent", Format: "sweagent", Sample: "golden/sweagent/mini.in",
			Known: []string{"mini-swe-agent"},
			Set:   "Nothing: SWE-agent leaves ID.traj, mini-swe-agent ID.traj.json for each run.",
			Run:   "weir replay run.traj.json",
			Flow:  "the run",
			Sees:  "Commands and what they printed, in their order.",
			Blind: "Tokens; times, except in mini-swe-agent from 2.0 on: steps are 2 s apart."},
		{Name: "inspect-ai", Format: "inspect", Sample: "golden/inspect/eval.in",
			Known: []string{"inspect"},
			Set:   "inspect eval --log-format json, or inspect log convert --to json; a .eval file is a zip archive, whose samples/*.json are read, too.",
			Run:   "weir replay log.json",
			Flow:  "one prompt of the user, in one epoch of a sample",
			Sees:  "Calls of tools with arguments and results, in their order.",
			Blind: "Tokens and times: messages are 2 s apart. Logs over 8 MiB; read their samples one by one."},
		{Name: "goose", Format: "goose", Sample: "golden/goose/session.in",
			Set:   "goose session export --format json, or goose run --output-format stream-json; versions before 1.10 leave lines below ~/.local/share/goose/sessions.",
			Run:   "weir replay session.json",
			Flow:  "one prompt of the user; a stream without one is one flow",
			Sees:  "Calls of tools with arguments and results, their errors, the end of a run.",
			Blind: "Tokens of single answers. Newer versions keep sessions in a database; export them."},
		{Name: "cursor", Format: "cursor", Sample: "golden/cursor/stream.in",
			Set:   "cursor-agent -p --output-format stream-json > stream.jsonl",
			Run:   "weir replay stream.jsonl",
			Flow:  "one prompt of the user",
			Sees:  "Calls of tools with arguments, what they printed and how they ended, the end of the turn.",
			Blind: "Tokens; times, where the lines have no timestamp_ms."},
		{Name: "kimi", Format: "kimi", Sample: "golden/kimi/wire.in",
			Known: []string{"kimi-cli", "kimi-code"},
			Set:   "Nothing: Kimi writes wire.jsonl and context.jsonl below ~/.kimi/sessions. Both are read; wire.jsonl has times.",
			Run:   "weir replay wire.jsonl",
			Flow:  "one prompt of the user",
			Sees:  "Calls of tools with arguments and results, those of subagents, tokens, the end of each turn.",
			Blind: "Which kind of subagent acts."},
		{Name: "hermes", Format: "sharegpt", Sample: "golden/sharegpt/hermes.in",
			Known: []string{"hermes-agent", "sharegpt"},
			Title: "trajectories in the form of ShareGPT, as Hermes writes them",
			Set:   "Nothing: Hermes appends to trajectory_samples.jsonl and failed_trajectories.jsonl. hermes sessions export writes messages with times, which are read as openai-messages.",
			Run:   "weir replay trajectory_samples.jsonl",
			Flow:  "the run, called by its first messages",
			Sees:  "Calls of tools with arguments and results, in their order.",
			Blind: "Tokens and times: messages are 2 s apart."},
		{Name: "flink-agents", Format: "flink", Sample: "golden/flink/events.in",
			Set:   "Set event-log.level to VERBOSE. Flink Agents writes events-JOB-TASK-SUBTASK.log below baseLogDir, or one file of all subtasks to the log folder of Flink.",
			Run:   "weir replay events-*.log",
			Flow:  "one input of a key; without trace records, what follows an input",
			Sees:  "Calls of tools with arguments and results, the answer.",
			Blind: "Tokens. Without event-log.trace.enabled, inputs of several keys that run at once mix. STANDARD cuts long arguments and results."},
		// Mappings have the last row, where Source looks for it.
		{Name: "map", Format: mapping, Sample: "map/any.jsonl", Title: "JSON objects of any kind, by a mapping that you give",
			Gives: adapter.Gives{Tools: sometimes, Args: sometimes, Results: sometimes, Caller: sometimes, Turn: sometimes, Tokens: sometimes,
				Time: sometimes, Starts: sometimes, Work: sometimes, Tasks: sometimes},
			Set:   "Say where the fields are: FIELD=PATH, with paths as in jq, on the command line or one per line in a file (--map-file). --map auto proposes them from the names in the log, and prints what they read.",
			Run:   "weir replay --map correlation_id=.flow,time=.ts,kind=.type,kind.ask=agent.call,kind.tool=tool.call,kind.done=tool.result,from=.sender.id,to=.target,tool=.tool.name,args=.tool.args,result=.out log.jsonl",
			Flow:  "correlation_id, or the first of baggage, prompt_id, trace_id, conversation_id, session_id and task_id that is mapped",
			Sees:  "What is mapped. each=.steps reads the elements of a list, each=.runs[].steps those of lists in lists; ^.id is then of the record around them, ^^.id of the one around that. weir events describe map:FIELD=PATH,... says what that is enough for.",
			Blind: "What is not. Without an id, lines that tell no time count each time they are read."},
	}
}
