package openhands

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "openhands", Format: "openhands", Sample: "real/openhands/task_same_child.jsonl.gz",
			Set:   "Conversation(..., persistence_dir=DIR): the files below DIR/ID/events are the log; cat them in the order of their names.",
			Run:   "weir replay events.jsonl",
			Flow:  "the conversation, by its chain of events",
			Sees:  "Actions and observations, tasks given to other agents, sums of tokens where the state tells them.",
			Blind: "What a child agent does belongs to a conversation of its own; times have no zone and are taken for UTC."},
	}
}
