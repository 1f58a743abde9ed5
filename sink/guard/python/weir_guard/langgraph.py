"""The guard before the tools of LangGraph, tools that hand over among them.

    ToolNode(tools, wrap_tool_call=guarded(guard, flow=cid, source="planner"))
    create_agent(model, tools, middleware=[wrap_tool_call(guarded(guard, flow=cid, source="planner"))])
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict

from langchain_core.messages import ToolMessage

from . import Begun, Decision, FlowStopped, Guard

__all__ = ["aguarded", "guarded"]


def guarded(guard: Guard, *, report: bool = True, ask: bool = True, **call: Any) -> Callable[[Any, Callable[[Any], Any]], Any]:
    """What ToolNode takes as wrap_tool_call. call are fields of Call, tool excepted. Weir counts
    each call and hears of its result; a call that is refused is not executed, and the model reads
    why. With ask=False calls are decided from memory, see Guard.begin. With report=False they are
    decided from memory and not reported, for programs whose telemetry reports them."""

    def wrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        about = _about(request, call)
        if not report:
            d = guard.check(**about)
            return _refusal(request, d) if d.stopped else execute(request)
        begun = guard.begin(**about, arguments=request.tool_call["args"], ask=ask)
        if begun.decision.stopped:
            return _refusal(request, begun.decision)
        with begun:
            result = execute(request)
            _finish(begun, result)
            return result

    return wrap


def aguarded(guard: Guard, *, report: bool = True, ask: bool = True, **call: Any) -> Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]:
    """The same as awrap_tool_call."""

    async def wrap(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        about = _about(request, call)
        if not report:
            d = guard.check(**about)
            return _refusal(request, d) if d.stopped else await execute(request)
        begun = await guard.abegin(**about, arguments=request.tool_call["args"], ask=ask)
        if begun.decision.stopped:
            return _refusal(request, begun.decision)
        try:
            with begun:
                result = await begun.awaited(execute(request))
                _finish(begun, result)
                return result
        except FlowStopped as err:
            if begun.stop is None:
                raise
            return _refusal(request, err.decision)

    return wrap


def _about(request: Any, call: Dict[str, Any]) -> Dict[str, Any]:
    return {"source": "agent", "call_id": request.tool_call["id"] or "", **call, "tool": request.tool_call["name"]}


def _finish(begun: Begun, result: Any) -> None:
    content = getattr(result, "content", result)
    if getattr(result, "status", "") == "error":
        begun.finish(error=content)
    else:
        begun.finish(content)


def _refusal(request: Any, d: Decision) -> ToolMessage:
    return ToolMessage(content=d.agent_message, name=request.tool_call["name"], tool_call_id=request.tool_call["id"], status="error")
