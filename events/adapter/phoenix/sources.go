package phoenix

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "phoenix", Format: "phoenix", Sample: "exports/phoenix/loop.json.gz",
			Known: []string{"arize-phoenix"},
			Set:   "Save GET /v1/projects/PROJECT/spans, or get_spans_dataframe().to_json(PATH, orient=\"records\", lines=True). Live, send the OpenInference spans to weir, too.",
			Run:   "weir replay spans.json",
			Flow:  "session.id where it is set, else the trace",
			Sees:  "What the OpenInference spans told: agents, tools with arguments and results, tokens.",
			Blind: "What has not ended. Pages are read in the order in which they are given: those of one trace belong into one file."},
	}
}
