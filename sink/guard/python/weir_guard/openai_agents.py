"""The guard before the tools and the hand-overs of the OpenAI Agents SDK.

    @function_tool(tool_input_guardrails=[tool_guardrail(guard, flow=cid)])
    def search(query: str) -> str: ...

    await Runner.run(agent, prompt, hooks=HandoffHooks(guard, flow=cid))
"""

from __future__ import annotations

from typing import Any

from agents import RunHooks, ToolGuardrailFunctionOutput, ToolInputGuardrail

from . import Guard

__all__ = ["HandoffHooks", "tool_guardrail"]


def tool_guardrail(guard: Guard, **call: Any) -> ToolInputGuardrail[Any]:
    """A guardrail for tool_input_guardrails. call are fields of Call; the caller is the
    agent and the tool its own where they do not say otherwise. A call that is refused is
    not executed, and the model reads why."""

    def decide(data: Any) -> ToolGuardrailFunctionOutput:
        d = guard.check(**{"source": data.agent.name, "tool": data.context.tool_name, **call})
        if d.stopped:
            return ToolGuardrailFunctionOutput.reject_content(d.agent_message, output_info={"reason_code": d.reason, "verdict_id": d.verdict_id})
        return ToolGuardrailFunctionOutput.allow()

    return ToolInputGuardrail(guardrail_function=decide, name="weir")


class HandoffHooks(RunHooks[Any]):
    """Hooks of a run that end it with FlowStopped before a hand-over that is refused."""

    def __init__(self, guard: Guard, **call: Any) -> None:
        self._guard, self._call = guard, call

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        d = self._guard.check(**{"source": from_agent.name, "target": to_agent.name, **self._call})
        if d.stopped:
            raise d.error()
