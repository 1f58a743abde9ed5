"""An agent of Pydantic AI behind AG-UI whose flow is held: interrupt_pydantic_ai.py URL TOKEN GRANTS. It prints how
each run ended, what the interrupt says, and how many tools ran."""

import asyncio
import importlib.metadata
import json
import sys

from ag_ui.core import ResumeEntry, RunAgentInput, UserMessage
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter

from weir_guard import Guard
from weir_guard.grants import Grant
from weir_guard.pydantic_ai import guarded

url, token, grants = sys.argv[1:]
guard = Guard(url, token=token)
ran = 0


def search(page: int) -> str:
    """Searches."""
    global ran
    ran += 1
    return f"entry {page} says {page * page}"


async def model(messages, info):
    made = sum(part.part_kind == "tool-return" for m in messages for part in m.parts)
    if made < 5:
        yield {0: DeltaToolCall("search", json.dumps({"page": made}), tool_call_id=f"call-{made}")}
    else:
        yield "done"


tools = guarded(guard, FunctionToolset([search]), flow="held", source="planner", interrupt=True, granted=Grant(url, token, calls=10, by="ann") if grants == "yes" else None)
agent = Agent(FunctionModel(stream_function=model), toolsets=[tools], output_type=[str, DeferredToolRequests])
rows = []


async def run(n, messages, resume=None):
    given = RunAgentInput(thread_id="t", run_id=f"r{n}", state={}, messages=messages, tools=[], context=[], forwarded_props={}, resume=resume)
    adapter = AGUIAdapter(agent=agent, run_input=given)
    history = None
    events = [e async for e in adapter.run_stream(on_complete=lambda result: setattr(adapter, "kept", result))]
    history = AGUIAdapter.dump_messages(adapter.kept.all_messages()) if hasattr(adapter, "kept") else messages
    last = events[-1]
    interrupts = getattr(getattr(last, "outcome", None), "interrupts", None) or []
    rows.append({"end": last.type.value, "outcome": getattr(getattr(last, "outcome", None), "type", ""), "message": getattr(last, "message", ""), "metadata": [i.metadata for i in interrupts], "ran": ran})
    return history, interrupts


async def main():
    history, interrupts = await run(1, [UserMessage(id="u", content="find it")])
    for n in (2, 3):
        if interrupts:
            history, interrupts = await run(n, history, [ResumeEntry(interrupt_id=i.id, status="resolved", payload={"approved": True}) for i in interrupts])


asyncio.run(main())
guard.close()
print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in ("pydantic-ai-slim", "ag-ui-protocol")}, "runs": rows}))
