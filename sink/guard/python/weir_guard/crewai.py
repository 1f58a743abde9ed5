"""The guard before the tools of CrewAI.

    guarded(guard, flow=cid)
    Crew(agents=[...], tasks=[...]).kickoff()
"""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Tuple

from . import Begun, Guard

__all__ = ["before_tool_call", "guarded"]

_MOST_OPEN = 1024  # calls whose end was not heard of


def guarded(guard: Guard, *, ask: bool = True, **call: Any) -> Callable[[], None]:
    """Registers hooks before and after each call of a tool in this process, and returns what takes
    them away again. Weir counts each call and hears of its result. call are fields of Call; the
    caller is the agent's role where they do not say otherwise. A call that is refused is not
    executed; what the model reads then are CrewAI's own words."""
    from crewai import hooks

    calls: List[Tuple[int, str, Begun]] = []
    lock = threading.Lock()

    def before(context: Any) -> Optional[bool]:
        source = getattr(context.agent, "role", "") or "agent"
        begun = guard.begin(**{"source": source.strip(), **call, "tool": context.tool_name}, arguments=context.tool_input, ask=ask)
        if begun.decision.stopped:
            return False
        with lock:
            calls.append((threading.get_ident(), context.tool_name, begun))
            del calls[:-_MOST_OPEN]
        return None

    def after(context: Any) -> None:
        with lock:
            mine = [c for c in calls if c[:2] == (threading.get_ident(), context.tool_name)] or [c for c in calls if c[1] == context.tool_name]
            if mine:
                calls.remove(mine[-1])
        if mine:
            mine[-1][2].finish(context.tool_result)

    hooks.register_before_tool_call_hook(before)
    hooks.register_after_tool_call_hook(after)

    def unregister() -> None:
        hooks.unregister_before_tool_call_hook(before)
        hooks.unregister_after_tool_call_hook(after)

    return unregister


def before_tool_call(guard: Guard, **call: Any) -> Callable[[Any], Optional[bool]]:
    """A hook for register_before_tool_call_hook that decides from memory and reports nothing, for
    programs whose telemetry reports calls."""

    def decide(context: Any) -> Optional[bool]:
        source = getattr(context.agent, "role", "") or "crewai"
        return False if guard.check(**{"source": source, "tool": context.tool_name, **call}).stopped else None

    return decide
