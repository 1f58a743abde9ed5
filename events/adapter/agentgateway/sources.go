package agentgateway

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "agentgateway", Format: "agentgateway", Sample: "golden/agentgateway/json.in",
			Set: "frontendPolicies.accessLog.add: {correlation_id: request.headers[\"x-correlation-id\"], mcp.tool.arguments: mcp.tool.arguments}; text or JSON. " +
				"Its traces are read as otel-genai.",
			Run:   "weir replay access.log",
			Flow:  "correlation_id where it was added, else the trace, the A2A context or the MCP session, else all requests of a caller, marked as derived",
			Sees:  "Calls of tools, agents and models when they are over, with tokens for models, refusals of the gateway included.",
			Blind: "Arguments and results, unless they were added; what agents do beside the gateway, so work is unknown."},
	}
}
