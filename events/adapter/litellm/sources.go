package litellm

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "litellm", Format: "litellm", Sample: "exports/litellm/loop.jsonl.gz",
			Known: []string{"litellm-proxy"},
			Set: "A callback that writes kwargs[\"standard_logging_object\"], one per line, or the proxy's log to a bucket; rows of spend logs with store_prompts_in_spend_logs: true. " +
				"One trace_id or session_id for a run (litellm_trace_id, or x-litellm-trace-id at the proxy).",
			Run:   "weir replay litellm.jsonl",
			Flow:  "trace_id, else session_id, else each request is a flow of its own, marked as derived",
			Sees:  "Requests with tokens and cost, the calls of tools that models ask for with their arguments, and what these brought, one request later; calls of tools that the proxy's MCP gateway makes.",
			Blind: "Agents: a client is one party, called by agent_id, its end user or its key. Without messages neither calls nor results."},
	}
}
