"""An agent of Microsoft Agent Framework behind AG-UI whose flow is held: interrupt_agent_framework.py URL TOKEN
GRANTS."""

import asyncio
import json

from agent_framework import Agent, BaseChatClient, ChatResponse, ChatResponseUpdate, Content, FunctionInvocationLayer, Message, ResponseStream
from agent_framework_ag_ui import AgentFrameworkAgent

from interrupted import ended, guard, held, report, search
from weir_guard.agent_framework import guarded


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        made = sum(c.type == "function_result" for m in messages for c in m.contents)
        said = Content.from_function_call(call_id=f"call-{made}", name="search", arguments=json.dumps({"page": made})) if made < 5 else Content.from_text("done")

        async def updates():
            yield ChatResponseUpdate(role="assistant", contents=[said], response_id="r")

        async def response():
            return ChatResponse(messages=[Message(role="assistant", contents=[said])], response_id="r")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else response()


agent = Agent(client=Scripted(), name="planner", tools=[search], middleware=[guarded(guard, **held)])
served = AgentFrameworkAgent(agent=agent, require_confirmation=False)


async def run(n, messages, resume=None):
    given = {"thread_id": "t", "run_id": f"r{n}", "messages": messages, "state": {}, "tools": [], "context": [], "forwarded_props": {}}
    if resume:
        given["resume"] = resume
    events = [e async for e in served.run(given)]
    for e in events:
        if e.type.value == "MESSAGES_SNAPSHOT":
            messages = [m.model_dump(by_alias=True, exclude_none=True) for m in e.messages]
    return messages, ended(events[-1])


async def main():
    history, interrupts = await run(1, [{"id": "u", "role": "user", "content": "find it"}])
    for n in (2, 3):
        if interrupts:
            history, interrupts = await run(n, history, [{"interruptId": i.id, "status": "resolved", "payload": {"accepted": True, "approved": True}} for i in interrupts])


asyncio.run(main())
report("agent-framework-core", "agent-framework-ag-ui", "ag-ui-protocol")
