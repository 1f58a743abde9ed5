"""The guard before plain functions, for frameworks without an adapter here.

    search = guarded(guard, search, flow=cid, source="planner")

Most frameworks make a tool of a function: give them the guarded one.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Optional, TypeVar, cast

from . import Guard

__all__ = ["guarded"]

F = TypeVar("F", bound=Callable[..., Any])


def _opaque(value: Any) -> bool:
    """An object that is written as its address, which differs in each call."""
    kind = type(value)
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__


def guarded(
    guard: Guard,
    fn: F,
    *,
    ask: bool = True,
    arguments: Optional[Callable[..., Any]] = None,
    refused: Callable[[str], Any] = lambda message: message,
    **call: Any,
) -> F:
    """The same function, checked before each call; fn may be async. Name, signature and documentation stay, because
    frameworks describe the tool by them. Weir counts each call and reads the hash of its result. A refused call does not
    run: it returns a text for the model, or what refused makes of that text. call are fields of Call; flow may be a function that returns the flow, the
    caller is "agent" and the tool is the name of fn unless call has others. All arguments are hashed but objects
    without a text of their own. If a framework passes more than those of the model, such as a context, arguments gets
    them and returns what to hash. A generator function is not supported."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{fn.__name__} is a generator function; guard a function that returns its result")
    signature = inspect.signature(fn)
    about: Dict[str, Any] = {"source": "agent", "tool": getattr(fn, "__name__", "function"), **call}

    def begin(args: Any, kwargs: Any) -> Dict[str, Any]:
        try:
            given: Any = arguments(*args, **kwargs) if arguments else {k: v for k, v in signature.bind(*args, **kwargs).arguments.items() if not _opaque(v)}
        except TypeError:  # the function itself reports it
            given = {"args": list(args), **kwargs}
        flow = about.get("flow", "")
        return {**about, "flow": flow() if callable(flow) else flow, "arguments": given, "ask": ask}

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            begun = await guard.abegin(**begin(args, kwargs))
            if begun.decision.stopped:
                return refused(begun.decision.agent_message)
            with begun:
                begun.result = await fn(*args, **kwargs)
                return begun.result

        return cast(F, awaited)

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        begun = guard.begin(**begin(args, kwargs))
        if begun.decision.stopped:
            return refused(begun.decision.agent_message)
        with begun:
            begun.result = fn(*args, **kwargs)
            return begun.result

    return cast(F, called)
