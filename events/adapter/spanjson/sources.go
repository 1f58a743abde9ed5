package spanjson

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "span-exports", Format: "spanjson", Sample: "exports/spans/loop.console.json.gz",
			Known: []string{"jaeger", "zipkin", "stdouttrace", "console-exporter", "mlflow-trace"},
			Set:   "Download traces as JSON from Jaeger (its page, GET /api/traces, or its indexes in Elasticsearch) or Zipkin, keep what a console exporter prints (Python, Go), or save trace.to_json() of MLflow.",
			Run:   "weir replay trace.json",
			Flow:  "as with OpenTelemetry spans: a correlation id in baggage, the session where one is named, else the trace",
			Sees:  "What the spans tell by their attributes.",
			Blind: "Events of spans, so contents that only stand in them."},
	}
}
