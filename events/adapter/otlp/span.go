package otlp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/tag"
	"weir/events/adapter/usage"
	"weir/events/fingerprint"
)

// kind is what a span stands for.
// It may change when other spans of the trace have come, see trace.prepare.
//
// It is not the kind of OpenTelemetry (client, server), which says nothing here.
type kind uint8

const (
	plain     kind = iota // of no interest itself, but a step between child and parent
	workflow              // a run of several agents
	executor              // what runs one agent of a workflow (Agent Framework)
	node                  // a node of a graph, which is an agent if it asks a model itself (LangGraph)
	visit                 // one run of one agent
	toolUse               // one execution of a tool
	inference             // one request to a model
)

// span is what is kept of a span: no content, only hashes.
// Thousands of them are held back at a time.
type span struct {
	id, parent, link uint64
	trace, linked    string // ids of its trace, and of that of the link
	remote           bool   // the parent is in another process
	// Times keep the ns that exporters write: of milliseconds too many are one instant.
	start, end int64 // ns since 1970
	kind       kind
	// known stays set where other spans of the trace take the kind away, see why.
	known       bool // some attribute has its kind
	name, scope string
	source      string

	agent string // the agent of the span, by the span itself
	named bool   // agent is an attribute, not taken from the name of the span
	// On the wire: a call of the A2A protocol, as its client sees it.
	wire     bool // seen on the wire, where the agent's work is not
	flat     bool // in a graph whose agents follow each other without an agent above them
	person   bool // a person speaks through the agent
	calledBy string
	executor string
	prompt   events.Hash // of the system prompt, which distinguishes agents without names
	speaks   bool        // a step of a workflow that names its agent in its text only (LlamaIndex)
	speaker  string      // agent that the text of the span speaks of (LlamaIndex)
	cut      string      // the same where the text was cut within the name

	tool  events.Tool
	tried deed.Call   // what the tool set out to do
	done  deed.Result // and what it achieved
	// handoff may be a star, for a handoff without a target; asks is never a star after readHandoff.
	handoff string // agent that a handoff tool names, or a star
	surely  bool   // it is a handoff even if no agent of that name is seen
	command bool   // a command of LangGraph names it, and not the tool
	passes  bool   // it is a handoff indeed
	asks    string // agent that the tool asks, which answers
	// carrier, passes and kind are worked out anew with each turn, as other spans come.
	carrier  bool        // the tool ran an agent: the call of the agent covers it
	content  events.Hash // message, or arguments of a handoff
	sim      events.Fingerprint
	answer   events.Hash // answer or result
	near     events.Fingerprint
	status   events.Status
	failure  string
	usage    events.Usage
	below    events.Usage // of a visit: the sums of the next visits below it, see nestUsage
	model    string
	provider string

	// What the flow may be called, each as this span says it.
	conversation, session, baggage, turn string
	parentFlow, rootFlow                 string
	flowTags, tags                       []string // of the flow, and of the span alone
	// 0 and 1 mean itself.
	sampled int64
	emitted bool

	retrieves bool      // it is a search; instrumentations report searches that report no tools
	dialogue  *dialogue // of an inference, or of a root that is no run

	call *call // of a visit, once it was emitted
}

