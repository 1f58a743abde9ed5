package crewai

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "crewai", Format: "crewai", Sample: "real/crewai/delegate_pingpong.jsonl.gz",
			Set:   "A listener on the event bus (BaseEventListener) that writes event.to_json() of every event, one per line.",
			Run:   "weir replay bus.jsonl",
			Flow:  "one run of a crew, or correlation_id in its inputs",
			Sees:  "Delegations and questions to coworkers, refused ones too, tools with arguments and results, tokens.",
			Blind: "Agents of one role cannot be told apart. The log holds the keys of models: weir reads none of it, but keep it safe."},
	}
}
