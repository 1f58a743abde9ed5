package langfuse

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "langfuse-export", Format: "langfuse", Sample: "exports/langfuse/loop.json.gz",
			Set:   "Export observations (the table of traces, GET /api/public/observations or /v2/observations, GET /api/public/traces/ID, the page of a trace, or the export to blob storage; JSON, JSONL or CSV) with their input and output.",
			Run:   "weir replay observations.json",
			Flow:  "the session where the export names it, else the trace",
			Sees:  "What the spans told that the observations were made of.",
			Blind: "What was exported without input and output has no arguments and no results."},
	}
}
