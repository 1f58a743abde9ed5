"""Orders that persons give about scopes (weir stop): which calls they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Tuple

if TYPE_CHECKING:
    from . import Call

KINDS = frozenset(("all", "tenant", "team", "project", "principal", "service", "agent", "tool", "model", "tree", "flow"))


def stops(v: Mapping[str, Any], c: "Call") -> bool:
    """Whether an order by hand binds the call, however long it lasts. It binds a person's call as well."""
    hand = v["by_hand"]
    return _fits(v.get("scope") or {}, c) and all(_fits(s, c) for s in hand.get("within") or ()) and not _excepted(hand.get("except") or (), c)


def understood(v: Mapping[str, Any]) -> bool:
    """Whether the guard can hold a call against the order. Where it cannot, as with a scope of a
    later version, it does not know what is stopped."""
    hand = v["by_hand"]
    return all(s.get("kind") in KINDS for s in (v.get("scope") or {}, *(hand.get("within") or ()), *(hand.get("except") or ())))


def typed(v: Dict[str, Any]) -> None:
    """Refuses an order of another form."""
    hand = v["by_hand"]
    if not isinstance(hand, dict):
        raise ValueError("by_hand is no object")
    for name in ("within", "except"):
        scopes: List[Any] = hand.get(name) or []
        if not isinstance(scopes, list) or not all(isinstance(s, dict) and isinstance(s.get("kind"), str) and isinstance(s.get("id"), str) for s in scopes):
            raise ValueError(f"by_hand.{name} has what is no scope")


def _excepted(exceptions: Any, c: "Call") -> bool:
    """An exception of agents holds for a call of which each party is excepted: a stopped agent does
    not work because an excepted one calls it."""
    if any(s["kind"] != "agent" and _fits(s, c) for s in exceptions):
        return True
    parties: List[Tuple[str, str]] = []
    if c.source or c.source_agent:
        parties.append((c.source, c.source_agent))
    if not c.tool and (c.target or c.target_agent):
        parties.append((c.target, c.target_agent))
    return bool(parties) and all(any(s["kind"] == "agent" and (glob(s["id"], id) or glob(s["id"], agent)) for s in exceptions) for id, agent in parties)


def _fits(scope: Mapping[str, Any], c: "Call") -> bool:
    """A call that does not name what the scope is about fits no pattern."""
    kind, pattern = scope.get("kind", ""), scope.get("id", "")
    if kind == "all":
        return True
    names = {
        "tenant": (c.tenant_id,),
        "team": (c.team_id,),
        "project": (c.project_id,),
        "principal": (c.principal,),
        "service": (c.service,),
        "agent": (c.source, c.source_agent, c.target, c.target_agent),
        "tool": (c.tool,),
        "model": (c.model,),
        "tree": (c.root_correlation_id, c.flow_key),
        "flow": (c.flow_key,),
    }.get(kind, ())
    return any(glob(pattern, name) for name in names)


def glob(pattern: str, text: str) -> bool:
    """Whether a pattern fits a text that is not empty: a star stands for any text, a question mark
    for one character."""
    if not text:
        return False
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    i = j = start = 0
    star = -1
    while j < len(text):
        if i < len(pattern) and pattern[i] == "*":
            star, start = i, j
            i += 1
        elif i < len(pattern) and pattern[i] in ("?", text[j]):
            i, j = i + 1, j + 1
        elif star >= 0:  # let the last star stand for one character more
            start += 1
            i, j = star + 1, start
        else:
            return False
    return not pattern[i:].strip("*")
