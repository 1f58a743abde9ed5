"""An agent of Pydantic AI behind AG-UI whose flow is held: interrupt_pydantic_ai.py URL TOKEN GRANTS."""

import asyncio
import json

from ag_ui.core import ResumeEntry, RunAgentInput, UserMessage
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter

from interrupted import ended, guard, held, report, search
from weir_guard.pydantic_ai import guarded


async def model(messages, info):
    made = sum(part.part_kind == "tool-return" for m in messages for part in m.parts)
    if made < 5:
        yield {0: DeltaToolCall("search", json.dumps({"page": made}), tool_call_id=f"call-{made}")}
    else:
        yield "done"


tools = guarded(guard, FunctionToolset([search]), **held)
agent = Agent(FunctionModel(stream_function=model), toolsets=[tools], output_type=[str, DeferredToolRequests])


async def run(n, messages, resume=None):
    given = RunAgentInput(thread_id="t", run_id=f"r{n}", state={}, messages=messages, tools=[], context=[], forwarded_props={}, resume=resume)
    adapter = AGUIAdapter(agent=agent, run_input=given)
    events = [e async for e in adapter.run_stream(on_complete=lambda result: setattr(adapter, "kept", result))]
    history = AGUIAdapter.dump_messages(adapter.kept.all_messages()) if hasattr(adapter, "kept") else messages
    return history, ended(events[-1])


async def main():
    history, interrupts = await run(1, [UserMessage(id="u", content="find it")])
    for n in (2, 3):
        if interrupts:
            history, interrupts = await run(n, history, [ResumeEntry(interrupt_id=i.id, status="resolved", payload={"approved": True}) for i in interrupts])


asyncio.run(main())
report("pydantic-ai-slim", "ag-ui-protocol")
