"""Calls a tool by the official SDK once more than is allowed and prints what its caller sees then."""

import asyncio
import json
import sys

from mcp import Client

url, mode, flow, allowed = sys.argv[1:]


async def main():
    async with Client(url, mode=mode) as client:
        meta = {"baggage": "correlation_id=" + flow}
        for n in range(int(allowed)):
            first = await client.call_tool("lookup_order", {"order_id": f"1{n}"}, meta=meta)
            assert not first.is_error, first
        try:
            second = await client.call_tool("lookup_order", {"order_id": "2"}, meta=meta)
            seen = {"kind": "result", "error": second.is_error, "text": second.content[0].text, "reason": (second.structured_content or {}).get("reason_code", "")}
        except Exception as err:
            error = getattr(err, "error", None)
            data = getattr(error, "data", None)
            seen = {"kind": "exception", "error": True, "text": str(err), "reason": data.get("reason_code", "") if isinstance(data, dict) else ""}
    print(json.dumps(seen), flush=True)


try:
    asyncio.run(main())
except BaseExceptionGroup as err:
    # Envoy may close the connection behind its refusal before the SDK has read it: then
    # the caller's exception comes out of the client's end, not of the call.
    print(json.dumps({"kind": "exception", "error": True, "text": str(err), "reason": ""}), flush=True)
