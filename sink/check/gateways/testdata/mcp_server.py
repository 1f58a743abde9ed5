"""An MCP server with two tools, by the official SDK, on the port that is given."""

import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import InputRequiredResult

server = MCPServer("orders")


@server.tool()
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return "order " + order_id


@server.tool()
async def wait_for(job: str, ctx: Context) -> str | InputRequiredResult:
    """Wait for a job, by having the client look again eight times."""
    looks = int(ctx.request_state or 0)
    return "done" if looks == 8 else InputRequiredResult(request_state=str(looks + 1))


uvicorn.run(server.streamable_http_app(json_response=True), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
