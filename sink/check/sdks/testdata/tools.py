"""Calls tools of weir mcp by the official SDK: tools.py stdio|http PLACE... and lines of JSON on standard input."""
import asyncio
import importlib.metadata
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

transport, place = sys.argv[1], sys.argv[2:]
calls = [json.loads(line) for line in sys.stdin if line.strip()]


async def ask(streams):
    read, write = streams[0], streams[1]
    async with ClientSession(read, write) as session:
        await session.initialize()
        print("mcp", importlib.metadata.version("mcp"), transport, flush=True)
        print(json.dumps([tool.name for tool in (await session.list_tools()).tools]))
        for call in calls:
            result = await session.call_tool(call["name"], call["arguments"])
            print(result.model_dump_json(by_alias=True, exclude_none=True))


async def main():
    if transport == "stdio":
        async with stdio_client(StdioServerParameters(command=place[0], args=place[1:])) as streams:
            await ask(streams)
        return
    import httpx2 as httpx
    from mcp.client.streamable_http import streamable_http_client

    client = httpx.AsyncClient(headers={"Authorization": "Bearer " + place[1]})
    async with streamable_http_client(place[0], http_client=client) as streams:
        await ask(streams)


asyncio.run(main())