// make fills the span from its attributes.
// The order matters: what a span is decides what of its attributes is read. a is not needed
// afterwards.
//
// ignore names the arguments that the user leaves out of hashes.
func (s *span) make(a *attributes, ignore adapter.IgnoreArgs) {
	// Before kindOf, which then finds what the span says of itself.
	a.free.settle(a)
	s.agent = cmp.Or(a.word(agentName, events.MaxID), a.word(agentID, events.MaxID))
	// Whether the name is an attribute decides in frameworks and dropUnnamed.
	s.named = s.agent != ""
	s.kind = kindOf(a, s)
	s.frameworks(a)
	s.known = s.kind != plain
	// Events of the span fill in what its attributes leave out, by what the span is.
	a.eventContent.settle(a, s.kind)

	s.readCaller(a)
	// As AutoGen's UserProxyAgent describes itself.
	s.person = string(a.text[agentDescription]) == "A human user"
	s.executor = adapter.Word(a.text[executorID], events.MaxID)
	s.conversation = adapter.Word(a.text[conversationID], events.MaxID)
	if a.has(spanKind) || a.has(observationType) { // elsewhere it may be the session of a browser
		s.session = adapter.Word(a.text[sessionID], events.MaxID)
	}
	s.baggage = adapter.Word(a.text[correlationID], events.MaxID)
	s.parentFlow, s.rootFlow = adapter.Word(a.text[parentCorrelationID], events.MaxID), adapter.Word(a.text[rootCorrelationID], events.MaxID)
	s.turn = adapter.Word(a.text[turnID], events.MaxID)
	s.readTags(a)
	// Langfuse has its own word for failure.
	if string(a.text[level]) == "ERROR" {
		s.status = events.StatusError
	}
	if s.status == events.StatusError {
		s.failure = failure(s.failure, a)
	}

	switch s.kind {
	// Of other spans nothing but their place in the tree is of use.
	case plain, workflow:
		switch {
		// The spans of its tools have neither arguments nor results, the messages about them do.
		case strings.HasPrefix(s.scope, scopeAutoGen):
			s.readSent(a, ignore)
		case s.parent == 0 && s.link == 0: // it may be all that ties a trace to others
			s.readDialogue(a, ignore)
		}
	case toolUse:
		s.retrieves = string(a.text[operation]) == "retrieval" || string(a.text[operation]) == "search_memory" || a.upper(spanKind) == "RETRIEVER" || string(a.text[observationType]) == "retriever"
		s.readTool(a, ignore)
	case visit, node:
		if !s.speaks { // else the texts are the printed forms of events
			message, answer := messages(a.text[input], a.text[output])
			s.content, s.sim = fingerprint.Content(message), fingerprint.Text(message)
			s.answer, s.near = fingerprint.Content(answer), fingerprint.Text(answer)
		}
		s.readEnd(a)
		s.readUsage(a)
		// A run's tokens are the sum of requests below it, and are not added again.
		s.usage.Scope = events.UsageAggregate
	case inference:
		s.readDialogue(a, ignore)
		s.prompt = fingerprint.Content(a.text[systemPrompt])
		s.readUsage(a)
		switch {
		case a.has(genkitKind):
			s.usage = genkitUsage(a.text[output])
		case a.has(usageDetails), a.has(costDetails):
			s.usage = usageObjects(a.text[usageDetails], a.text[costDetails])
		}
		s.model = a.word(model, events.MaxID)
		s.provider = a.word(provider, events.MaxProvider)
	}
}

// ends are the words for how a run of an agent ended.
var ends = map[string]events.Status{"ok": events.StatusOK, "success": events.StatusOK, "completed": events.StatusOK, "error": events.StatusError, "failed": events.StatusError, "failure": events.StatusError,
	"cancelled": events.StatusCancelled, "canceled": events.StatusCancelled, "aborted": events.StatusCancelled, "timeout": events.StatusTimeout, "timed_out": events.StatusTimeout,
	"denied": events.StatusDenied, "rejected": events.StatusDenied, "input_required": events.StatusInputRequired, "interrupted": events.StatusInputRequired}

// readEnd reads how a run of an agent ended, where that says more than the status of its span.
func (s *span) readEnd(a *attributes) {
	if end, known := ends[strings.ToLower(string(a.text[invocationStatus]))]; known && (s.status != events.StatusError || end != events.StatusOK) {
		s.status = end
	}
}

// why says why a plain span gives no event.
func (s *span) why() adapter.Silence {
	if s.known || s.speaker != "" || s.cut != "" {
		return adapter.SilentTwice // it reports a run that another span reports, too
	}
	return adapter.SilentUnknown
}

// readCaller reads the caller of an agent, unless that is a person.
//
// A call from a person has no caller, see trace.asked.
func (s *span) readCaller(a *attributes) {
	switch a.upper(callerType) {
	case "HUMAN", "USER", "HUMANTOAGENT":
	default:
		s.calledBy = adapter.Word(a.text[calledBy], events.MaxID)
	}
}

