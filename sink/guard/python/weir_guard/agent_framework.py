"""The guard before the tools of Microsoft Agent Framework.

    Agent(client=client, tools=[search, write], middleware=[guarded(guard, flow=cid, source="planner")])
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware

from . import Decision, Guard, grants

__all__ = ["guarded"]


def guarded(guard: Guard, *, ask: bool = True, interrupt: bool = False, granted: Optional[Callable[[Decision], Any]] = None, **call: Any) -> FunctionMiddleware:
    """A middleware of an agent. Weir counts each call of its tools and hears of the result; a call that is refused
    is not executed, and the model reads why. call are fields of Call; flow may be a function that returns the flow.

    With interrupt, a call of a held flow asks for approval: the run ends with a function_approval_request, over
    AG-UI with an interrupt. A person who approves has granted more before, or granted does it: it is called with
    the decision, see grants.Grant. If the flow is still held then, the model reads why: the framework takes one
    approval for a call."""
    return _Guarded(guard, ask, interrupt, granted, call)


class _Guarded(FunctionMiddleware):
    def __init__(self, guard: Guard, ask: bool, interrupt: bool, granted: Optional[Callable[[Decision], Any]], call: Dict[str, Any]) -> None:
        self._guard, self._ask, self._interrupt, self._granted, self._call = guard, ask, interrupt, granted, call

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Any]) -> None:
        metadata = context.metadata
        arguments = context.arguments if isinstance(context.arguments, dict) else dict(context.arguments)
        about = {"source": "agent", "call_id": str(metadata.get("call_id", "")), **self._call, "tool": context.function.name}
        if callable(about.get("flow")):
            about["flow"] = about["flow"]()
        begun = await self._guard.abegin(**about, arguments=arguments, ask=self._ask)
        if begun.decision.action == "hold" and self._interrupt:
            if metadata.get("approval_response") is None:
                context.result = _request(context, arguments, begun.decision)
                return
            if self._granted:
                await grants.give(self._granted, begun.decision)
                begun = await self._guard.abegin(**about, arguments=arguments, ask=self._ask)
        if begun.decision.stopped:
            context.result = begun.decision.agent_message
            return
        with begun:
            await call_next()
            begun.result = _text(context.result)


def _request(context: FunctionInvocationContext, arguments: Dict[str, Any], decision: Decision) -> Content:
    """Asks a person about the call."""
    call_id = context.metadata["call_id"]
    id = context.metadata.get("function_call_occurrence_id") or call_id
    call = Content.from_function_call(call_id=call_id, name=context.function.name, arguments=arguments, id=id)
    return Content.from_function_approval_request(id=id, function_call=call, additional_properties=grants.about(decision))


def _text(result: Any) -> Any:
    """What a tool returned, without the ids that the framework puts around it."""
    if isinstance(result, list) and all(isinstance(item, Content) for item in result):
        return "\n".join(item.text or str(item) for item in result)
    return result
