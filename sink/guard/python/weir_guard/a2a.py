"""weir's extension of A2A: in which flow a message is sent, how many agents have handed work on before it,
and what the flow may still use. The standard library alone.

    hop = a2a.read(message.metadata) or a2a.Hop(flow=cid)  # what the message in hand says
    if hop.refused(): ...                                  # answer with an error
    with weir_guard.working(hop.work("planner")):
        d = guard.ask(target="coder", tell=True)           # counts, and says what is left
        if d.stopped: raise d.error()
        a2a.put(request.message, hop.next(d.remaining))    # raises Spent where it must not be sent
"""

from __future__ import annotations

import datetime
import math
import re
import time
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, Mapping, Optional

from . import Remaining, Work

__all__ = ["HEADER", "URI", "Hop", "Spent", "max_hops", "put", "read"]

URI = "urn:weir:a2a:flow:v1"
HEADER = "A2A-Extensions"  # X-A2A-Extensions before version 1.0

_MOST = (1 << 31) - 1
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Spent(Exception):
    """A message must not be sent. member says why: hops, calls, tokens, usd or until."""

    def __init__(self, member: str) -> None:
        self.member = member
        super().__init__(f"the message may not be handed on: {member} of {URI}")


@dataclass(frozen=True)
class Hop:
    """What a message says. None says nothing."""

    flow: str = ""
    parent: str = ""  # the flow that opened this one
    root: str = ""  # the first flow of the tree
    hops: int = 0  # agents that have handed work on before this message was sent, its sender included
    max_hops: Optional[int] = None
    calls: Optional[float] = None  # what the receiver and all that it calls may still use
    tokens: Optional[float] = None
    usd: Optional[float] = None
    until: Optional[float] = None  # seconds since 1970

    def refused(self, now: Optional[float] = None) -> str:
        """Why an agent must not work on a message that it received; "" if it may."""
        if self.max_hops is not None and self.hops > self.max_hops:
            return "hops"
        if self.tokens is not None and self.tokens <= 0:
            return "tokens"
        if self.usd is not None and self.usd <= 0:
            return "usd"
        if self.until is not None and (time.time() if now is None else now) >= self.until:
            return "until"
        return ""

    def next(self, remaining: Iterable[Remaining] = (), card: Optional[int] = None, now: Optional[float] = None) -> "Hop":
        """The Hop for a message that an agent sends while it works on this one. remaining are those of the
        decision about it; card is max_hops of its receiver's card. Raises Spent where it must not be sent."""
        if self.calls is not None and self.calls < 1:
            raise Spent("calls")
        calls = None if self.calls is None else self.calls - 1
        left = {"calls": calls, "tokens": self.tokens, "usd": self.usd, "until": self.until}
        for r in remaining:
            name, value = (r.unit, max(0, r.left)) if r.unit in ("calls", "tokens", "usd") else ("until", r.until)
            if value is not None and (left[name] is None or value < left[name]):
                left[name] = value
        limits = [limit for limit in (self.max_hops, card) if limit is not None]
        hop = replace(self, hops=self.hops + 1, max_hops=min(limits) if limits else None, **left)
        refused = hop.refused(now)
        if refused:
            raise Spent(refused)
        return hop

    def work(self, party: str, agent: str = "") -> Work:
        """The work that begins with the message: party works on it."""
        return Work(self.flow, party, agent, self.root or self.parent)

    def value(self) -> Dict[str, Any]:
        """What metadata get under URI."""
        value: Dict[str, Any] = {name: word for name, word in (("flow", self.flow), ("parent", self.parent), ("root", self.root)) if word}
        value["hops"] = self.hops
        if self.max_hops is not None:
            value["max_hops"] = self.max_hops
        left: Dict[str, Any] = {name: figure for name, figure in (("calls", self.calls), ("tokens", self.tokens), ("usd", self.usd)) if figure is not None}
        if self.until is not None:
            at = datetime.datetime.fromtimestamp(self.until, datetime.timezone.utc)
            left["until"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if left:
            value["remaining"] = left
        return value


def read(metadata: Any) -> Optional[Hop]:
    """Reads the extension from the metadata of a message: a mapping, or the Struct of the A2A SDK. None
    where it is not there. A member that cannot be read counts as missing."""
    value = _member(metadata, URI)
    if not _is_object(value):
        return None
    remaining = _member(value, "remaining")
    if not _is_object(remaining):
        remaining = {}
    left = {name: None if (f := _number(_member(remaining, name))) is None else max(0.0, f) for name in ("calls", "tokens", "usd")}
    return Hop(
        flow=_word(_member(value, "flow")), parent=_word(_member(value, "parent")), root=_word(_member(value, "root")),
        hops=_count(_member(value, "hops")) or 0, max_hops=_count(_member(value, "max_hops")), until=_when(_member(remaining, "until")), **left,
    )


def put(message: Any, hop: Hop) -> None:
    """Writes the extension into a message: a mapping, or one of the A2A SDK."""
    if isinstance(message, dict):
        message["metadata"] = {**(message.get("metadata") or {}), URI: hop.value()}
        names = message["extensions"] = list(message.get("extensions") or ())
    else:
        if getattr(message, "metadata", None) is None:
            message.metadata = {}  # of SDKs before version 1.0
        if hasattr(message.metadata, "update"):
            message.metadata.update({URI: hop.value()})
        if getattr(message, "extensions", None) is None:
            message.extensions = []
        names = message.extensions
    if URI not in names:
        names.append(URI)


def max_hops(card: Any) -> Optional[int]:
    """max_hops of an agent card: a mapping, or the AgentCard of the A2A SDK."""
    capabilities = card.get("capabilities") if isinstance(card, Mapping) else getattr(card, "capabilities", None)
    extensions = capabilities.get("extensions") if isinstance(capabilities, Mapping) else getattr(capabilities, "extensions", None)
    for extension in extensions or ():
        uri, params = (extension.get("uri"), extension.get("params")) if isinstance(extension, Mapping) else (extension.uri, extension.params)
        if uri == URI and params is not None:
            return _count(_member(params, "max_hops"))
    return None


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "items")


def _member(of: Any, name: str) -> Any:
    try:
        return of[name] if _is_object(of) and name in of else None
    except (KeyError, ValueError, TypeError):
        return None


def _word(value: Any) -> str:
    ok = isinstance(value, str) and len(value.encode("utf-8", "replace")) <= 256 and not any(c < " " for c in value)
    return value if ok else ""


def _number(value: Any) -> Optional[float]:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if ok else None


def _count(value: Any) -> Optional[int]:
    number = _number(value)
    return int(number) if number is not None and 0 <= number <= _MOST and number == int(number) else None


def _when(value: Any) -> Optional[float]:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        at = datetime.datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'zZ' else zone}")
    except ValueError:
        return None
    return at.timestamp() + int((fraction or "0")[:3].ljust(3, "0")) / 1000
