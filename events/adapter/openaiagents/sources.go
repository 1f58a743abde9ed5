package openaiagents

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "openai-agents", Format: "openaiagents", Sample: "real/openai_agents/handoff_pingpong.jsonl.gz",
			Known: []string{"openai-agents-sdk", "openai-agents-python"},
			Set:   "add_trace_processor() with a processor that writes trace.export() at the start of a trace and span.export() at the end of a span, one per line.",
			Run:   "weir replay trace.jsonl",
			Flow:  "correlation_id in the metadata of the trace, else the trace; group_id is the conversation. A trace that is begun in a tool descends from the flow around it, one with parent_correlation_id from that.",
			Sees:  "Handoffs, agents as tools, tools with arguments and results, tokens of requests (the sums on turns are not added again).",
			Blind: "Exported at the start of spans there are no arguments and no tokens; with ZDR neither."},
	}
}
