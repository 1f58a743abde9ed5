"""The guard before the tools of LangGraph, tools that hand over among them.

    ToolNode(tools, wrap_tool_call=guarded(guard, flow=cid, source="planner"))
    create_agent(model, tools, middleware=[wrap_tool_call(guarded(guard, flow=cid, source="planner"))])
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable

from langchain_core.messages import ToolMessage

from . import Decision, Guard

__all__ = ["aguarded", "guarded"]


def guarded(guard: Guard, *, ask: bool = False, **call: Any) -> Callable[[Any, Callable[[Any], Any]], Any]:
    """What ToolNode takes as wrap_tool_call. call are fields of Call, tool excepted. A call
    that is refused is not executed, and the model reads why. With ask, weir counts it."""
    decide = guard.ask if ask else guard.check

    def wrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        d = decide(tool=request.tool_call["name"], **call)
        return _refusal(request, d) if d.stopped else execute(request)

    return wrap


def aguarded(guard: Guard, **call: Any) -> Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]:
    """The same as awrap_tool_call."""

    async def wrap(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        d = guard.check(tool=request.tool_call["name"], **call)
        return _refusal(request, d) if d.stopped else await execute(request)

    return wrap


def _refusal(request: Any, d: Decision) -> ToolMessage:
    return ToolMessage(content=d.agent_message, name=request.tool_call["name"], tool_call_id=request.tool_call["id"], status="error")
