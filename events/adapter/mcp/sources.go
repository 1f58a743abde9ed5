package mcp

import "weir/events/adapter"

// Sources returns the source whose logs this package reads, as the page of sources shows it.
func Sources() []adapter.Source {
	return []adapter.Source{
		{Name: "mcp", Format: "mcp", Sample: "real/mcp/tool_loop_meta.jsonl.gz",
			Set:   "Put a proxy before the server that logs requests and responses, one JSON object each (time, direction, exchange, proxy, headers, body).",
			Run:   "weir replay mcp.jsonl",
			Flow:  "baggage or trace in _meta or headers, else the MCP session, else all calls of a client, marked as derived: it only warns",
			Sees:  "Every call of a tool with arguments and result, as it is sent; also of calls that become tasks. A look at a task before its pollIntervalMs counts as a call of its own.",
			Blind: "Agents: a client is one party, whoever in it calls. Tokens, turns, calls between agents."},
	}
}
