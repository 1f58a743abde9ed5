"""The guard before the tools and the hand-overs of the OpenAI Agents SDK.

    Agent(name="planner", tools=guarded(guard, search, write, flow=cid))
    await Runner.run(agent, prompt, hooks=HandoffHooks(guard, flow=cid))
"""

from __future__ import annotations

import dataclasses
from typing import Any, List

from agents import FunctionTool, RunHooks, ToolGuardrailFunctionOutput, ToolInputGuardrail

from . import FlowStopped, Guard

__all__ = ["HandoffHooks", "guarded", "tool_guardrail"]


def guarded(guard: Guard, *tools: FunctionTool, ask: bool = True, **call: Any) -> List[FunctionTool]:
    """The same tools. Weir counts each call and hears of its result; a call that is refused is not
    executed, and the model reads why. call are fields of Call; the caller is the agent where they
    do not say otherwise."""

    def wrap(tool: FunctionTool) -> FunctionTool:
        execute = tool.on_invoke_tool

        async def invoke(context: Any, arguments: str) -> Any:
            source = getattr(getattr(context, "agent", None), "name", "") or "agent"
            about = {"source": source, "call_id": getattr(context, "tool_call_id", ""), **call, "tool": tool.name}
            begun = await guard.abegin(**about, arguments=arguments or "{}", ask=ask)
            if begun.decision.stopped:
                return begun.decision.agent_message
            try:
                with begun:
                    begun.result = await begun.awaited(execute(context, arguments))
                    return begun.result
            except FlowStopped as err:
                if begun.stop is None:
                    raise
                return err.decision.agent_message

        return dataclasses.replace(tool, on_invoke_tool=invoke)

    return [wrap(tool) for tool in tools]


def tool_guardrail(guard: Guard, **call: Any) -> ToolInputGuardrail[Any]:
    """A guardrail for tool_input_guardrails that decides from memory and reports nothing, for
    programs whose telemetry reports calls. call are fields of Call; the caller is the agent and the
    tool its own where they do not say otherwise. A call that is refused is not executed, and the
    model reads why."""

    def decide(data: Any) -> ToolGuardrailFunctionOutput:
        d = guard.check(**{"source": data.agent.name, "tool": data.context.tool_name, **call})
        if d.stopped:
            return ToolGuardrailFunctionOutput.reject_content(d.agent_message, output_info={"reason_code": d.reason, "verdict_id": d.verdict_id})
        return ToolGuardrailFunctionOutput.allow()

    return ToolInputGuardrail(guardrail_function=decide, name="weir")


class HandoffHooks(RunHooks[Any]):
    """Hooks of a run that report each hand-over to weir, and end the run with FlowStopped before
    one that is refused."""

    def __init__(self, guard: Guard, **call: Any) -> None:
        self._guard, self._call = guard, call

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        begun = await self._guard.abegin(**{"source": from_agent.name, "target": to_agent.name, **self._call})
        if begun.decision.stopped:
            raise begun.decision.error()
