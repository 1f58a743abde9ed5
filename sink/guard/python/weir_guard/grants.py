"""A flow that is held waits for a person. An adapter makes a question of the hold, and a Grant of the answer.

    guarded(guard, tools, flow=cid, interrupt=True, granted=Grant(url, operator_token, calls=20))
"""

from __future__ import annotations

import asyncio
import inspect
import json
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Callable, Dict

if TYPE_CHECKING:
    from . import Decision

__all__ = ["Grant", "about", "give"]


class Grant:
    """Gives a held flow more: calls, tokens, dollars or seconds, for for_s seconds, over the limits that hold it.
    token is one of an operator. The program that holds it has to know that the person who answers may decide."""

    def __init__(self, url: str, token: str, *, calls: int = 0, tokens: int = 0, cost_usd: float = 0.0, duration_s: int = 0, for_s: int = 3600, reason: str = "approved", by: str = "", timeout: float = 10.0) -> None:
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout
        self._more: Dict[str, Any] = {"for_s": for_s, "reason": reason}
        for name, value in (("calls", calls), ("tokens", tokens), ("cost_usd", cost_usd), ("duration_s", duration_s), ("by", by)):
            if value:
                self._more[name] = value

    def __call__(self, decision: "Decision") -> None:
        """Raises OSError where weir does not take it."""
        request = urllib.request.Request(
            f"{self._url}/v1/flows/{urllib.parse.quote(decision.flow, safe='')}/grant", json.dumps(self._more).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer " + self._token}, method="POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=self._timeout) as answer:
            answer.read()


def about(decision: "Decision") -> Dict[str, Any]:
    """What a person has to know of a hold, for the metadata of an interrupt."""
    said: Dict[str, Any] = {"flow": decision.flow, "reason": decision.reason, "message": decision.message, "verdict_id": decision.verdict_id}
    if decision.limit is not None and decision.observed is not None:
        said.update(limit=decision.limit, observed=decision.observed)
    return {"weir": said}


async def give(granted: Callable[["Decision"], Any], decision: "Decision") -> None:
    """Calls granted in a thread, and awaits here what it returns if it is async."""
    answer = await asyncio.to_thread(granted, decision)
    if inspect.isawaitable(answer):
        await answer
