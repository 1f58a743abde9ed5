package autogen

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "autogen", Format: "autogen", Sample: "real/autogen/swarm_handoff_pingpong.core_events.jsonl.gz",
			Known: []string{"autogen-agentchat"},
			Title: "AutoGen (its OpenTelemetry spans are read, too, as otel-genai, with what its runtime writes of tools; for AG2 use these)",
			Set:   "logging.getLogger(\"autogen_core.events\") at INFO to a file, one message per line, with logging.Formatter(\"%(asctime)s %(name)s %(message)s\"): only the messages of teams have times of their own.",
			Run:   "weir replay core_events.jsonl",
			Flow:  "the run of a team (the uuid in its AgentIds), or correlation_id in metadata; all that runs outside of a team is one flow of its log, marked as derived",
			Sees:  "Who speaks after whom in teams, handoffs, tools with arguments and results, tokens.",
			Blind: "Times of tools and requests, unless the formatter adds them; the logger autogen_agentchat.events is no JSON and is not read."},
	}
}
