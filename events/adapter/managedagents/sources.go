package managedagents

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "managed-agents", Format: "managedagents", Sample: "golden/managedagents/stream.in",
			Set:   "Save the stream of a session (GET /v1/sessions/ID/events/stream) or its list; add session_id to each line when a file holds several sessions.",
			Run:   "weir replay events.jsonl",
			Flow:  "session_id where it was added, else what follows from one message of the user, marked as derived: it only warns",
			Sees:  "Messages, tools with arguments and results, calls between threads, tokens of every request.",
			Blind: "What other threads do, unless their streams are saved, too."},
	}
}
