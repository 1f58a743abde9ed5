package otlplogs

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "claude-code-otel", Format: "otlplogs", Sample: "golden/otlplogs/claude_code.in",
			Title: "OpenTelemetry logs of Claude Code",
			Set: "CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/json and an endpoint; OTEL_LOG_TOOL_DETAILS=1 " +
				"for arguments.",
			Run:   "weir replay logs.jsonl",
			Flow:  "one prompt of the user (prompt.id), else the session",
			Sees:  "Uses of tools when they are over, tokens, money and errors of every request.",
			Blind: "Texts of results, so results of one size count as the same; which agent called which."},
	}
}
