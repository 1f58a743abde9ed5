"""What a guard tells weir of itself: which orders by hand it enforces, and what became of the calls
that were in flight when they came."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Set

from . import by_hand

if TYPE_CHECKING:
    from . import Begun, Call

# Seconds between heartbeats where weir does not answer when the next one is due, as an older one.
EVERY = 2.0  # while the guard holds an order by hand
IDLE = 20.0  # while it holds none
AGAIN = 60.0  # where weir knows no heartbeats
LEAST = 0.25  # that weir may set, and until a heartbeat without an answer is sent again
MOST = 60.0  # that weir may set
TIMEOUT = 1.0  # of the answer
_MOST = 1 << 16  # calls that are watched
_MOST_OPEN = 20  # calls that a heartbeat names
_MOST_THREADS = 32  # that call calls off
_IDLE = 1.0  # seconds after which such a thread ends


def due(answer: bytes) -> Optional[float]:
    """Reads the answer to a heartbeat: the seconds until the next one; None if it sets no time within bounds."""
    try:
        ms = json.loads(answer)["next_ms"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(ms) is not int or not LEAST * 1000 <= ms <= MOST * 1000:
        return None
    return ms / 1000


class _Flight:
    def __init__(self) -> None:
        self.calls = self.ended = self.cancelled = 0
        self.open: Set["Begun"] = set()


class _Threads:
    """Runs what calls calls off, which may wait for another server. The thread that enforces orders
    does not wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self._threads = 0

    def run(self, fn: Callable[[], None]) -> None:
        self._work.put(fn)
        with self._lock:
            if self._threads < _MOST_THREADS:
                self._threads += 1
                threading.Thread(target=self._turn, name="weir-cancel", daemon=True).start()

    def _turn(self) -> None:
        while True:
            try:
                self._work.get(timeout=_IDLE)()
            except queue.Empty:
                with self._lock:
                    if self._work.empty():
                        self._threads -= 1
                        return


class Flights:
    """The calls that have begun and not ended. Any thread may use it."""

    def __init__(self) -> None:
        self.threads = _Threads()
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
            flights, room = [], _MOST_OPEN
            for id, f in sorted(self._orders.items()):
                names = _names(f.open, room)
                room -= len(names)
                flights.append({"verdict": id, "calls": f.calls, "ended": f.ended, "cancelled": f.cancelled, "open": names})
            return {"in_flight": len(self._open), "flights": flights}


def _names(calls: Set["Begun"], most: int) -> List[Dict[str, str]]:
    """Names calls that have not ended, and says whether they were cancelled."""
    out = []
    for begun in sorted(calls, key=lambda b: b._since)[:most]:
        c = begun.call
        name = {"flow": c.flow, "from": c.source or c.source_agent, "to": c.target or c.target_agent, "tool": c.tool, "cancel": begun.cancel, "why": begun.why}
        out.append({key: value for key, value in name.items() if value})
    return out
