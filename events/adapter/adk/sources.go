package adk

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "adk", Format: "adk", Sample: "real/google_adk/transfer_pingpong.events.jsonl.gz",
			Known: []string{"google-adk"},
			Title: "Google ADK: events or sessions (its spans are read, too, as otel-genai)",
			Set:   "Write event.model_dump_json() of every event of runner.run_async(), or Session.model_dump_json(), one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "one invocation, which is one message of the user",
			Sees:  "Transfers, sub-agents, parallel branches, tools with arguments and results, tokens.",
			Blind: "Who called a workflow agent, where the events do not name it."},
	}
}
