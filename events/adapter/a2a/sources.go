package a2a

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "a2a", Format: "a2a", Sample: "real/a2a/same_question_v1.jsonl.gz",
			Set:   "Put a proxy before each agent that logs requests and responses, one JSON object each (time, direction, exchange, proxy, headers, body).",
			Run:   "weir replay a2a.jsonl",
			Flow:  "x-correlation-id, weir's extension of A2A, baggage or trace in headers or metadata, else derived from what lies inside what: it only warns",
			Sees:  "Every message to an agent as it is sent, its answer, its status.",
			Blind: "Tools, tokens and work of the agents, so a loop of messages is told by repetition alone; who calls, unless it says so."},
	}
}
