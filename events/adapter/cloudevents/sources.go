package cloudevents

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "cloudevents", Format: "cloudevents", Sample: "golden/cloudevents/structured.in",
			Set:   "Wrap events of weir's own into CloudEvents 1.0, structured mode, type weir.KIND.v1; the extension correlationid is the flow.",
			Run:   "weir replay cloudevents.jsonl",
			Flow:  "correlationid, or correlation_id in the data",
			Sees:  "As weir's own format; attributes fill in what the data does not say.",
			Blind: "CloudEvents of other types."},
	}
}
