"""The guard before the tools of Pydantic AI.

    Agent(model, toolsets=[guarded(guard, FunctionToolset([search, write]), flow=cid, source="planner")])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional

from pydantic_ai.toolsets import AbstractToolset, WrapperToolset

from . import Decision, FlowStopped, Guard, grants

__all__ = ["guarded"]


def guarded(guard: Guard, toolset: AbstractToolset[Any], *, ask: bool = True, interrupt: bool = False, granted: Optional[Callable[[Decision], Any]] = None, **call: Any) -> AbstractToolset[Any]:
    """The same tools. Weir counts each call and hears of its result; a call that is refused is not
    executed, and the model reads why. call are fields of Call; the caller is the agent where they
    do not say otherwise; flow may be a function that returns the flow.

    With interrupt, a call of a held flow waits for approval, as a tool that requires it: the run ends with
    DeferredToolRequests, over AG-UI with an interrupt whose metadata say what holds the flow. A person who
    approves has granted more before, or granted does it: it is called with the decision, see grants.Grant. A flow
    that is still held interrupts again."""
    return _Guarded(toolset, guard, ask, call, interrupt, granted)


@dataclass
class _Guarded(WrapperToolset[Any]):
    guard: Guard = None  # type: ignore[assignment]
    ask: bool = True
    call: Dict[str, Any] = field(default_factory=dict)
    interrupt: bool = False
    granted: Optional[Callable[[Decision], Any]] = None

    async def call_tool(self, name: str, tool_args: Dict[str, Any], ctx: Any, tool: Any) -> Any:
        source = getattr(getattr(ctx, "agent", None), "name", "") or "agent"
        about = {"source": source, "call_id": ctx.tool_call_id or "", **self.call, "tool": name}
        if callable(about.get("flow")):
            about["flow"] = about["flow"]()
        begun = await self.guard.abegin(**about, arguments=tool_args, ask=self.ask)
        if begun.decision.action == "hold" and self.interrupt:
            if ctx.tool_call_approved and self.granted:
                await grants.give(self.granted, begun.decision)
                begun = await self.guard.abegin(**about, arguments=tool_args, ask=self.ask)
            if begun.decision.action == "hold":
                from pydantic_ai.exceptions import ApprovalRequired

                raise ApprovalRequired(metadata=grants.about(begun.decision))
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