// kindOf decides by the attributes that say what a span is.
// The conventions come in the order of trust: the first that says something counts.
//
// OpenInference's CHAIN says only that something is a step.
func kindOf(a *attributes, s *span) kind {
	switch string(a.text[operation]) {
	case "invoke_agent":
		return visit
	case "invoke_workflow":
		return workflow
	// retrieval counts as a tool: it has arguments and a result.
	// So does what an agent does with its memory, of which an endless loop can be made as well.
	case "execute_tool", "retrieval", "search_memory", "update_memory", "upsert_memory", "create_memory", "delete_memory", "create_memory_store", "delete_memory_store":
		return toolUse
	// A step that holds the requests by which an agent plans: its tokens are theirs.
	case "plan":
		return plain
	case "chat", "generate_content", "text_completion":
		return inference
	}
	// Names of the AI SDK: a generate holds the requests that it makes.
	switch op := string(a.text[operationID]); {
	case op == "ai.toolCall":
		return toolUse
	case strings.HasSuffix(op, ".doGenerate"), strings.HasSuffix(op, ".doStream"):
		return inference
	case strings.HasPrefix(op, "ai.generate"), strings.HasPrefix(op, "ai.stream"):
		return visit
	}
	switch a.upper(spanKind) {
	case "AGENT":
		return visit
	case "TOOL", "RETRIEVER":
		return toolUse
	case "LLM":
		return inference
	}
	switch a.upper(entityKind) {
	case "AGENT":
		return visit
	case "TOOL":
		return toolUse
	case "WORKFLOW":
		return workflow
	}
	switch string(a.text[genkitKind]) {
	case "flow":
		return visit
	case "tool":
		return toolUse
	case "model":
		return inference
	}
	switch string(a.text[observationType]) {
	case "agent":
		return visit
	case "tool", "retriever":
		return toolUse
	case "generation":
		return inference
	}
	// On the wire a call of an agent is seen, and nothing of what the agent does.
	// Only a message to an agent is a call; other methods ask for the state of a task.
	switch string(a.text[a2aMethod]) {
	case "SendMessage", "SendStreamingMessage", "message/send", "message/stream":
		if s.named {
			s.wire = true
			return visit
		}
	}
	switch {
	case string(a.text[mcpMethod]) == "tools/call":
		return toolUse
	case a.has(executorID):
		return executor
	case s.name == "workflow.run":
		return workflow
	// A span of the conventions with tokens is a request, whatever its operation is called.
	case a.has(operation) && a.has(inputTokens) && a.has(model): // an operation of its own name
		return inference
	}
	return plain
}

// readDialogue reads the messages of a request. A dialogue without calls is not kept.
func (s *span) readDialogue(a *attributes, ignore adapter.IgnoreArgs) {
	var d dialogue
	d.read(a.text[input], a.text[output], ignore)
	if d.readLines(a.lines, ignore); len(d.brought)+len(d.asked) > 0 {
		s.dialogue = &d
	}
}

// readSent reads a message between agents. One about tools contains their calls or their results,
// which have the ids of their spans.
func (s *span) readSent(a *attributes, ignore adapter.IgnoreArgs) {
	var d dialogue
	r := reading{dialogue: &d, ignore: ignore}
	r.look(a.text[sent])
	if d.asked, d.brought = r.calls, r.results; len(d.brought)+len(d.asked) > 0 {
		s.dialogue = &d
	}
}

