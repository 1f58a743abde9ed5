package canonical

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "canonical", Format: "canonical", Sample: "golden/canonical/basic.in",
			Set:   "Have the program write events of weir's own, as schemas/event.v1.json defines them, one per line.",
			Run:   "weir replay events.jsonl",
			Flow:  "correlation_id, as the program sets it",
			Sees:  "All that the program writes down.",
			Blind: "What it leaves out: no had_work and no tools means that work is unknown, and unknown is never taken for none."},
	}
}
