package copilot

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "copilot", Format: "copilot", Sample: "real/copilot/looping.jsonl.gz",
			Known: []string{"copilot-cli", "github-copilot"},
			Set:   "Nothing: Copilot CLI writes ~/.copilot/session-state/ID/events.jsonl for each session; the folder may be named, too.",
			Run:   "weir replay events.jsonl",
			Flow:  "one message of the user (interactionId), else the session",
			Sees:  "Uses of tools with arguments and results, agents that are given tasks and what they do, the ends of answers.",
			Blind: "Tokens other than those of answers, in versions before 1.0.100 or so."},
	}
}
