"""The guard before the tools of AG2.

    Agent("planner", config=config, tools=[search], middleware=[guarded(guard, flow=cid, source="planner")])
"""

from __future__ import annotations

from typing import Any, Callable

from ag2.events import ToolErrorEvent, ToolResultEvent
from ag2.middleware import BaseMiddleware

from . import FlowStopped, Guard

__all__ = ["guarded"]


def guarded(guard: Guard, *, ask: bool = True, **call: Any) -> Callable[[Any, Any], BaseMiddleware]:
    """A middleware of an agent. Weir counts each call of a tool and hears of its result; a call
    that is refused is not executed, and the model reads why. call are fields of Call."""

    class Guarded(BaseMiddleware):
        async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
            about = {"source": "agent", "call_id": event.id, **call, "tool": event.name}
            begun = await guard.abegin(**about, arguments=event.arguments or "{}", ask=ask)
            if begun.decision.stopped:
                return ToolResultEvent.from_call(event, begun.decision.agent_message)
            try:
                with begun:
                    result = await begun.awaited(call_next(event, context))
                    if isinstance(result, ToolErrorEvent):
                        begun.finish(error=result.error)
                    else:
                        begun.finish(_said(result))
                    return result
            except FlowStopped as err:
                if begun.stop is None:
                    raise
                return ToolResultEvent.from_call(event, err.decision.agent_message)

    return Guarded


def _said(event: Any) -> Any:
    parts = getattr(getattr(event, "result", None), "parts", None)
    if parts is None:
        return str(event)
    return "\n".join(str(getattr(part, "content", getattr(part, "data", part))) for part in parts)
