"""What a guard tells weir of itself: which orders by hand it enforces, and what became of the calls
that were in flight when they came."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Set

from . import by_hand

if TYPE_CHECKING:
    from . import Begun, Call

EVERY = 2.0  # seconds between heartbeats
AGAIN = 60.0  # the same where weir knows none, as an older one
_MOST = 1 << 16  # calls that are watched


class _Flight:
    def __init__(self) -> None:
        self.calls = self.ended = self.cancelled = 0
        self.open: Set["Begun"] = set()


class Flights:
    """The calls that have begun and not ended. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Set["Begun"] = set()
        self._orders: Dict[str, _Flight] = {}
        self.kick = threading.Event()  # have a heartbeat sent now

    def begin(self, begun: "Begun") -> None:
        with self._lock:
            if len(self._open) < _MOST:  # a program that never ends its calls
                self._open.add(begun)

    def end(self, begun: "Begun") -> None:
        with self._lock:
            self._open.discard(begun)
            for flight in self._orders.values():
                if begun in flight.open:
                    flight.open.discard(begun)
                    flight.ended += 1
                    flight.cancelled += begun.cancelled
                    self.kick.set()

    def by_hand(self, v: Mapping[str, Any], introduce: Callable[["Call"], "Call"]) -> None:
        """Notes an order by hand that is enforced from now on, or that was released. It cancels the
        calls that the order binds, as far as they can be."""
        stopped: List["Begun"] = []
        with self._lock:
            order, clears = str(v["id"]).partition("-")[0], v.get("action") == "allow"
            for id in [id for id in self._orders if id.partition("-")[0] == order]:
                if id == v["id"] and not clears:
                    return  # heard again
                del self._orders[id]
            if not clears:
                flight = self._orders[str(v["id"])] = _Flight()
                stopped = [b for b in self._open if by_hand.stops(v, introduce(b.call))]
                flight.calls, flight.open = len(stopped), set(stopped)
        for begun in stopped:
            begun._cancel(v)
        self.kick.set()

    def told(self) -> Dict[str, Any]:
        """The part of a heartbeat about calls."""
        with self._lock:
            flights = [{"verdict": id, "calls": f.calls, "ended": f.ended, "cancelled": f.cancelled} for id, f in sorted(self._orders.items())]
            return {"in_flight": len(self._open), "flights": flights}
