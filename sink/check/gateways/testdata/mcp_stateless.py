"""Calls tools by the official SDK without a session, within a span of OpenTelemetry and a flow named in
baggage: a tool that asks again and again to be called anew, polls of a task, and one call that is the
same each time. Prints what came of each as JSON."""

import asyncio
import json
import sys

from mcp import Client
from mcp_types import Request
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider

url, flow = sys.argv[1:]
trace.set_tracer_provider(TracerProvider())
seen = {"waits": [], "polls": [], "repeats": []}


async def main():
    context.attach(baggage.set_baggage("correlation_id", flow))
    with trace.get_tracer("test").start_as_current_span("run"):
        async with Client(url, mode="2026-07-28") as client:
            for _ in range(6):
                done = await client.call_tool("wait_for", {"job": "1"})
                seen["waits"].append(done.content[0].text)
            for _ in range(40):
                try:
                    await client.session.send_request(Request(method="tasks/get", params={"taskId": "t"}), dict)
                except Exception as err:
                    seen["polls"].append(str(err))
            for _ in range(40):
                done = await client.call_tool("lookup_order", {"order_id": "1"})
                seen["repeats"].append(done.content[0].text)
                if done.is_error:
                    break


asyncio.run(main())
print(json.dumps(seen), flush=True)
