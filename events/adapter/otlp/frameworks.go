package otlp

import (
	"bytes"
	"cmp"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// Scopes of instrumentations whose spans need a closer look.
const (
	scopeLlamaIndex = "openinference.instrumentation.llama_index"
	scopeSmolagents = "openinference.instrumentation.smolagents"
	scopeHaystack   = "haystack" // the name that Haystack's own tracer is given
	scopeHaystackOI = "openinference.instrumentation.haystack"
	scopeAutoGen    = "autogen " // and the class of the runtime
)

// frameworks corrects kind and agent where a framework reports them in its own way.
// It runs after the conventions, and may overrule them.
//
// s.kind and s.agent are those of the conventions. The result is final except for the effect of
// other spans of the trace, see trace.prepare.
func (s *span) frameworks(a *attributes) {
	isChain := a.upper(spanKind) == "CHAIN"
	switch {
	case a.has(metadata) && a.has(spanKind):
		s.langGraph(a, isChain)
	// Langfuse and LangSmith write each member of the metadata as an attribute.
	case a.has(lcAgent) || a.has(lcNode):
		s.runOfGraph(a.word(lcAgent, events.MaxID), a.word(lcNode, events.MaxID), string(unquoted(a.text[lcNamespace])), isChain || string(a.text[observationType]) == "chain")
	case s.scope == scopeLlamaIndex && isChain:
		s.llamaIndex(a)
	// Haystack's own tracer marks its spans by their names, OpenInference by its scope and
	// kind.
	case strings.HasPrefix(s.name, "haystack."), s.scope == scopeHaystackOI && isChain:
		s.haystack()
		return
	}
	if s.kind == visit && !s.named {
		// Without a name of its own the agent is called as the span: "manager.run".
		s.agent = adapter.Word([]byte(strings.TrimSuffix(s.name, ".run")), events.MaxID)
		// Of a span by the GenAI conventions the name is that of the operation.
		if a.has(operation) || a.has(operationID) {
			s.agent = ""
		}
	}
}

// langGraph reads the metadata of a LangChain run: the agent of its graph, or the
// node that it belongs to.
// It is JSON in one attribute; with Langfuse each member is an attribute, see frameworks.
func (s *span) langGraph(a *attributes, isChain bool) {
	var agent, graphNode, namespace string
	c := jsonwalk.New(a.text[metadata])
	if c.Peek() != '{' {
		return
	}
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "lc_agent_name":
			agent = adapter.Word(c.Text(), events.MaxID)
		case "langgraph_node":
			graphNode = adapter.Word(c.Text(), events.MaxID)
		case "langgraph_checkpoint_ns":
			namespace = string(c.Text())
		}
	}
	s.runOfGraph(agent, graphNode, namespace, isChain)
}

// runOfGraph makes of a LangChain run what it is by its metadata.
//
// Each run of LangChain inherits the metadata of the graph around it, so the name of the span
// has to say whether it is the agent or something within.
func (s *span) runOfGraph(agent, graphNode, namespace string, isChain bool) {
	// A namespace with a bar is that of a graph within a graph.
	isTop := namespace != "" && !strings.Contains(namespace, "|")
	if agent != "" {
		s.agent, s.named = agent, true
	}
	// Runs of tools and models are what they are.
	if s.kind != visit && !isChain {
		return
	}
	// The run of an agent has its name; others below it only carry it.
	switch {
	case agent != "" && (s.kind == visit || s.name == agent):
		s.kind = visit
		s.flat = isTop && graphNode == s.name
	// A node is an agent only if it asks a model itself, see promote.
	case agent == "" && graphNode != "" && s.name == graphNode:
		s.kind, s.agent, s.named = node, graphNode, true
		s.flat = isTop
	default:
		if s.kind == visit && graphNode == "" {
			break // a graph that was given a name like "support agent"
		}
		s.kind = plain
	}
}

// haystack knows the spans of Haystack by their names. Agents have none, but that of the
// component that they are (see trace.nameByPlace).
//
// Both the tracer of Haystack and its instrumentation write them.
func (s *span) haystack() {
	switch s.name {
	case "haystack.agent.run", "Agent.run", "Agent.run_async":
		s.kind = visit
	case "haystack.agent.step.tool":
		s.kind = toolUse
	case "haystack.agent.step.llm":
		s.kind = inference
	}
}

