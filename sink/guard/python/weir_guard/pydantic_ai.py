"""The guard before the tools of Pydantic AI.

    Agent(model, toolsets=[guarded(guard, FunctionToolset([search, write]), flow=cid, source="planner")])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict

from pydantic_ai.toolsets import AbstractToolset, WrapperToolset

from . import FlowStopped, Guard

__all__ = ["guarded"]


def guarded(guard: Guard, toolset: AbstractToolset[Any], *, ask: bool = True, **call: Any) -> AbstractToolset[Any]:
    """The same tools. Weir counts each call and hears of its result; a call that is refused is not
    executed, and the model reads why. call are fields of Call; the caller is the agent where they
    do not say otherwise."""
    return _Guarded(toolset, guard, ask, call)


@dataclass
class _Guarded(WrapperToolset[Any]):
    guard: Guard = None  # type: ignore[assignment]
    ask: bool = True
    call: Dict[str, Any] = field(default_factory=dict)

    async def call_tool(self, name: str, tool_args: Dict[str, Any], ctx: Any, tool: Any) -> Any:
        source = getattr(getattr(ctx, "agent", None), "name", "") or "agent"
        about = {"source": source, "call_id": ctx.tool_call_id or "", **self.call, "tool": name}
        begun = await self.guard.abegin(**about, arguments=tool_args, ask=self.ask)
        if begun.decision.stopped:
            return begun.decision.agent_message
        try:
            with begun:
                begun.result = await begun.awaited(super().call_tool(name, tool_args, ctx, tool))
                return begun.result
        except FlowStopped as err:
            if begun.stop is None:
                raise
            return err.decision.agent_message
