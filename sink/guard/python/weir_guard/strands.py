"""The guard before the tools of Strands Agents.

    Agent(model=model, tools=[search], hooks=[guarded(guard, flow=cid)])
"""

from __future__ import annotations

from typing import Any, Dict

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookProvider, HookRegistry

from . import Begun, Guard

__all__ = ["guarded"]

_MOST_OPEN = 1024  # calls whose end was not heard of


def guarded(guard: Guard, *, ask: bool = True, **call: Any) -> HookProvider:
    """Hooks of an agent. Weir counts each call of a tool and hears of its result; a call that is
    refused is not executed, and the model reads why. call are fields of Call; the caller is the
    agent where they do not say otherwise."""
    return _Hooks(guard, ask, call)


class _Hooks(HookProvider):
    def __init__(self, guard: Guard, ask: bool, call: Dict[str, Any]) -> None:
        self._guard, self._ask, self._call = guard, ask, call
        self._begun: Dict[str, Begun] = {}

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self._before)
        registry.add_callback(AfterToolCallEvent, self._after)

    async def _before(self, event: BeforeToolCallEvent) -> None:
        use = event.tool_use
        about = {"source": event.agent.name, "call_id": use["toolUseId"], **self._call, "tool": use["name"]}
        begun = await self._guard.abegin(**about, arguments=use["input"], ask=self._ask)
        if begun.decision.stopped:
            event.cancel_tool = begun.decision.agent_message
            return
        self._begun[use["toolUseId"]] = begun
        while len(self._begun) > _MOST_OPEN:
            del self._begun[next(iter(self._begun))]

    async def _after(self, event: AfterToolCallEvent) -> None:
        begun = self._begun.pop(event.tool_use["toolUseId"], None)
        if begun is None:
            return
        result: Any = event.result
        content = result.get("content") if isinstance(result, dict) else result
        if event.exception is not None or isinstance(result, dict) and result.get("status") == "error":
            begun.finish(error=event.exception or content)
        else:
            begun.finish(content)