// isHaystack is asked where an agent needs a name.
func isHaystack(scope string) bool { return scope == scopeHaystack || scope == scopeHaystackOI }

// llamaIndex reads the steps of a workflow. The agent is in no attribute, but
// in the printed form of the events between the steps.
// The output has priority over the input.
//
// Such a span is a visit without a name until nameSpeakers has seen the whole trace.
func (s *span) llamaIndex(a *attributes) {
	// A text that was cut within the name gives the beginning of it at least.
	for _, f := range [...]field{output, input} {
		if name, whole := speaker(a.text[f]); !whole {
			s.cut = cmp.Or(s.cut, name)
		} else if s.speaker == "" {
			s.speaker = name
		}
	}
	// Steps follow each other, without an agent above them.
	if strings.HasSuffix(s.name, ".run_agent_step") {
		s.kind, s.flat, s.speaks = visit, true, true
		s.agent, s.named = s.speaker, true
	}
}

// speaker finds current_agent_name='...' and reports whether the quote after the
// name is there.
//
// The text is what Python prints of an object. Exporters cut long values and mark the place by
// an ellipsis.
func speaker(p []byte) (name string, whole bool) {
	_, rest, found := bytes.Cut(p, []byte("current_agent_name='"))
	if !found {
		return "", false
	}
	n := bytes.IndexByte(rest, '\'')
	if whole = n >= 0; !whole {
		n = len(rest)
	}
	return adapter.Word(bytes.TrimSuffix(rest[:n], []byte("…")), events.MaxID), whole
}

// genkitCounts are the names of the counts in what a model of Genkit answers.
//
// They stand in the output of the span.
var genkitCounts = usage.Names{
	"inputTokens":         usage.Input,
	"outputTokens":        usage.Output,
	"cachedContentTokens": usage.CacheRead,
	"thoughtsTokens":      usage.Reasoning,
	"totalTokens":         usage.Total,
}

// genkitUsage finds the tokens in the answer of a model: no attribute has them.
//
// Anything else that the answer holds is skipped.
func genkitUsage(answer []byte) (u events.Usage) {
	c := jsonwalk.New(answer)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "usage" {
			u = genkitCounts.Read(c)
		}
	}
	return u
}

// objectCounts are the names of the counts where usage is an object: Langfuse's, MLflow's.
//
// A repeated name counts once, since the last one overwrites the first.
var objectCounts = usage.Names{
	"input_tokens":                usage.Input,
	"output_tokens":               usage.Output,
	"total_tokens":                usage.Total,
	"input":                       usage.Input,
	"output":                      usage.Output,
	"total":                       usage.Total,
	"input_cached_tokens":         usage.CacheRead,
	"input_cache_read":            usage.CacheRead,
	"cache_read_input_tokens":     usage.CacheRead,
	"input_cache_creation":        usage.CacheCreation,
	"cache_creation_input_tokens": usage.CacheCreation,
	"output_reasoning_tokens":     usage.Reasoning,
	"output_reasoning":            usage.Reasoning,
}

// usageObjects reads what is kept of tokens and money as objects.
// In dollars; only the total counts, for its parts would be added twice.
//
// Either may be nil. A cost of nothing, or beyond what an event may carry, is not known.
func usageObjects(tokens, cost []byte) (u events.Usage) {
	if len(tokens) > 0 {
		u = objectCounts.Read(jsonwalk.New(tokens))
	}
	c := jsonwalk.New(cost)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) != "total" {
			continue
		}
		if micro, ok := usage.Dollars(c.Scalar()); ok {
			u.CostMicroUSD, u.Known = micro, true
		}
	}
	return u
}

// isTurnEnd is true for tools by which a framework only ends the run of an agent or
// groups its tools.
//
// Emitted as calls, they would be tools that each run uses once more.
func (s *span) isTurnEnd() bool {
	return s.tool.Name == "final_answer" && s.scope == scopeSmolagents || s.tool.Name == "(merged tools)"
}
