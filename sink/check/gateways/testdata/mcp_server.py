"""An MCP server with one tool, by the official SDK, on the port that is given."""

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("orders")


@server.tool()
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return "order " + order_id


uvicorn.run(server.streamable_http_app(json_response=True), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
