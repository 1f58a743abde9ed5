package llamaindex

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "llamaindex-events", Format: "llamaindex", Sample: "real/llama_index/handoff_pingpong.events.jsonl.gz",
			Set:   "Write {\"event\": type(ev).__name__, \"data\": ev.model_dump()} for each event of handler.stream_events(), one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "what follows from one message of the user, marked as derived: it only warns",
			Sees:  "Handoffs and tools with arguments and results, as they begin.",
			Blind: "Times and tokens; its spans (llamaindex) tell both."},
	}
}