// readTags reads the tags of the flow, and those of the span. What the first span of a trace is
// tagged with is of all of it, since all that is below inherits its tags.
func (s *span) readTags(a *attributes) {
	if a.has(flowTags) || len(a.flowLabels) > 0 {
		slices.Sort(a.flowLabels) // exports have them in any order
		s.flowTags = tag.Join(tag.OfRun(a.text[flowTags]), a.flowLabels)
	}
	if a.has(spanTags) || len(a.spanLabels) > 0 {
		s.tags = tag.Join(tag.OfRun(a.text[spanTags]), a.spanLabels)
	}
	if a.has(metadata) && a.has(spanKind) { // elsewhere it may be anything
		s.tags = tag.Join(s.tags, tag.Labels(a.text[metadata]))
	}
	if s.parent == 0 && len(s.tags) > 0 {
		s.flowTags = tag.Join(s.flowTags, s.tags)
	}
}

// readTool reads a call of a tool and what it brought. The attributes for arguments and
// results go before input and output, which hold more.
//
// A name is always found, in the end the span's own.
func (s *span) readTool(a *attributes, ignore adapter.IgnoreArgs) {
	raw := a.text[toolResult]
	if raw == nil {
		raw = a.text[output]
	}
	got := resultWithoutNotes(raw)
	s.tool = events.Tool{
		// What a tool brought knows its name better than a tracer, to which all tools may be of one class.
		Name:   cmp.Or(adapter.Word(got.tool, events.MaxID), a.word(toolName, events.MaxID), s.name, "tool"),
		CallID: cmp.Or(a.word(toolCallID, events.MaxID), adapter.Word(got.call, events.MaxID)),
		Type:   adapter.Word(a.text[toolType], events.MaxToolType), Server: adapter.Word(a.text[toolServer], events.MaxID),
	}
	args, leftOut := a.text[toolArgs], ignore.Of(s.tool.Name)
	if len(args) == 0 {
		args = a.text[input]
	}
	args, leftOut = withoutNotes(args, leftOut)
	s.tool.ArgsSize = int64(len(args))
	// Addresses of objects are new in each call, see withoutAddresses.
	// Args keeps no text, and the hash of nothing is the zero hash.
	s.tool.ArgsHash = fingerprint.Args(withoutAddresses(args), leftOut)
	if got.text == nil && (raw != nil || a.empty && len(args) > 0) {
		got.text = []byte{} // the exporter reports that nothing was returned
	}
	s.answer, s.near = fingerprint.Result(got.text)
	s.tried, s.done = deed.CallOf(s.tool.Name, args, s.tool.ArgsHash), deed.ResultOf(got.text)
	// Tracers mark a span as failed only if the tool threw.
	if s.status == events.StatusOK && got.failed {
		why := got.why
		if len(why) == 0 {
			why = got.text
		}
		s.status, s.failure = events.StatusError, fingerprint.Error(why)
	}
	// A command names the target that it passes control to; within one graph that may be a step.
	s.handoff, s.surely, s.command = got.next, got.leaves, got.next != ""
	s.readHandoff(a, args)
}

// readUsage reads counts of tokens. Known is set by the names and not by the counts, so that a
// request that used none is known to.
func (s *span) readUsage(a *attributes) {
	u := &s.usage
	for _, f := range [...]field{inputTokens, outputTokens, totalTokens, costUSD} {
		u.Known = u.Known || a.has(f)
	}
	u.Input, u.Output, u.Total = a.number(inputTokens), a.number(outputTokens), a.number(totalTokens)
	u.CacheRead, u.CacheCreation = a.number(cacheReadTokens), a.number(cacheCreationTokens)
	u.Reasoning = a.number(reasoningTokens)
	u.CostMicroUSD, _ = usage.Dollars(a.text[costUSD])
	u.Batch = string(a.text[serviceTier]) == "batch"
}

// failure is what went wrong, in words that are the same the next time.
// The class is put before the message unless that has it already.
//
// Equal failures have to be equal, for they are counted; what differs between them is folded.
func failure(message string, a *attributes) string {
	text, class := []byte(message), a.text[errorType]
	if len(text) == 0 {
		text = a.text[errorMessage]
	}
	if len(class) > 0 && !bytes.Contains(text, class) {
		text = bytes.TrimSuffix(bytes.Join([][]byte{class, text}, []byte(": ")), []byte(": "))
	}
	return cmp.Or(fingerprint.Error(text), "error")
}
