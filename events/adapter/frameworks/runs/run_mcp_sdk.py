"""The MCP SDK, client and server in one process, by its own telemetry, below a span of the program."""
import asyncio
import telemetry as t
p = t.provider()
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
server = MCPServer("shop")
server.tool()(t.lookup_order)
server.tool()(t.refund)
LOOP = [("lookup_order", {"order_id": "A-17"})] * 12
HONEST = [("lookup_order", {"order_id": "A-17"}), ("lookup_order", {"order_id": "A-18"}), ("refund", {"order_id": "A-17", "amount": 5})]


async def main():
    async with Client(server) as client:
        with trace.get_tracer("shop").start_as_current_span("run"):
            for name, args in LOOP if t.CASE == "loop" else HONEST:
                await client.call_tool(name, args)
asyncio.run(main())
p.shutdown()
