package caco

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "caco", Format: "caco", Sample: "golden/caco/posts.in",
			Set:   "Log each POST /api/sessions/ID/messages as {time, path, body}; session logs lie in session-state/ID/events.jsonl.",
			Run:   "weir replay caco.jsonl",
			Flow:  "correlationId of a message, inherited by what its session then does; else the session, marked as derived",
			Sees:  "Messages between sessions; with the session logs tools, results and tokens.",
			Blind: "Session logs know neither the correlationId nor, by themselves, their session; one by itself is taken for Copilot CLI's (--format caco)."},
	}
}
