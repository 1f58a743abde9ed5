"""An agent of the OpenAI Agents SDK whose model, a script, wants to search three times and then to hand over."""

import asyncio
import json
import sys

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from weir_guard import FlowStopped, Guard
from weir_guard.openai_agents import HandoffHooks, guarded

url, flow = sys.argv[1:]
set_tracing_disabled(True)
guard = Guard(url, quiet=True)
ran, saw = [], []


@function_tool
def search(query: str) -> str:
    """Searches."""
    ran.append(query)
    return "found"


class Script(Model):
    def __init__(self, *names):
        self.names = list(names)

    async def get_response(self, system_instructions, input, *rest, **more):
        if isinstance(input, list):
            saw[:] = [item["output"] for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if self.names:
            n = len(self.names)
            out = ResponseFunctionToolCall(type="function_call", call_id=f"c{n}", name=self.names.pop(0), arguments='{"query": "x"}')
        else:
            out = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[ResponseOutputText(type="output_text", text="done", annotations=[])])
        return ModelResponse(output=[out], usage=Usage(), response_id=None)

    def stream_response(self, *args, **more):
        raise NotImplementedError("this script does not stream")


async def main():
    writer = Agent(name="writer", model=Script())
    planner = Agent(name="planner", tools=guarded(guard, search, flow=flow), handoffs=[writer], model=Script("search", "search", "search", "transfer_to_writer"))
    try:
        end = (await Runner.run(planner, "search", hooks=HandoffHooks(guard, flow=flow))).last_agent.name
    except FlowStopped as err:
        end = err.decision.reason
    print(json.dumps({"ran": len(ran), "saw": saw[:3], "end": end}))


asyncio.run(main())
guard.close()
