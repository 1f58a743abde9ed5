"""An agent of Microsoft Agent Framework behind AG-UI whose flow is held: interrupt_agent_framework.py URL TOKEN
GRANTS. It prints what interrupt_pydantic_ai.py prints."""

import asyncio
import importlib.metadata
import json
import sys

from agent_framework import Agent, BaseChatClient, ChatResponse, ChatResponseUpdate, Content, FunctionInvocationLayer, Message, ResponseStream
from agent_framework_ag_ui import AgentFrameworkAgent

from weir_guard import Guard
from weir_guard.agent_framework import guarded
from weir_guard.grants import Grant

url, token, grants = sys.argv[1:]
guard = Guard(url, token=token)
ran = 0


def search(page: int) -> str:
    """Searches."""
    global ran
    ran += 1
    return f"entry {page} says {page * page}"


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        made = sum(c.type == "function_result" for m in messages for c in m.contents)
        said = Content.from_function_call(call_id=f"call-{made}", name="search", arguments=json.dumps({"page": made})) if made < 5 else Content.from_text("done")

        async def updates():
            yield ChatResponseUpdate(role="assistant", contents=[said], response_id="r")

        async def response():
            return ChatResponse(messages=[Message(role="assistant", contents=[said])], response_id="r")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else response()


agent = Agent(client=Scripted(), name="planner", tools=[search],
              middleware=[guarded(guard, flow="held", source="planner", interrupt=True, granted=Grant(url, token, calls=10, by="ann") if grants == "yes" else None)])
served = AgentFrameworkAgent(agent=agent, require_confirmation=False)
rows = []


async def run(n, messages, resume=None):
    given = {"thread_id": "t", "run_id": f"r{n}", "messages": messages, "state": {}, "tools": [], "context": [], "forwarded_props": {}}
    if resume:
        given["resume"] = resume
    events = [e async for e in served.run(given)]
    last = events[-1]
    for e in events:
        if e.type.value == "MESSAGES_SNAPSHOT":
            messages = [m.model_dump(by_alias=True, exclude_none=True) for m in e.messages]
    outcome = getattr(last, "outcome", None)
    interrupts = getattr(outcome, "interrupts", None) or []
    rows.append({"end": last.type.value, "outcome": getattr(outcome, "type", ""), "message": getattr(last, "message", None) or "", "metadata": [i.metadata for i in interrupts], "ran": ran})
    return messages, interrupts


async def main():
    history, interrupts = await run(1, [{"id": "u", "role": "user", "content": "find it"}])
    for n in (2, 3):
        if interrupts:
            history, interrupts = await run(n, history, [{"interruptId": i.id, "status": "resolved", "payload": {"accepted": True, "approved": True}} for i in interrupts])


asyncio.run(main())
guard.close()
print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in ("agent-framework-core", "agent-framework-ag-ui", "ag-ui-protocol")}, "runs": rows}))
