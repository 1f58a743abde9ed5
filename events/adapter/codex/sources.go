package codex

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "codex", Format: "codex", Sample: "real/codex/looping.jsonl.gz",
			Set:   "Nothing: Codex writes ~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay rollout.jsonl",
			Flow:  "one turn, which is one prompt of the user, or the turn that an agent was made in; else the session",
			Sees:  "Uses of tools with arguments and results, agents that were made, tokens, ends of turns.",
			Blind: "What an agent that was made answers, as an answer: it comes with a tool, wait_agent. Searches that the model's service makes itself have no results."},
	}
}
