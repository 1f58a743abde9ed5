package opencode

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "opencode", Format: "opencode", Sample: "real/opencode/looping.export.json.gz",
			Set:   "Nothing: OpenCode keeps its sessions in a database; opencode export SESSION > session.json prints one. For what runs: opencode run --format json ... > run.jsonl",
			Run:   "weir replay session.json",
			Flow:  "one message of the user; in a run the session",
			Sees:  "Uses of tools with arguments and results, tasks given to other agents, tokens and cost, ends of turns.",
			Blind: "In a run what the user said, and calls before they are over; what an agent does that was given a task stands in a session of its own."},
	}
}
