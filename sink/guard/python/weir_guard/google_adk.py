"""The guard before the tools of Google's ADK.

    InMemoryRunner(agent, plugins=[guarded(guard, flow=cid)])
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from google.adk.plugins.base_plugin import BasePlugin

from . import Begun, Guard

__all__ = ["guarded"]

_MOST_OPEN = 1024  # calls whose end was not heard of


def guarded(guard: Guard, *, ask: bool = True, **call: Any) -> BasePlugin:
    """A plugin of a runner. Weir counts each call of a tool and hears of its result; a call that
    is refused is not executed, and the model reads why. call are fields of Call; the caller is the
    agent where they do not say otherwise."""
    return _Plugin(guard, ask, call)


class _Plugin(BasePlugin):
    def __init__(self, guard: Guard, ask: bool, call: Dict[str, Any]) -> None:
        super().__init__(name="weir")
        self._guard, self._ask, self._call = guard, ask, call
        self._begun: Dict[str, Begun] = {}

    async def before_tool_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any) -> Optional[Dict[str, Any]]:
        id = tool_context.function_call_id or ""
        about = {"source": tool_context.agent_name, "call_id": id, **self._call, "tool": tool.name}
        begun = await self._guard.abegin(**about, arguments=tool_args, ask=self._ask)
        if begun.decision.stopped:
            return {"error": begun.decision.agent_message}
        self._begun[id] = begun
        while len(self._begun) > _MOST_OPEN:
            del self._begun[next(iter(self._begun))]
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any, result: Any) -> Optional[Dict[str, Any]]:
        begun = self._begun.pop(tool_context.function_call_id or "", None)
        if begun is not None:
            begun.finish(result)
        return None

    async def on_tool_error_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any, error: Exception) -> Optional[Dict[str, Any]]:
        begun = self._begun.pop(tool_context.function_call_id or "", None)
        if begun is not None:
            begun.finish(error=error)
        return None
