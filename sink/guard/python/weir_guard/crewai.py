"""The guard before the tools of CrewAI.

    crewai.hooks.register_before_tool_call_hook(before_tool_call(guard, flow=cid))
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import Guard

__all__ = ["before_tool_call"]


def before_tool_call(guard: Guard, **call: Any) -> Callable[[Any], Optional[bool]]:
    """A hook for before_tool_call. call are fields of Call; the caller is the agent's role
    where they do not say otherwise. A call that is refused is not executed; what the model
    reads then are CrewAI's own words."""

    def decide(context: Any) -> Optional[bool]:
        source = getattr(context.agent, "role", "") or "crewai"
        return False if guard.check(**{"source": source, "tool": context.tool_name, **call}).stopped else None

    return decide
