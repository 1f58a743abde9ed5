package langsmith

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "langsmith", Format: "langsmith", Sample: "real/langgraph/handoff_pingpong.langsmith_batch.jsonl.gz",
			Set: "LANGSMITH_TRACING=true and LANGSMITH_ENDPOINT at whatever keeps the bodies of POST /runs/batch or /runs/multipart; thread_id in metadata names the thread; tags and metadata of the first run, as config={\"tags\": [\"nightly\"]}, tag the flow for exempt in a limits file, those of a tool the tool. " +
				"With LANGSMITH_OTEL_ENABLED=true its spans are read as otel-genai.",
			Run:   "weir replay runs.jsonl",
			Flow:  "correlation_id in metadata, else the trace; thread_id is the conversation. Metadata may name parent_correlation_id and root_correlation_id.",
			Sees:  "Agents and nodes of graphs, handoffs by Command, tools with arguments and results, tokens.",
			Blind: "With hidden inputs and outputs (LANGSMITH_HIDE_INPUTS) neither arguments nor results."},
	}
}
