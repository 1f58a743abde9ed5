"""Honor weir's verdicts in a dispatcher. The standard library alone, Python 3.9 or later; this folder may be copied.

    guard = weir_guard.Guard("http://127.0.0.1:8080")
    d = guard.check(flow=cid, source="planner", target="coder")
    if d.stopped: raise d.error()

A Guard follows the standing orders in a background thread and answers from memory
whether a call may be made: check never waits for the network. The guard itself waits
when it is made, until it knows the orders that stand. ask asks weir instead,
which counts the call in the same step. When weir is away, orders that are known stay in
force until they expire, other calls are allowed, and a local limiter holds each flow to
three times the limits in force.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import datetime
import email.utils
import hashlib
import hmac
import http.client
import io
import json
import logging
import math
import os
import queue
import random
import re
import secrets
import select
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import uuid
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Awaitable, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from . import beats, by_hand

__all__ = ["Begun", "Bounds", "Call", "Decision", "FlowStopped", "Forecast", "Guard", "Remaining", "Work", "current_work", "read_keys", "working"]

_log = logging.getLogger("weir.guard")

_STOPS = ("throttle", "deny", "hold", "halt")
_UNCOUNTED = ("s", "tokens", "usd", "none", "")  # units to which a call does not add one
_ARMED = {
    "Limit used up, the next call will be rejected: ": "Agent call rejected: ",
    "Limit used up, from the next call on the flow waits for a person: ": "Flow held for a person to decide: ",
    "Limit used up, the next call waits for a person: ": "Call held for a person to decide: ",
}
_LEEWAY = 3  # how many times over its limits a flow may go while weir is away
_CLOCKS_APART = 5.0  # seconds: more than what the time in an answer leaves out and what it takes to come
_SHORTEST, _LONGEST = 0.1, 5.0  # seconds between two tries to connect
_MOST_MESSAGE = (1 << 18) + 4096  # bytes of a message of the stream: a verdict, its id and its signature
_MOST_ID = 1024  # characters of the id of a message
_MOST_ANSWER = 1 << 20  # bytes of any other answer
_MOST_ASKS = 64  # that one request may make, as weir has it
_MOST_REQUESTS = 32  # of asks at one time; weir rejects those beyond some hundreds
_MOST_IDLE = 8  # connections of asks that are kept while nobody uses them
_IDLE = 30.0  # seconds that one is kept for; weir would close it after 120
_MOST_BOUND = 1 << 40  # more than any limit of weir
_REMEMBERED = 3600.0  # seconds for which the last revision of an order is remembered at least
_NEVER, _FRESH, _STALE = range(3)
_UNREACHABLE = (502, 503, 504)  # statuses by which an address reaches no weir that can answer
_FORGET_UNSEEN = 60.0  # seconds after which a flow with few checks makes room for another one
_HEARD_WITHIN = 5.0  # seconds within which telemetry is expected to report a call that was checked
_MOST_WAIT = (1 << 31) - 1  # seconds to wait that are told at most
_LAST_SECOND = 253402300800  # of the year 9999 is the one before
_ORDER_ID = re.compile("([0-9a-f]{16})-")
# As weir writes and reads times; the fraction apart, of which Python 3.9 reads three digits or six.
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Call:
    """What is about to be sent. An order that names something else does not match a
    call that does not tell it. A call of an agent without source is taken for a
    person's, which nothing refuses."""

    flow: str = ""
    source: str = ""  # the caller, by session or by agent, as the events name it
    target: str = ""
    source_agent: str = ""  # the agents beside their sessions
    target_agent: str = ""
    tool: str = ""  # makes it the call of a tool
    args_hash: str = ""  # algorithm:hex, made as in the events that are reported
    args_sim: str = ""  # simhash64:hex of the arguments, see hashes.sim_args
    content_hash: str = ""
    turn_id: str = ""
    task_id: str = ""
    conversation_id: str = ""
    project_id: str = ""
    tenant_id: str = ""
    team_id: str = ""
    model: str = ""  # that the call is about, or made for
    service: str = ""  # the program that calls, for orders by hand; default: the name of the guard
    principal: str = ""  # whose token weir knows the guard by, for orders by hand; weir says it
    root_correlation_id: str = ""  # the first flow of the tree that the flow belongs to, as the events name it
    origin: str = ""  # user, agent, scheduler, applet, system
    call_id: str = ""  # of the call of a tool; joins it with its result
    background: bool = False  # the caller does not wait for the agent that it calls
    had_work: Optional[bool] = None  # for ask: did the caller use tools or make something since it was called
    tell: bool = False  # for ask: bring what is left of each limit, also where the limits set tell for none

    @property
    def kind(self) -> str:
        return "tool.call" if self.tool else "agent.call"

    @property
    def by_person(self) -> bool:
        return self.origin == "user" or not (self.origin or self.tool or self.source or self.source_agent)

    @property
    def flow_key(self) -> str:
        return self.flow or "agent:" + (self.target or self.target_agent or self.source or self.source_agent)


@dataclass(frozen=True)
class Work:
    """What a dispatcher knows of what it has handed to an agent: in which flow the agent
    works and who it is. It travels in the context of the dispatcher (contextvars) and in
    the headers of its requests; the agent does not see it."""

    flow: str
    party: str = ""  # who works, by session or by agent
    agent: str = ""  # the agent beside the session
    root: str = ""  # the first flow of the tree that the flow belongs to

    def headers(self) -> Dict[str, str]:
        """The headers for a request to another dispatcher."""
        return {name: value for name, value in zip(_WORK_HEADERS, (self.flow, self.party, self.agent, self.root)) if value}

    @staticmethod
    def from_headers(headers: Mapping[str, str]) -> Optional["Work"]:
        """The work that the headers of a request name; None when they name no flow. Whoever
        sends the request can write them: take them from dispatchers alone."""
        given = {name.lower(): value for name, value in headers.items()}
        flow, party, agent, root = (given.get(name.lower(), "") for name in _WORK_HEADERS)
        return Work(flow, party, agent, root) if flow else None


_WORK_HEADERS = ("X-Correlation-Id", "X-Agent-Id", "X-Agent-Name", "X-Root-Correlation-Id")
_work: "contextvars.ContextVar[Optional[Work]]" = contextvars.ContextVar("weir_work", default=None)


def current_work() -> Optional[Work]:
    """The work that goes on here; None for none."""
    return _work.get()


@contextlib.contextmanager
def working(work: Optional[Work]) -> Iterator[None]:
    """What is done within is done in the work."""
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)


def _in_work(call: Call) -> Call:
    """Fills in what an agent's call does not say with the work that goes on, and makes ids of its
    names. What people, schedulers and applets send belongs to no work."""
    call = _filled(call)
    bad = {name: _clip(value) for name in _NAMES for value in (getattr(call, name),) if not (value.isascii() and value.isprintable() and len(value) <= _MOST_NAME)}
    return replace(call, **bad) if bad else call


_NAMES = ("flow", "source", "target", "source_agent", "target_agent", "tool", "turn_id", "task_id", "conversation_id", "project_id", "tenant_id", "team_id", "model", "service", "root_correlation_id", "call_id")
_MOST_NAME = 256  # bytes
_HASH = re.compile("(?:xxh64|sha256|sha1|md5|blake3|sha512):[0-9a-f]{16,128}")
_SIM = re.compile("simhash64:[0-9a-f]{16}")


def _clip(name: str) -> str:
    """Leaves out what no id may hold, and what is longer than an id, as gateways do: weir rejects
    an event with a name that is no id, and an agent that may choose a name could have each of its
    calls rejected so."""
    text = "".join(c for c in name if c >= " ").encode("utf-8", "ignore")
    return text[:_MOST_NAME].decode("utf-8", "ignore")


def _filled(call: Call) -> Call:
    work = _work.get()
    if work is None or call.origin not in ("", "agent"):
        return call
    if not call.flow:
        call = replace(call, flow=work.flow, root_correlation_id=call.root_correlation_id or work.root)
    if not call.source and not call.source_agent:
        call = replace(call, source=work.party, source_agent=work.agent)
    return call


@dataclass(frozen=True)
class Bounds:
    """The limits that the local limiter multiplies; 0 means none."""

    calls: int = 100
    tool_calls: int = 0
    rate: int = 60
    window: float = 60.0  # seconds


@dataclass(frozen=True)
class Forecast:
    """The expected final spend of a flow, in the unit of its budget. The figures are None when too few good
    runs came as far: the final spend is unknown."""

    runs: int  # good runs of the same kind that came as far
    low: Optional[float] = None  # one run in twenty spends less
    expected: Optional[float] = None
    high: Optional[float] = None  # one run in twenty spends more


@dataclass(frozen=True)
class Remaining:
    """What is left of one limit after a call that was asked for."""

    rule: str
    left: float
    limit: float
    unit: str
    until: Optional[float] = None  # of a limit of time: when it is used up, in seconds since 1970
    forecast: Optional[Forecast] = None  # of a budget; None when the limits have no forecasts


@dataclass(frozen=True)
class Decision:
    """What a guard says of a call."""

    action: str  # allow, warn, throttle, deny, hold (the flow waits for a person) or halt
    source: str  # table, weir, stale_open, stale_closed, local_limit or error_open
    stale: bool = False  # the orders may be out of date
    flow: str = ""
    reason: str = ""
    limit: Optional[float] = None
    observed: Optional[float] = None
    retry_after: float = 0.0  # seconds; 0: waiting does not help
    verdict_id: str = ""
    message: str = ""  # for people
    agent_message: str = ""  # for the model: fixed words and numbers only
    remaining: Tuple[Remaining, ...] = ()  # told by ask alone
    note: str = ""  # for the model, of a call that may be made: little is left; told by ask alone
    held_until: Optional[float] = None  # of a hold: when it ends without a decision, in seconds since 1970

    @property
    def stopped(self) -> bool:
        return self.action in _STOPS

    @property
    def advice(self) -> str:
        """back_off, ask_user or finish_with_partial_work; "" when the call may be made."""
        if not self.stopped:
            return ""
        if self.retry_after > 0 or self.action == "throttle":
            return "back_off"
        return "ask_user" if self.action in ("halt", "hold") else "finish_with_partial_work"

    def error(self) -> "FlowStopped":
        return FlowStopped(self)


class FlowStopped(Exception):
    """A call must not be made. decision says why and what to do."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        text = f"{decision.message} ({decision.reason}"
        if decision.limit is not None and decision.observed is not None:
            text += f", {_number(decision.observed)} of {_number(decision.limit)}"
        super().__init__(text + ")")


@dataclass
class Counts:
    """What a guard has done and seen."""

    allowed: int = 0
    refused: int = 0
    stale_allowed: int = 0
    stale_refused: int = 0
    local_limited: int = 0
    faults: int = 0
    ask_failures: int = 0
    ask_rejected: int = 0  # asks that weir could not read, which refuses the call
    orders: int = 0
    left_out: int = 0  # orders that there was no room for
    unreadable: int = 0
    unsigned: int = 0  # ignored, because nobody signed them
    forged: int = 0  # because the signature is wrong, or of no key that is known
    replayed: int = 0  # because a later revision of the order was heard before
    connections: int = 0
    stales: int = 0
    acked: int = 0
    acks_dropped: int = 0
    reported: int = 0  # calls and results
    reports_dropped: int = 0


@dataclass
class _Spent:
    calls: int = 0
    tools: int = 0
    begun: float = 0.0
    in_window: int = 0
    before: int = 0


@dataclass
class _Message:
    id: str = ""
    event: str = ""
    signature: str = ""
    data: List[str] = field(default_factory=list)
    size: int = 0  # of its lines
    long: bool = False  # it is passed over
    open: bool = False  # so is the line, which did not end yet

    def field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self.data.append(value)
        elif name in ("id", "event", "signature"):
            setattr(self, name, value)


class Guard:
    """Answers whether calls may be made. Any thread may use it."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        fail_closed: bool = False,
        bounds: Bounds = Bounds(),
        name: str = "",
        quiet: bool = False,
        stale_after: float = 5.0,
        ask_timeout: float = 3.0,
        most_flows: int = 65536,
        most_orders: int = 200_000,
        on_decision: Optional[Callable[[Call, Decision], None]] = None,
        keys: Optional[Mapping[str, str]] = None,
        connect: bool = True,
        connect_timeout: float = 2.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Follows weir. It waits for the orders that stand, for connect_timeout seconds at
        most, and no longer than it takes to see that weir is away: without them calls are
        decided as when weir is away. With connect=False it follows nothing.

        With keys, by their ids, orders that weir did not sign by one of them are ignored
        and counted, and so are replays; read_keys reads the file that weir has. Orders beyond
        most_orders are counted as left_out, and the guard is stale until there is room and all
        orders were read again. Stops by an operator have the same room once more.

        The url may be those of several members of a group, with commas between them: the guard uses
        the next one when one does not answer.

        With an https URL, tls says whom to trust and what to show: ssl.create_default_context(
        cafile=...) and its load_cert_chain. By default it is what the system trusts."""
        addresses = [urllib.parse.urlsplit(one.strip()) for one in url.split(",")]
        for at in addresses:
            if at.scheme not in ("http", "https") or not at.hostname or at.port == 0:  # a port that is none raises here, too
                raise ValueError(f"{url!r} is no address of weir; want for example http://127.0.0.1:8080")
        self.counts = Counts()
        self._addresses, self._turn, self._token, self._tls = addresses, 0, token, tls
        self._fail_closed, self._bounds, self._quiet = fail_closed, bounds, quiet
        self._name = name or "guard/" + secrets.token_hex(5)
        self._connects, self._connect_timeout = connect, connect_timeout
        self._stale_after, self._ask_timeout, self._most_flows = stale_after, ask_timeout, most_flows
        self._most_orders, self._held = most_orders, 0
        self._by_hand: Tuple[Mapping[str, Any], ...] = ()  # orders of persons about scopes
        self._principal = ""  # as weir said with the last connection
        self._full = False  # orders were left out and not read again
        self._left_after = ""  # the id of the message before the first of them
        self._log_name = ""  # the log that the last id is of; "" if weir does not say
        self._rereads = False  # the stream was ended for that
        self._reread_next = 0.0  # when they may be read again, by time.monotonic
        self._on_decision = on_decision
        self._keys = dict(keys or {})
        self._heard: Dict[str, Tuple[int, float]] = {}  # by order: the last revision, and until when it is remembered
        self._ignored: List[str] = []  # what was logged
        self._now: Callable[[], float] = time.time
        self._state = _NEVER
        self._alive = 0.0  # when the last sign of life came, by time.monotonic
        self._doubts = 3  # how many flows that are only checked are looked up at weir
        self._warned = self._unreached = self._unasked = False  # what was logged
        self._last_id = ""
        self._orders: Dict[str, Tuple[Mapping[str, Any], ...]] = {}  # lists are replaced whole, so that readers need no lock
        self._wide: Dict[str, Tuple[Mapping[str, Any], ...]] = {}  # orders that bind more than one flow
        self._spent: Dict[str, _Spent] = {}
        self._spent_before: Dict[str, _Spent] = {}
        self._closed = threading.Event()
        self._begin()
        self._flights = beats.Flights()
        _guards.add(self)
        if connect:
            self._start()

    def _begin(self) -> None:
        """What belongs to one process: a lock that another thread held while the process was
        forked would never be given back."""
        self._lock = threading.Lock()  # of the limiter, the serial number, the asks, the parked connections and the threads; never held while anything waits
        self._ready = threading.Event()
        self._tried = threading.Event()  # the orders are known, or the first try failed
        self._serial, self._word = 0, secrets.token_hex(4)  # of ids: guards of one name would else give one id to two asks
        self._under_way = 0  # asks
        self._gathering: Optional[_Asks] = None  # those that the next request will make
        self._requests = threading.BoundedSemaphore(_MOST_REQUESTS)  # of asks
        self._parked: List[Tuple[float, int, Any]] = []  # connections of asks that are free: since when, of which process
        self._reports: "queue.Queue[_Report]" = queue.Queue(1024)
        self._settling = threading.Condition(self._lock)  # of _pending
        self._pending: Dict[str, int] = {}  # reports under way, by flow
        self._unsent = False  # the last batch of reports did not reach weir
        self._dropping = False  # the last batch of reports was dropped, which was logged
        self._doubted: Dict[str, List[float]] = {}  # flows that were only checked: how often, since when
        self._stream: Any = None  # the connection
        self._resolving: Optional[_Resolving] = None
        self._threads: List[threading.Thread] = []
        self._asleep = False  # the process was forked, and nobody has used the guard in it

    def _start(self) -> None:
        """Follows weir, and waits for the orders that stand."""
        with self._lock:
            if not self._threads:
                for work in (self._follow, self._report, self._beat):
                    self._threads.append(threading.Thread(target=work, name="weir-guard", daemon=True))
                for thread in self._threads:
                    thread.start()
                _end_with_process()
            self._asleep = False
        self._tried.wait(self._connect_timeout)

    def _forked(self) -> None:
        """Makes the guard one of this process, which has no threads but the one that forked. It
        keeps the orders, which may be out of date from now on, and follows weir anew when it is
        used: what a process does not ask for does not take a place at weir's."""
        stream, parked = self._stream, self._parked
        for conn in [stream, *(conn for _, _, conn in parked)]:
            _let_go(conn)
        closed, self._closed = self._closed.is_set(), threading.Event()
        if closed:
            self._closed.set()
        self._begin()
        self._flights = beats.Flights()  # of this process
        if self._state == _FRESH:
            self._state = _STALE
        self._held = sum(map(len, self._orders.values())) + sum(map(len, self._wide.values()))
        self._last_id, self._full = "", False  # the order of the last message may not have been taken
        self._asleep = self._connects and not closed

    # What a dispatcher calls.

    def check(self, flow: str = "", source: str = "", target: str = "", **more: Any) -> Decision:
        """Says from memory whether the call may be made; more are the other fields of Call.
        What the call does not say of its flow and its caller is that of the work that goes
        on, see dispatch."""
        call = _in_work(Call(flow, source, target, **more))
        try:
            return self._check(call)
        except Exception:  # a guard must not stop what it guards
            self.counts.faults += 1
            if self.counts.faults == 1:
                _log.exception("the guard failed and let a call through: please report this; more faults are only counted")
            return Decision("allow", "error_open", flow=flow)

    def ask(self, flow: str = "", source: str = "", target: str = "", **more: Any) -> Decision:
        """Asks weir, which counts the call when it may be made. When weir does not answer
        in time the call is decided from memory, within the local limiter. A person's call
        without a flow gets one from weir: Decision.flow."""
        return self._decide(_in_work(Call(flow, source, target, **more)))

    @contextlib.contextmanager
    def dispatch(self, flow: str = "", source: str = "", target: str = "", **more: Any) -> Iterator[Decision]:
        """Asks weir about a call and is the work that it begins: what is done within is done
        in the flow of the call, by its target. Of an agent's call the flow and the caller are
        those of the work that goes on where the call does not say; a call of anybody else that
        names no flow begins a new one. When the call may not be made, nothing begins.

            with guard.dispatch(target="coder") as d:
                if d.stopped: raise d.error()
                run_agent()
        """
        call = _in_work(Call(flow, source, target, **more))
        by_agent = call.origin == "agent" or not (call.origin or call.by_person)
        if not call.flow and not by_agent:
            call = replace(call, flow=str(uuid.uuid4()))
        d = self._decide(call)
        if d.stopped:
            yield d
            return
        with working(Work(call.flow, call.target, call.target_agent, call.root_correlation_id)):
            yield d

    def begin(
        self, flow: str = "", source: str = "", target: str = "", *, arguments: Any = None, message: Any = None, ask: bool = True, **more: Any
    ) -> "Begun":
        """Checks a call and returns it as begun; its finish reports what came of it. Weir counts
        the call in the same step and hears of the result in the background, so that it finds loops
        without any telemetry. arguments are those of the call of a tool and message what an agent
        is sent: they are hashed here and do not leave the process. With ask=False the call is
        decided from memory and reported in the background: it waits for nothing, and a loop runs
        on until the orders about it come. more are the other fields of Call.

            with guard.begin(flow=cid, source="planner", tool="search", arguments={"q": q}) as c:
                c.finish(search(q))  # c.decision.error() is raised when the call is refused
        """
        from .hashes import args_fields, hash_content

        if arguments is not None and "args_hash" not in more:
            more.update(args_fields(arguments))
        if message is not None and "content_hash" not in more:
            more["content_hash"] = hash_content(message)
        call = _in_work(Call(flow, source, target, **more))
        if call.tool and not call.call_id:
            with self._lock:
                self._serial += 1
                call = replace(call, call_id=f"{self._serial:x}-{self._word}")
        ev = self._stamped(_event(call, call.kind))
        if call.had_work is not None:
            ev["had_work"] = call.had_work
        if ask:
            self._settle(call.flow_key)
            d = self._decide(call, dict(ev))
        else:
            with self._lock:
                self._doubted.pop(call.flow, None)
            d = self.check(**{f: getattr(call, f) for f in Call.__dataclass_fields__})
        if not d.stopped and d.source != "weir":
            self._queue_report(call.flow_key, lambda: ev)  # weir did not count it, or its answer was lost: the id is the same
        if d.flow and not call.flow:
            call = replace(call, flow=d.flow)
        begun = Begun(self, call, d)
        if not d.stopped:
            self._flights.begin(begun)
            stopped = self._stopped_by_hand(call) if self._by_hand else None
            if stopped is not None:  # the order came in between, and the call is not made yet
                self._flights.end(begun)
                return Begun(self, call, self._refused(stopped, call.flow, "table", self.stale))
        return begun

    async def arun(self, fn: Callable[[], Awaitable[Any]], flow: str = "", source: str = "", target: str = "", **more: Any) -> Any:
        """run for asyncio. When an order by hand (weir stop) binds the call while it is in flight, the
        task of fn is cancelled and FlowStopped is raised."""
        import asyncio

        begun = await self.abegin(flow, source, target, **more)
        if begun.decision.stopped:
            raise begun.decision.error()
        call = begun.call
        inner = Work(call.flow, call.target or call.source, call.target_agent if call.target else call.source_agent, call.root_correlation_id)
        try:
            with working(inner if call.flow else current_work()):
                task = asyncio.ensure_future(fn())
            result = await begun.awaited(task)
            begun.finish(result)
            return result
        except asyncio.CancelledError as err:
            begun.finish(error=err, status="cancelled")
            raise
        except BaseException as err:
            begun.finish(error=err, status="denied" if isinstance(err, FlowStopped) else "error")
            raise

    async def abegin(self, *args: Any, **more: Any) -> "Begun":
        """begin for asyncio, which does not wait meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.begin, *args, **more)

    def run(self, fn: Callable[[], Any], flow: str = "", source: str = "", target: str = "", **more: Any) -> Any:
        """Checks a call, runs it and reports what came of it, see begin. It raises FlowStopped
        when the call is refused, and what fn raises. What fn does is done in the flow of the call,
        by its target if it has one."""
        with self.begin(flow, source, target, **more) as begun:
            call = begun.call
            inner = Work(call.flow, call.target or call.source, call.target_agent if call.target else call.source_agent, call.root_correlation_id)
            with working(inner if call.flow else current_work()):
                begun.result = fn()
            return begun.result

    def spent(
        self,
        flow: str = "",
        source: str = "",
        *,
        model: str = "",
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost_usd: float = 0.0,
        cache_read_input_tokens: int = 0,
        cache_creation_input_tokens: int = 0,
        cache_creation_1h_input_tokens: int = 0,
        reasoning_output_tokens: int = 0,
        cache_in_input: Optional[bool] = None,
    ) -> None:
        """Reports what one request to a model has used, for budgets of tokens and money.

        Cached tokens and reasoning have prices of their own. cache_in_input says whether input_tokens holds the
        cached tokens: they do at OpenAI and Google, and not at Anthropic, which the name of the
        model tells otherwise. cache_creation_1h_input_tokens are a part of cache_creation_input_tokens."""
        call = _in_work(Call(flow, source or "agent"))
        ev = self._stamped(_event(call, "llm.call"))
        ev["usage"] = {
            **_usage(input_tokens, output_tokens, cost_usd),
            **_counts(
                cache_read_input_tokens=cache_read_input_tokens,
                cache_creation_input_tokens=cache_creation_input_tokens,
                cache_creation_1h_input_tokens=cache_creation_1h_input_tokens,
                reasoning_output_tokens=reasoning_output_tokens,
            ),
            **({} if cache_in_input is None else {"cache_in_input": cache_in_input}),
        }
        if model:
            ev["model"] = _clip(model)
        self._queue_report(call.flow_key, lambda: ev)

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _decide(self, call: Call, ev: Optional[Dict[str, Any]] = None) -> Decision:
        if self._asleep:
            self._start()
        if self._doubts > 0:
            with self._lock:
                self._doubted.pop(call.flow, None)
        try:
            d = self._ask(call, ev)
        except Exception as err:  # whatever went wrong, the answer is not there
            self.counts.ask_failures += 1
            if not self._unasked:
                _log.warning("weir did not answer; calls are decided from memory until it does: %s", err)
            self._unasked = True
            if self._refusing(call) is None:
                return self._without_orders(call)
            return self._check(call)
        self._unasked = False
        if d.stopped:
            self.counts.refused += 1
            self._observe(call, d)
        else:
            self.counts.allowed += 1
        return d

    def release(self, flow: str, by: str, reason: str, seconds: float = 0) -> None:
        """Lifts the orders of a flow. Weir takes it with its admin token alone."""
        body = json.dumps({"reason": reason, "by": by, "for_s": int(seconds)}).encode()
        path = "/v1/flows/" + urllib.parse.quote(flow, safe="") + "/release"
        self._call("POST", path, body, self._ask_timeout, {"Content-Type": "application/json"})

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the orders that stand are known."""
        if self._asleep:
            self._start()
        return self._ready.wait(timeout)

    @property
    def stale(self) -> bool:
        """The orders may be out of date. A program that kept all threads from running has heard
        nothing meanwhile, and no timeout has said so yet: the time does."""
        return self._state != _FRESH or 0 < self._alive < time.monotonic() - self._stale_after

    def close(self) -> None:
        """Sends the reports that wait, and ends the threads. check still answers after that, as when weir is
        unreachable. A guard that is not closed does this at the end of the program."""
        self._end(len(self._threads) * (self._ask_timeout + self._stale_after))

    def _end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._closed.set()
        stream = self._stream
        if stream is not None and stream.bounded is not None:
            try:
                stream.bounded.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            parked, self._parked = self._parked, []
        for _, _, conn in parked:
            conn.close()

    # Decisions.

    def _check(self, call: Call) -> Decision:
        if self._asleep:
            self._start()
        v = self._refusing(call)
        if v is not None:
            d = self._refused(v, call.flow, "table", self.stale)
            self.counts.refused += 1
            if not self._quiet:
                at, verdict = self._now(), str(v["id"])
                if not self._queue(_Report(lambda: self._ack(call, verdict, at), ack=True)):
                    self.counts.acks_dropped += 1
            self._observe(call, d)
            return d
        if not self.stale:
            self.counts.allowed += 1
            if self._doubts > 0 and call.flow:
                self._doubt(call.flow)
            return Decision("allow", "table", flow=call.flow)
        return self._without_orders(call)

    def _without_orders(self, call: Call) -> Decision:
        if self._state == _NEVER and not self._warned:
            self._warned = True
            _log.warning("weir was not reached yet; a call is decided without its active orders")
        d = Decision("allow", "stale_open", True, call.flow)
        if call.by_person:
            self.counts.stale_allowed += 1
        elif self._fail_closed:
            text = "Agent call rejected: weir is unreachable, and calls are refused until it is back"
            d = _complete(Decision("deny", "stale_closed", True, call.flow, "guard_stale", retry_after=self._stale_after, message=text))
            self.counts.stale_refused += 1
        else:
            over = self._limit(call)
            if over is None:
                self.counts.stale_allowed += 1
            else:
                reason, limit, observed, wait = over
                text = f"Agent call rejected: weir is unreachable, and the flow made {observed} calls (max {limit} meanwhile)"
                action = "throttle" if wait > 0 else "deny"
                d = _complete(Decision(action, "local_limit", True, call.flow, reason, limit, observed, wait, message=text))
                self.counts.local_limited += 1
        self._observe(call, d)
        return d

    def _observe(self, call: Call, d: Decision) -> None:
        """Tells of a decision. It stands whatever becomes of that."""
        if self._on_decision is None:
            return
        try:
            self._on_decision(call, d)
        except Exception:
            self.counts.faults += 1
            if self.counts.faults == 1:
                _log.exception("the function that is told of decisions failed; more faults are only counted")

    def _refused(self, v: Mapping[str, Any], flow: str, source: str, stale: bool = False) -> Decision:
        limit, observed = v.get("limit"), v.get("observed")
        if limit is None or observed is None:
            limit = observed = None
        elif v.get("effective") == "next" and v.get("unit", "") not in _UNCOUNTED:
            observed += 1  # the call that is refused would have been the one over the limit
        retry, told = 0.0, v.get("retry_after_s", 0)
        if v["action"] == "throttle" or told:
            expires = _seconds(v.get("expires_at"))
            retry = max(1.0, float(math.ceil(round(expires - self._now(), 3)))) if expires and source == "table" else float(told)
        retry = min(max(0.0, retry), float(_MOST_WAIT))
        message = v.get("message", "")
        for head, instead in _ARMED.items():
            if message.startswith(head):
                message = instead + message[len(head) :]
        return _complete(
            Decision(
                v["action"], source, stale, flow, v.get("reason_code", ""), limit, observed, retry, v["id"], message, v.get("agent_message", ""),
                held_until=(_seconds(v.get("expires_at")) or None) if v["action"] == "hold" else None,
            )
        )

    def _limit(self, call: Call) -> Optional[Tuple[str, int, int, float]]:
        b, now, flow = self._bounds, self._now(), call.flow_key
        with self._lock:
            s = self._spent.get(flow)
            if s is None:
                s = self._spent_before.get(flow) or _Spent()
                if len(self._spent) >= max(1, self._most_flows // 2):
                    self._spent_before, self._spent = self._spent, {}
                self._spent[flow] = s
            if call.tool:
                if 0 < b.tool_calls * _LEEWAY <= s.tools:
                    return "max_tool_calls_exceeded", b.tool_calls * _LEEWAY, s.tools + 1, 0.0
                s.tools += 1
                return None
            if 0 < b.calls * _LEEWAY <= s.calls:
                return "max_total_calls_exceeded", b.calls * _LEEWAY, s.calls + 1, 0.0
            window = b.window if b.window > 0 else 60.0
            age = now - s.begun
            if age < 0 or age >= 2 * window:
                s.begun, s.in_window, s.before = now, 0, 0
            elif age >= window:
                s.begun, s.before, s.in_window = s.begun + window, s.in_window, 0
            age = now - s.begun
            seen = s.in_window + int(s.before * (1 - age / window))  # the window slides
            if 0 < b.rate * _LEEWAY <= seen:
                return "call_rate_exceeded", b.rate * _LEEWAY, seen + 1, float(math.ceil(round(window - age, 3)))
            s.calls += 1
            s.in_window += 1
            return None

    # Orders.

    def _refusing(self, call: Call) -> Optional[Mapping[str, Any]]:
        if self._by_hand:
            stopped = self._stopped_by_hand(call)
            if stopped is not None:
                return stopped
        if call.by_person:
            return None
        found = self._orders.get(call.flow_key, ())
        if self._wide:
            for name in ("", call.source, call.source_agent, call.target, call.target_agent, call.task_id, call.project_id, call.tenant_id, call.tool, call.root_correlation_id, call.flow_key):
                found += self._wide.get(name, ())
        return self._first(v for v in found if _matches(v, call))

    def _introduce(self, call: Call) -> Call:
        """Fills in what orders by hand may name and a call seldom says."""
        return replace(call, service=call.service or self._name, principal=call.principal or self._principal)

    def _stopped_by_hand(self, call: Call) -> Optional[Mapping[str, Any]]:
        call = self._introduce(call)
        return self._first(v for v in self._by_hand if by_hand.stops(v, call))

    def _first(self, orders: Iterable[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
        """The order that was given first, of those that have not expired."""
        now, best = None, None
        for v in orders:
            if v.get("expires_at"):
                now = self._now() if now is None else now
                if _seconds(v["expires_at"]) <= now:
                    continue
            if best is None or (v.get("revision", 0), v["id"]) < (best.get("revision", 0), best["id"]):
                best = v
        return best

    def _take(self, v: Mapping[str, Any]) -> bool:
        clears = v.get("action") == "allow"
        if not clears and (v.get("action") not in _STOPS or v.get("mode") != "enforce"):
            return False
        if v.get("by_hand"):
            return self._take_by_hand(v)
        scope, flow = v.get("scope") or {}, v.get("correlation_id", "")
        table, key = self._wide, scope.get("id", "")
        if flow or scope.get("kind") == "flow":
            table, key = self._orders, flow or key
        elif scope.get("kind") == "pair":
            key = ""
        old = table.get(key, ())
        same = [o for o in old if _same_order(o, v)]
        if any(o.get("revision", 0) > v.get("revision", 0) for o in same):
            return False
        rest = tuple(o for o in old if o not in same)
        if clears:
            if len(rest) == len(old):
                return False
        elif not same and not self._has_room(v):
            if not v.get("expires_at") or _seconds(v["expires_at"]) > self._now():
                self._leave_out()
            return False  # one that has expired, of which the log holds many, refuses nothing
        else:
            rest += (_kept(v),)
        self._held += len(rest) - len(old)
        if rest:
            table[key] = rest
        else:
            table.pop(key, None)
        return True

    def _take_by_hand(self, v: Mapping[str, Any]) -> bool:
        """As _take, of an order that a person gave about a scope. There is always room for it."""
        clears = v.get("action") == "allow"
        expired = v.get("expires_at") and _seconds(v["expires_at"]) <= self._now()
        if not clears and not expired and not by_hand.understood(v):
            self._leave_out("an order by hand has a scope that this guard does not know; update the guard")
            return False
        same = [o for o in self._by_hand if _same_order(o, v)]
        if clears and not same or any(o.get("revision", 0) > v.get("revision", 0) for o in same):
            return False
        rest = tuple(o for o in self._by_hand if o not in same)
        self._by_hand = rest if clears else (*rest, _kept(v))
        self._flights.by_hand(v, self._introduce)
        return True

    def _has_room(self, v: Mapping[str, Any]) -> bool:
        """Events of a mere sender can fill the table with orders of rules, which must not keep
        out those of an operator."""
        return self._held < self._most_orders * (2 if v.get("reason_code") == "operator_stop" else 1)

    def _leave_out(self, why: str = "") -> None:
        """Counts an order that there is no room for. Without it the guard does not know all
        orders, so it is stale until they were read again."""
        self.counts.left_out += 1
        if not self._full and why:
            _log.error("%s; it is stale until then", why)
        elif not self._full:
            _log.error("more orders are active than the guard holds (most_orders=%d); it is stale until there is room", self._most_orders)
        self._full = True
        self._become_stale("orders are missing")

    def _may_reread(self) -> bool:
        """Whether orders were left out that there is room for now. It says yes once a
        minute at most, since weir may send much of its log then."""
        if not self._full or self._held > self._most_orders // 4 * 3 or time.monotonic() < self._reread_next:
            return False
        self._reread_next = time.monotonic() + 60
        return True

    def _sweep(self) -> None:
        now = self._now()
        self._by_hand = tuple(o for o in self._by_hand if not o.get("expires_at") or _seconds(o["expires_at"]) > now)
        self._heard = {key: last for key, last in self._heard.items() if last[1] > now}
        for table in (self._orders, self._wide):
            for key in list(table):
                rest = tuple(o for o in table[key] if not o.get("expires_at") or _seconds(o["expires_at"]) > now)
                self._held += len(rest) - len(table[key])
                if rest:
                    table[key] = rest
                else:
                    del table[key]

    # The stream.

    def _follow(self) -> None:
        span = _SHORTEST
        while not self._closed.is_set():
            before = self.counts.connections
            turn = self._turn
            try:
                self._read_stream()
            except Exception as err:  # whatever it was, the next try may go better
                _log.debug("the stream of verdicts ended: %s", err)
                if self._state == _NEVER and not self._unreached and not self._closed.is_set():
                    self._unreached = True
                    at = self._addresses[turn % len(self._addresses)]
                    _log.warning("cannot follow weir at %s; the guard tries again: %s", at.netloc.rpartition("@")[2], err)
            self._become_stale("weir does not answer")
            if not self._rereads and self._leave(turn):
                self._last_id, self._full = "", False  # the log of another member is another one
            self._rereads = False
            self._tried.set()
            if self.counts.connections > before:
                span = _SHORTEST
            self._closed.wait(random.uniform(0, span))
            span = min(2 * span, _LONGEST)

    def _hear_time(self, date: Optional[str]) -> None:
        """Goes by weir's clock from now on where that and the clock of this machine are apart:
        orders end by it, and by one that is ahead none would stand."""
        try:
            weirs = email.utils.parsedate_to_datetime(date).timestamp() if date and _HTTP_DATE.fullmatch(date) else None
        except (TypeError, ValueError):
            return
        if weirs is None:
            return
        begun = time.monotonic()

        def now() -> float:
            here, there = time.time(), weirs + time.monotonic() - begun
            return there if abs(here - there) > _CLOCKS_APART else here

        self._now = now

    def _read_stream(self) -> None:
        headers = {"Accept": "text/event-stream", "Weir-Guard": self._word + " " + urllib.parse.quote(self._name, safe="")}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
            if self._log_name:
                headers["Weir-Log"] = self._log_name
        alive = _Deadline(self._stale_after)  # a read that goes beyond it fails
        self._stream = conn = self._connection(alive)
        try:
            resp = self._request(conn, "GET", "/v1/verdicts", None, headers)
            if resp.status != 200:
                if resp.status == 400:
                    self._last_id, self._full = "", False  # weir has another log than the one that was followed
                raise _problem(resp)
            if resp.headers.get_content_type() != "text/event-stream" or _packed(resp):
                raise ConnectionError("what answers is no stream of verdicts")
            self.counts.connections += 1
            self._hear_time(resp.headers.get("Date"))
            self._principal = resp.headers.get("Weir-Principal") or ""
            self._log_name = resp.headers.get("Weir-Log") or ""
            self._learn_beside()
            swept, message, first = time.monotonic(), _Message(), True
            while not self._closed.is_set():
                line = resp.readline(_MOST_MESSAGE)
                if not line:
                    raise ConnectionError("weir ended the stream")
                if first:
                    line, first = line[3:] if line.startswith(b"\xef\xbb\xbf") else line, False
                if not line.endswith(b"\n"):  # it goes on
                    self._too_long(message)
                    continue
                message.size += len(line)
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if not text and message.open:
                    message.open = False  # the end of a line that was too long
                elif not text:
                    if message.data:
                        self._alive = alive.put_off()  # a whole message is a sign of life, single bytes are none
                    self._deliver(message)
                    message = _Message()
                elif message.long:
                    message.open = False
                elif text.startswith(":"):
                    message.size = 0
                    self._alive = alive.put_off()
                    if text == ": behind":
                        self._become_stale("weir is behind its log")
                    else:  # weir says so when this is all that there is
                        self._become_fresh()
                        if self._may_reread():
                            self._last_id, self._full, self._rereads = self._left_after, False, True
                            raise ConnectionError("orders are read again, because there is room for those that were left out")
                elif message.size > _MOST_MESSAGE:
                    self._too_long(message)
                    message.open = False
                else:
                    message.field(text)
                if time.monotonic() - swept > 60:
                    swept = time.monotonic()
                    self._sweep()
                    self._learn_beside()
        finally:
            conn.close()

    def _too_long(self, message: _Message) -> None:
        """Passes over the rest of a message that is longer than any verdict."""
        message.open = True
        if message.long:
            return
        message.long, message.data = True, []
        self._unreadable(f"a message is longer than any verdict ({_MOST_MESSAGE} bytes)")

    def _unreadable(self, why: object) -> None:
        """Counts what is no verdict. The first is logged: who sends one may send many."""
        self.counts.unreadable += 1
        if self.counts.unreadable == 1:
            _log.warning("what is no verdict came among them, and is passed over; more are only counted: %s", why)

    def _deliver(self, message: _Message) -> None:
        before, full = self._last_id, self._full
        if message.id and len(message.id) <= _MOST_ID and message.id.isascii() and message.id.isprintable():
            self._last_id = message.id  # which a request can say
        if message.data and message.event in ("", "message"):
            self._receive("\n".join(message.data), message.signature)
            if self._full and not full:
                self._left_after = before

    def _receive(self, text: str, signature: str = "") -> None:
        why = self._unverified(text, signature)
        try:
            v = {} if why else _verdict(_parse(text))
            why = why or self._replayed(v)
            if not why and self._take(v):
                self.counts.orders += 1
        except Exception as err:  # one message must not end the stream
            self._unreadable(err)
        if why:
            setattr(self.counts, why, getattr(self.counts, why) + 1)
            if why not in self._ignored:
                self._ignored.append(why)
                _log.error("an order is ignored, because it is %s; more of this kind are only counted", why)

    def _unverified(self, text: str, signature: str) -> str:
        if not self._keys:
            return ""
        if not signature:
            return "unsigned"
        key, _, code = signature.partition(",v1=")
        secret = self._keys.get(key[2:], "") if key.startswith("k=") else ""
        good = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        return "" if secret and hmac.compare_digest(good.encode(), code.lower().encode()) else "forged"

    def _replayed(self, v: Mapping[str, Any]) -> str:
        """A replay is an order that weir did sign, heard again after a later revision of it."""
        clears = v["action"] == "allow"
        if not self._keys or v.get("mode") != "enforce" or not (clears or v["action"] in _STOPS):
            return ""
        now, until = self._now(), 0.0
        if not clears:
            until = _seconds(v.get("expires_at")) or math.inf
            if until <= now:
                return ""  # it refuses nothing, however often it is heard
        key = _order_id(v) or json.dumps([v.get("correlation_id", ""), *_about(v)])
        revision, known = v.get("revision", 0), self._heard.get(key)
        if known is not None and revision < known[0]:
            return "replayed"
        self._heard[key] = (revision, max(until, now + _REMEMBERED, known[1] if known else 0.0))
        return ""

    def _become_fresh(self) -> None:
        if self._state == _FRESH:
            return
        if self._full:
            self._state = _STALE
            self._ready.set()  # what there is room for is known
            self._tried.set()
            return
        with self._lock:
            self._spent, self._spent_before = {}, {}
        self._state = _FRESH
        self._flights.kick.set()  # the member that it follows now has not heard what it enforces
        self._ready.set()
        self._tried.set()
        _log.info("weir is followed")

    def _become_stale(self, why: str) -> None:
        if self._state == _FRESH:
            self._state = _STALE
            if self._closed.is_set():
                return  # that was asked for
            self.counts.stales += 1
            _log.warning("%s; orders that are known stay in force", why)

    def _learn_beside(self) -> None:
        """Asks weir for its limits, for which orders need not wait."""
        try:
            threading.Thread(target=self._learn, name="weir-guard-limits", daemon=True).start()
        except RuntimeError as err:  # orders go on without
            _log.debug("the limits are not asked for: %s", err)

    def _learn(self) -> None:
        """Asks weir for its limits. What goes wrong leaves the bounds as they were."""
        try:
            _, body = self._call("GET", "/v1/limits", None, self._stale_after)
            rules = _parse(body)["document"]["rules"]
            most = [_most(rules, name) for name in ("max_total_calls", "max_tool_calls", "call_rate_per_flow")]
            if min(most) < 0 or max(most) > _MOST_BOUND:
                raise ValueError("a limit is out of range")
            calls, tool_calls, rate = most
            self._bounds = Bounds(calls, tool_calls, rate, _duration((rules.get("call_rate_per_flow") or {}).get("window", "")))
        except Exception as err:
            _log.debug("the limits are not known: %s", err)

    # What is sent.

    def _queue(self, report: "_Report") -> bool:
        """Hands a report to the thread that sends them; False when there is no room: a caller
        waits for nothing."""
        try:
            self._reports.put_nowait(report)
            return True
        except queue.Full:
            return False

    def _queue_report(self, flow: str, event: Callable[[], Dict[str, Any]]) -> None:
        with self._lock:
            self._pending[flow] = self._pending.get(flow, 0) + 1
        if not self._queue(_Report(event, flow)):
            self.counts.reports_dropped += 1
            self._settled(flow)

    def _settled(self, flow: str) -> None:
        with self._settling:
            left = self._pending.get(flow, 0) - 1
            if left > 0:
                self._pending[flow] = left
            else:
                self._pending.pop(flow, None)
            self._settling.notify_all()

    def _settle(self, flow: str) -> None:
        """Waits until weir has the reports of the flow: a check before them would be judged
        without the result of the last call. They are mostly there long before the next call."""
        if flow in self._pending and not self._unsent:
            with self._settling:
                self._settling.wait_for(lambda: flow not in self._pending or self._unsent, self._ask_timeout / 3)

    def _report(self) -> None:
        while not self._closed.is_set() or not self._reports.empty():
            self._look_up()
            try:
                batch = [self._reports.get(timeout=0.2)]
            except queue.Empty:
                continue
            while len(batch) < 256:
                try:
                    batch.append(self._reports.get_nowait())
                except queue.Empty:
                    break
            self._deliver_reports(batch)
        while self._look_up():  # a program that ends early learns it, too
            pass

    def _beat(self) -> None:
        """Reports which orders by hand the guard enforces, from when it knows the orders."""
        while not self._closed.is_set() and not self._ready.wait(0.2):
            pass
        flights, lost = self._flights, 0
        while True:
            closed = self._closed.is_set()
            wait = self._send_beat(closed)
            if closed:
                return
            lost = lost + 1 if wait is None else 0
            if wait is None:
                wait = beats.LEAST if lost == 1 else beats.EVERY
            end = time.monotonic() + wait
            while not self._closed.is_set() and time.monotonic() < end and not flights.kick.wait(min(0.2, max(0.0, end - time.monotonic()))):
                pass
            flights.kick.clear()

    def _send_beat(self, closed: bool) -> Optional[float]:
        """Sends a heartbeat, and returns the seconds until the next one; None if no answer came."""
        now = self._now()
        held = [v["id"] for v in self._by_hand if not v.get("expires_at") or _seconds(v["expires_at"]) > now]
        beat = {"guard": self._name, "instance": self._word, "language": "python", "held": held, "stale": self.stale, "closed": closed, **self._flights.told()}
        try:
            _, answer = self._call("POST", "/v1/guards", json.dumps(beat).encode(), min(self._ask_timeout, beats.TIMEOUT), {"Content-Type": "application/json"}, keep=True)
        except _StatusError as err:
            return beats.AGAIN if err.status in (403, 404, 405) else beats.EVERY
        except Exception as err:
            _log.debug("a heartbeat did not arrive: %s", err)
            return None
        return beats.due(answer) or (beats.EVERY if held else beats.IDLE)

    def _deliver_reports(self, batch: List["_Report"]) -> None:
        lines, span, sent = [], _SHORTEST, False
        for report in batch:
            try:
                lines.append(report.event())
            except Exception:  # one report must not cost the others
                self.counts.faults += 1
                _log.debug("a report could not be made", exc_info=True)
        while not sent:
            try:
                self._send(lines)
                sent, self._unsent, self._dropping = True, False, False
            except Exception as err:
                with self._settling:
                    self._unsent = True
                    self._settling.notify_all()
                status = getattr(err, "status", 0)
                if self._closed.is_set() or 400 <= status < 500 and status not in (408, 429):
                    if not self._dropping:
                        self._dropping = True
                        _log.warning("%d reports are dropped; until one is sent, more are only counted: %s", len(lines), err)
                    self._unsent = status == 0
                    break
                self._closed.wait(random.uniform(0, span))
                span = min(2 * span, _LONGEST)
        acks = sum(report.ack for report in batch)
        if sent:
            self.counts.acked += acks
            self.counts.reported += len(batch) - acks
        else:
            self.counts.acks_dropped += acks
            self.counts.reports_dropped += len(batch) - acks
        for report in batch:
            if not report.ack:
                self._settled(report.flow)

    def _doubt(self, flow: str) -> None:
        with self._lock:
            seen = self._doubted.get(flow)
            if seen is not None:
                seen[0] += 1
            elif len(self._doubted) < 3:
                self._doubted[flow] = [1, time.monotonic()]

    def _look_up(self) -> bool:
        """Asks weir whether it has heard of a flow that is only checked: orders about a flow of
        which no event comes never come either. False when no flow is to be looked up."""
        with self._lock:
            now = time.monotonic()
            for name in [f for f, (n, since) in self._doubted.items() if n < 3 and now - since > _FORGET_UNSEEN]:
                del self._doubted[name]  # room for other flows
            ready = [f for f, (n, since) in self._doubted.items() if n >= 3 and (self._closed.is_set() or time.monotonic() - since > _HEARD_WITHIN)]
            if self._doubts <= 0 or not ready:
                return False
            flow = ready[0]
            del self._doubted[flow]
            self._doubts -= 1
        try:
            self._call("GET", "/v1/flows/" + urllib.parse.quote(flow, safe=""), None, self._ask_timeout)
        except _StatusError as err:
            if err.status == 404:
                self._doubts = 0  # said once
                _log.warning(
                    "orders are asked for flow %r; weir has never seen it. Report its calls (guard.begin, guard.run), or pass the correlation id that your telemetry reports", flow
                )
        except Exception as err:
            _log.debug("flow %r could not be looked up: %s", flow, err)
            return not self._closed.is_set()
        return True

    def _ack(self, call: Call, verdict_id: str, at: float) -> Dict[str, Any]:
        ev = _event(call, "verdict.ack")
        ev["correlation_id"] = call.flow_key
        ev["ack"] = {"verdict_id": verdict_id, "applied": True}
        return self._stamped(ev, at)

    def _stamped(self, ev: Dict[str, Any], at: Optional[float] = None) -> Dict[str, Any]:
        at = self._now() if at is None else at
        with self._lock:
            self._serial += 1
            serial = self._serial
        when = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        ev.update(id=f"{int(at * 1000):x}-{serial:x}-{self._word}", source=self._name, time=when.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        return ev

    def _send(self, lines: List[Dict[str, Any]]) -> None:
        body = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        self._call("POST", "/v1/events", body, self._ask_timeout, {"Content-Type": "application/x-ndjson"})

    def _ask(self, call: Call, ev: Optional[Dict[str, Any]] = None) -> Decision:
        ev = ev or self._stamped(_event(call, call.kind))
        ev["ask"] = True
        if call.tell:
            ev["tell"] = True
        if call.had_work is not None:
            ev["had_work"] = call.had_work
        try:
            answer = self._ask_by(json.dumps(ev))
        except _StatusError as err:
            p = dict(err.problem)
            if not p.get("reason_code"):
                return self._rejected(call, err)
            prefix = "urn:weir:verdict:"
            instance = p.get("instance", "")
            p.update(id=instance[len(prefix) :] if instance.startswith(prefix) else "", message=p.get("detail", ""))
            if isinstance(p.get("held_until"), str):
                p["expires_at"] = p["held_until"]
            if p.get("action") not in _STOPS:
                p["action"] = "deny"  # by an action of a later version: it is a refusal all the same
            return _telling(self._refused(_typed(p), call.flow, "weir"), p)
        v = _verdict(answer["verdict"])
        if v.get("mode") == "enforce" and (v["action"] == "warn" or v["action"] in _STOPS):
            return _telling(self._refused(v, call.flow, "weir"), v)
        return _telling(Decision("allow", "weir", flow=call.flow or v.get("correlation_id", "")), v)

    def _rejected(self, call: Call, err: "_StatusError") -> Decision:
        """Refuses a call that weir cannot read: to let such calls pass would leave them
        uncounted. Other answers of the four hundreds are about tokens, addresses and load."""
        detail = err.problem.get("detail")
        if err.status not in (400, 413, 422) or not isinstance(detail, str) or not detail or call.by_person:
            raise err
        self.counts.ask_rejected += 1
        if self.counts.ask_rejected == 1:
            _log.error("weir cannot read a check request, so the call is refused; correct the call, more of them are only counted: %s", err)
        text = "Agent call rejected: weir cannot read the call: " + _SURROGATE.sub("\ufffd", detail)
        return _complete(Decision("deny", "weir", flow=call.flow, reason="check_rejected", message=text))

    def _ask_by(self, line: str) -> Dict[str, Any]:
        """Returns what weir answers to a line that asks. Asks that several threads make at the
        same moment share a request: weir judges each as if it had come alone. None waits for a
        request that is under way, unless _MOST_REQUESTS are."""
        until = time.monotonic() + self._ask_timeout
        with self._lock:
            asks = self._gathering
            leads = asks is None or asks.process != os.getpid() or len(asks.lines) >= _MOST_ASKS
            if leads or asks is None:
                asks = self._gathering = _Asks(os.getpid())
            place = len(asks.lines)
            asks.lines.append(line)
            self._under_way += 1
            several = self._under_way > 1
        try:
            if leads:
                entered = False
                try:
                    if several:
                        _give_way()
                    entered = self._requests.acquire(timeout=self._ask_timeout)  # others join meanwhile
                finally:
                    with self._lock:
                        if self._gathering is asks:
                            self._gathering = None
                    try:
                        self._ask_together(asks, until if entered else 0.0)
                    finally:
                        if entered:
                            self._requests.release()
            else:
                asks.answered.wait()
            if asks.error is not None:
                raise asks.error
            if not asks.answers:
                return self._ask_alone(line, self._ask_timeout)
            status, body = asks.answers[place]
            if status != 200:
                raise _StatusError(status, body)
            return body
        finally:
            with self._lock:
                self._under_way -= 1

    def _ask_alone(self, line: str, timeout: float) -> Dict[str, Any]:
        _, body = self._call("POST", "/v1/check", line.encode(), timeout, {"Content-Type": "application/json"}, keep=True)
        return _object(_parse(body), "the answer")

    def _ask_together(self, asks: _Asks, until: float) -> None:
        """Makes the request that asks share. Of several that weir does not take together, none has
        an answer then."""
        try:
            left = until - time.monotonic()
            if left <= 0:
                raise socket.timeout(f"no answer in {self._ask_timeout:g} s")
            if len(asks.lines) == 1:
                asks.answers = [(200, self._ask_alone(asks.lines[0], left))]
            else:
                text = "".join(line + "\n" for line in asks.lines).encode()
                _, body = self._call("POST", "/v1/check", text, left, {"Content-Type": "application/x-ndjson"}, keep=True)
                answers = [_object(_parse(line), "the answer") for line in body.splitlines()]
                if len(answers) != len(asks.lines):
                    raise ConnectionError(f"weir gives {len(answers)} answers to {len(asks.lines)} asks")
                asks.answers = [(int(a["status"]), _object(a["body"], "the answer")) for a in answers]
        except _StatusError as err:
            if len(asks.lines) == 1 or err.status not in (400, 413, 415):  # an older weir takes one at a time, and some are too long together
                asks.error = err
        except BaseException as err:  # what ends this thread leaves the others without an answer
            asks.error = err if isinstance(err, Exception) else ConnectionError("the request was given up")
            if asks.error is not err:
                raise
        finally:
            asks.answered.set()

    def _leave(self, turn: int) -> bool:
        """Goes on to the next address of weir, unless the one of that turn was left already. False
        where there is no other one."""
        if len(self._addresses) == 1:
            return False
        with self._lock:
            if self._turn == turn:
                self._turn += 1
        return True

    def _connection(self, until: _Deadline) -> Any:
        conn: Any
        turn = self._turn
        at = self._addresses[turn % len(self._addresses)]
        if at.scheme == "https":
            conn = _BoundedHTTPS(at.hostname or "", at.port, timeout=until.left(), context=self._tls)
        else:
            conn = _BoundedHTTP(at.hostname or "", at.port, timeout=until.left())
        conn.until, conn.response_class, conn.turn, conn.path = until, _Response, turn, at.path.rstrip("/")
        conn._create_connection = lambda at, *_: self._dial(at, until)  # by http.client, which would give each address the whole time
        return conn

    def _dial(self, at: Tuple[str, int], until: _Deadline) -> socket.socket:
        """Connects to the first address that answers, all of it within the time: also to look
        the name up, which nothing else ends."""
        with self._lock:
            looking = self._resolving
            leads = looking is None or looking.done.is_set()
            if leads or looking is None:
                looking = self._resolving = _Resolving(at)
        if leads:
            try:
                threading.Thread(target=looking.run, name="weir-guard-resolves", daemon=True).start()
            except RuntimeError:  # there is no room for a thread, or the program ends
                looking.run()
        if not looking.done.wait(until.left()):
            raise socket.timeout(f"{at[0]} is looked up for too long")
        if looking.error is not None:
            raise looking.error
        failed: OSError = OSError(f"{at[0]} has no address")
        for n, (family, kind, protocol, _, address) in enumerate(looking.found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(until.left() / (len(looking.found) - n))  # the last has all that is left
                sock.connect(address)
                sock.settimeout(until.left())
                return sock
            except OSError as err:
                failed = err
                sock.close()
        raise failed

    def _request(self, conn: Any, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]) -> http.client.HTTPResponse:
        every = dict(headers)
        if self._token:
            every["Authorization"] = "Bearer " + self._token
        conn.request(method, conn.path + path, body, every)
        resp: http.client.HTTPResponse = conn.getresponse()
        return resp

    def _call(self, method: str, path: str, body: Optional[bytes], timeout: float, headers: Mapping[str, str] = {}, keep: bool = False) -> Tuple[int, bytes]:
        """Sends a request, to the next address where one does not answer, and returns what is
        answered. With keep the connection stays open for the next one: who asks before each call
        would otherwise connect before each call."""
        end = time.monotonic() + timeout
        for left in range(len(self._addresses) - 1, -1, -1):
            turn = self._turn
            try:
                return self._call_at(method, path, body, max(0.001, end - time.monotonic()), headers, keep)
            except (OSError, http.client.HTTPException, _StatusError) as err:
                if isinstance(err, _StatusError) and err.status not in _UNREACHABLE:
                    raise
                self._leave(turn)
                if not left or time.monotonic() >= end:
                    raise
        raise AssertionError("a guard has an address")

    def _call_at(self, method: str, path: str, body: Optional[bytes], timeout: float, headers: Mapping[str, str], keep: bool) -> Tuple[int, bytes]:
        conn = self._idle(timeout) if keep else None
        used = conn is not None
        if conn is None:
            conn = self._connection(_Deadline(timeout))
        whole = False
        try:
            try:
                resp = self._request(conn, method, path, body, headers)
            except (ConnectionError, http.client.HTTPException):
                if not used:
                    raise
                conn.close()  # weir had closed it; an ask that comes twice counts once
                conn = self._connection(_Deadline(timeout))
                resp = self._request(conn, method, path, body, headers)
            if resp.status >= 300 or keep and resp.status not in (200, 204):  # others bring no answer
                problem = _problem(resp)
                whole = resp.isclosed()
                raise problem
            answer = resp.read(_MOST_ANSWER + 1)
            if len(answer) > _MOST_ANSWER:
                raise ConnectionError(f"weir answers with more than {_MOST_ANSWER} bytes")
            whole = resp.isclosed()
            return resp.status, b"" if _packed(resp) else answer
        finally:
            if not (keep and whole and self._park(conn)):
                conn.close()

    def _idle(self, timeout: float) -> Any:
        """A connection that was used a moment ago, by this process, and is free; None when there
        is none."""
        while True:
            with self._lock:
                if not self._parked:
                    return None
                since, process, conn = self._parked.pop()
            if process == os.getpid() and conn.turn == self._turn and time.monotonic() - since < _IDLE and not _heard_from(conn):
                conn.until.put_off(timeout)
                return conn
            conn.close()

    def _park(self, conn: Any) -> bool:
        with self._lock:
            if conn.sock is None or self._closed.is_set() or len(self._parked) >= _MOST_IDLE:
                return False
            self._parked.append((time.monotonic(), os.getpid(), conn))
            return True


@dataclass(frozen=True)
class _Report:
    """What weir is to hear of. Its event is made by the thread that sends it."""

    event: Callable[[], Dict[str, Any]]
    flow: str = ""
    ack: bool = False


class Begun:
    """A call that was checked. decision says whether it may be made; finish reports what came of
    it. As a context manager it raises FlowStopped for a refused call, and finishes with its
    result, or with what is raised."""

    def __init__(self, guard: Guard, call: Call, decision: Decision) -> None:
        self.call, self.decision = call, decision
        self.result: Any = None  # for the end of with
        self._guard, self._since = guard, time.monotonic()
        self._open = not decision.stopped
        self.stop: Optional[Decision] = None  # by an order by hand that came while the call was in flight
        self.cancelled = False  # because of that
        self.cancel = ""  # "requested" or "failed"; "" while there was nothing to call
        self.why = ""  # it failed
        self._on_stop: List[Callable[[], Any]] = []

    def on_stop(self, fn: Callable[[], Any]) -> None:
        """Calls fn, from another thread, when an order by hand (weir stop) binds the call while it is
        in flight: it ends the call, or a task that the call has begun elsewhere, see weir_guard.cancel.
        stop says why. The receipt of the order names what fn raises."""
        self._on_stop.append(fn)
        if self.stop is not None:
            self._call_off()

    def _cancel(self, v: Mapping[str, Any]) -> None:
        self.stop = self._guard._refused(v, self.call.flow, "table", self._guard.stale)
        self._call_off()

    def _call_off(self) -> None:
        while self._on_stop:
            try:
                fn = self._on_stop.pop()
            except IndexError:  # another thread has it
                return
            self.cancelled, self.cancel = True, self.cancel or "requested"
            self._guard._flights.threads.run(lambda fn=fn: self._cancel_by(fn))  # type: ignore[misc]

    def _cancel_by(self, fn: Callable[[], Any]) -> None:
        try:
            fn()
        except Exception as err:
            self.cancel, self.why = "failed", _clip(str(err) or type(err).__name__)
            self._guard._flights.kick.set()
            _log.warning("a call could not be cancelled: %s", err)

    async def awaited(self, work: Awaitable[Any]) -> Any:
        """Awaits the work of the call. An order by hand that binds the call cancels the work, and
        FlowStopped is raised."""
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        self.on_stop(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            if self.stop is not None:
                raise self.stop.error() from None
            raise

    def finish(
        self,
        result: Any = None,
        *,
        error: Any = None,
        status: str = "",
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost_usd: float = 0.0,
        had_work: Optional[bool] = None,
    ) -> None:
        """Reports what came of the call, once: later calls of it do nothing, and so does one of a
        refused call. error is an exception or a text. Only hashes of result and error are sent."""
        if not self._open:
            return
        self._open = False
        self._guard._flights.end(self)
        from .hashes import hash_content, simhash, text_of

        call, guard = self.call, self._guard
        failed = error is not None
        text = text_of(str(error) if isinstance(error, BaseException) else error) if failed else text_of(result)
        took = (time.monotonic() - self._since) * 1000
        if call.tool:
            ev = _event(replace(call, args_hash="", args_sim="", content_hash=""), "tool.result")
        else:
            back = replace(call, source=call.target, source_agent=call.target_agent, target=call.source, target_agent=call.source_agent, content_hash="", origin="")
            ev = _event(back, "agent.return")
        ev = guard._stamped(ev)
        ev.update(status=status or ("error" if failed else "ok"), duration_ms=round(took, 3))
        if failed:
            ev["error_type"] = _clip(type(error).__name__ if isinstance(error, BaseException) else text)
        if had_work is not None and not call.tool:
            ev["had_work"] = had_work
        if input_tokens or output_tokens or cost_usd:
            # What an agent has used may stand in reports of its requests as well.
            ev["usage"] = {**_usage(input_tokens, output_tokens, cost_usd), **({} if call.tool else {"scope": "aggregate"})}

        def event() -> Dict[str, Any]:  # hashes take time, which the caller does not wait for
            for name, value in (("content_hash", hash_content(text)), ("content_sim", simhash(text))):
                if value:
                    ev[name] = value
            if call.tool:
                ev["tool"]["result_bytes"] = len(text.encode())
            return ev

        guard._queue_report(call.flow_key, event)

    def __enter__(self) -> "Begun":
        if self.decision.stopped:
            raise self.decision.error()
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is not None:
            self.finish(error=error, status="denied" if isinstance(error, FlowStopped) else "error")
        else:
            self.finish(self.result)


def _usage(input_tokens: int, output_tokens: int, cost_usd: float) -> Dict[str, Any]:
    cost = float(cost_usd)
    return {**_counts(input_tokens=input_tokens, output_tokens=output_tokens), **({"cost_usd": cost} if cost > 0 else {})}


def _counts(**given: int) -> Dict[str, Any]:
    return {name: int(value) for name, value in given.items() if int(value) > 0}


def read_keys(path: str) -> Dict[str, str]:
    """Reads a file of keys: one per line, its id, a space and its secret."""
    with open(path, encoding="utf-8") as lines:
        words = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not words or any(len(w) != 2 for w in words):
        raise ValueError(f"{path}: want keys, one per line: its id, a space and its secret")
    return {id: secret for id, secret in words}


_guards: "weakref.WeakSet[Guard]" = weakref.WeakSet()


def _after_fork() -> None:
    for guard in list(_guards):
        guard._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _at_exit() -> None:
    """Ends what the program did not close. Its threads are daemons, so their last reports would be lost."""
    for guard in list(_guards):
        if not guard._closed.is_set():
            guard._end(guard._ask_timeout + 1)


atexit.register(_at_exit)


def _end_with_process() -> None:
    """A process of multiprocessing does not run what atexit has."""
    processes: Any = sys.modules.get("multiprocessing")
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None and processes.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _let_go(conn: Any) -> None:
    """Closes this process's side of a connection that belongs to the one that it was forked
    from, and says nothing on it."""
    try:
        os.close(conn.bounded.detach())
    except (AttributeError, OSError):
        pass  # there is none yet, or it is closed


def _heard_from(conn: Any) -> bool:
    """Whether something came on a connection that nobody waits on: its end, or what would be
    taken for the answer to the next ask."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(conn.bounded.fileno(), select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([conn.bounded.fileno()], [], [], 0)[0])
    except (OSError, ValueError):
        return True


class _Resolving:
    """A name that is looked up, for all who wait for it."""

    def __init__(self, at: Tuple[str, int]) -> None:
        self._at = at
        self.found: List[Tuple[Any, Any, int, str, Any]] = []
        self.error: Optional[OSError] = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.found = socket.getaddrinfo(*self._at, type=socket.SOCK_STREAM)
        except OSError as err:
            self.error = err
        except Exception as err:  # as of a name that no name can be
            self.error = OSError(str(err))
        finally:
            self.done.set()


class _Asks:
    """Asks of several threads that share a request, which the first of them makes."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.lines: List[str] = []  # of the guard's lock, until it is the guard's _gathering no more
        self.answers: List[Tuple[int, Dict[str, Any]]] = []  # by their places; none when each has to ask alone
        self.error: Optional[Exception] = None
        self.answered = threading.Event()


def _give_way() -> None:
    """Lets other threads run that are about to ask."""
    time.sleep(0)


class _Deadline:
    """When something has to be done. A timeout of a socket is about each read alone, so
    that single bytes would put it off for ever."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.put_off()

    def put_off(self, seconds: Optional[float] = None) -> float:
        """Begins anew, with other seconds if they are given. It returns when that was."""
        if seconds is not None:
            self._seconds = seconds
        now = time.monotonic()
        self._at = now + self._seconds
        return now

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise socket.timeout("weir takes too long")
        return left


class _BoundedReads(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: _Deadline) -> None:
        self._sock, self._until = sock, until
        self._reads = sock.makefile("rb", buffering=0)  # keeps the socket open until it is closed itself

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> Optional[int]:
        self._sock.settimeout(self._until.left())
        return self._reads.readinto(into)

    def close(self) -> None:
        self._reads.close()
        super().close()


class _BoundedSocket:
    """What http.client needs of a socket, with a deadline for all reads together."""

    def __init__(self, sock: socket.socket, until: _Deadline) -> None:
        self._sock, self._until = sock, until
        self.close, self.shutdown, self.detach, self.fileno = sock.close, sock.shutdown, sock.detach, sock.fileno

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(self._until.left())
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReads(self._sock, self._until))


class _BoundedHTTP(http.client.HTTPConnection):
    until: _Deadline
    sock: Any
    bounded: Optional["_BoundedSocket"] = None

    def connect(self) -> None:
        super().connect()
        self.sock = self.bounded = _BoundedSocket(self.sock, self.until)


class _BoundedHTTPS(http.client.HTTPSConnection):
    until: _Deadline
    sock: Any
    bounded: Optional["_BoundedSocket"] = None

    def connect(self) -> None:
        super().connect()
        self.sock = self.bounded = _BoundedSocket(self.sock, self.until)


class _Response(http.client.HTTPResponse):
    """http.client takes a hint (103) for the answer itself."""

    def _read_status(self) -> Tuple[str, int, str]:
        parent: Any = super()
        while True:
            version, status, reason = parent._read_status()
            if not 101 < status < 200:
                return version, status, reason
            while self.fp.readline(1 << 16) not in (b"\r\n", b"\n", b""):
                pass


class _StatusError(Exception):
    def __init__(self, status: int, problem: Dict[str, Any]) -> None:
        self.status, self.problem = status, problem
        super().__init__(f"weir answers with status {status}: {str(problem.get('detail', ''))[:200]!r}")


def _problem(resp: http.client.HTTPResponse) -> _StatusError:
    try:
        body = {} if _packed(resp) else _parse(resp.read(_MOST_ANSWER))
    except (ValueError, RecursionError):
        body = {}
    return _StatusError(resp.status, body if isinstance(body, dict) else {})


def _packed(resp: http.client.HTTPResponse) -> bool:
    """An answer comes in another form than it was asked for in: it may be any size, and nobody
    reads it."""
    return bool(resp.headers.get("Content-Encoding"))


def _parse(text: Any) -> Any:
    """json.loads for what others wrote."""
    if isinstance(text, bytes):
        text = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    return json.loads(text, parse_constant=_no_figure, parse_int=_integer)


def _no_figure(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) < 20 else float(digits)  # int has a limit of its own, and ends there


_TEXTS = ("id", "mode", "action", "effective", "reason_code", "unit", "message", "agent_message", "expires_at", "correlation_id")
_MATCH_TEXTS = ("kind", "turn_id", "not_turn_id", "task_id", "conversation_id", "project_id", "root_correlation_id")
_MATCH_LISTS = ("from", "to", "not_from", "not_to", "tool", "args_hash", "content_hash")


def _verdict(v: Any) -> Dict[str, Any]:
    """A verdict, as far as a guard reads it. What is of another form is none, so that
    nothing goes wrong later when a call is held against it."""
    checked = _typed(v)
    if not (checked.get("id") and checked.get("action")):
        raise ValueError("id and action are needed")
    return checked


def _typed(given: Any) -> Dict[str, Any]:
    v = _object(given, "the verdict")
    for name in _TEXTS:
        _want(v, name, str)
    for name in ("limit", "observed"):
        _want(v, name, (int, float))
        if not math.isfinite(v.get(name, 0)):
            raise ValueError(f"{name} is out of range")
    for name in ("revision", "retry_after_s"):
        _want(v, name, int)
        if not -(1 << 63) <= v.get(name, 0) < 1 << 63:
            raise ValueError(f"{name} is out of range")
    if "expires_at" in v and not 0 <= _seconds(v["expires_at"]) < _LAST_SECOND:
        raise ValueError("expires_at is no time")
    if v.get("scope") is not None:
        scope = _object(v["scope"], "scope")
        _want(scope, "kind", str)
        _want(scope, "id", str)
    if v.get("by_hand") is not None:
        by_hand.typed(v)
    if v.get("match") is not None:
        match = _object(v["match"], "match")
        for name in _MATCH_TEXTS:
            _want(match, name, str)
        for name in _MATCH_LISTS:
            _want(match, name, list)
            if not all(isinstance(text, str) for text in match.get(name, ())):
                raise ValueError(f"match.{name} has what is no text")
        _want(match, "background", bool)
        _want(match, "edges", list)
        for edge in match.get("edges", ()):
            if not isinstance(_object(edge, "edge").get("from"), str) or not isinstance(edge.get("to"), str):
                raise ValueError("an edge needs from and to")
    return v


_KEPT = ("id", "revision", "mode", "action", "effective", "scope", "match", "reason_code", "limit", "observed", "unit", "message", "agent_message", "expires_at", "retry_after_s", "correlation_id", "by_hand")
_WORDS = frozenset(("mode", "action", "effective", "reason_code", "unit", "message", "agent_message"))


def _kept(v: Mapping[str, Any]) -> Dict[str, Any]:
    """What the table keeps of an order. Words that many orders have in common are kept once."""
    return {name: sys.intern(v[name]) if name in _WORDS and isinstance(v[name], str) else v[name] for name in _KEPT if name in v}


def _object(v: Any, what: str) -> Dict[str, Any]:
    if not isinstance(v, dict):
        raise ValueError(f"{what} is no object")
    fields: Dict[str, Any] = v
    return fields


def _want(v: Dict[str, Any], name: str, kind: Any) -> None:
    if v.get(name) is None:
        v.pop(name, None)  # null is as good as nothing
    elif not isinstance(v[name], kind) or isinstance(v[name], bool):
        raise ValueError(f"{name} is {type(v[name]).__name__}")
    elif kind is str and _SURROGATE.search(v[name]):
        v[name] = _SURROGATE.sub("\ufffd", v[name])  # half a character is none, and nobody could write it


def _forecast(said: Any) -> Optional[Forecast]:
    """Reads the forecast of a budget. A ValueError or TypeError says that it has another form."""
    if said is None:
        return None
    f = _object(said, "forecast")

    def figure(name: str) -> Optional[float]:
        _want(f, name, (int, float))
        return float(f[name]) if name in f else None

    _want(f, "runs", int)
    return Forecast(f.get("runs", 0), figure("low"), figure("expected"), figure("high"))


def _telling(d: Decision, v: Mapping[str, Any]) -> Decision:
    """Adds what an answer says is left. What is of another form says nothing."""
    left = []
    said = v.get("remaining")
    for r in said if isinstance(said, list) else ():
        try:
            until = _seconds(r.get("until"))
            left.append(Remaining(str(r["rule_id"]), float(r["left"]), float(r["limit"]), str(r["unit"]), until or None, _forecast(r.get("forecast"))))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return replace(d, remaining=tuple(left), note="" if d.stopped else v.get("agent_message", ""))


def _complete(d: Decision) -> Decision:
    """Fills in the texts that an order does not have."""
    agent = d.agent_message
    if d.stopped and not agent:
        agent = f"The call was refused by the flow guard ({d.reason}). " + {
            "back_off": "Wait before you call again; do other work meanwhile.",
            "ask_user": "Do not try it again. Report what is finished and what is not."
            if d.action != "hold"
            else "The flow waits for a person, who may grant more. What is done is kept. Do not try the call again: end your turn and say what you wait for.",
            "finish_with_partial_work": "Do not try it again. Finish with what you have and report back.",
        }[d.advice]
    message = d.message or "Agent call rejected: " + d.reason
    return replace(d, message=message, agent_message=agent)


def _event(call: Call, kind: str) -> Dict[str, Any]:
    ev: Dict[str, Any] = {"kind": kind}
    for name, party, agent in (("from", call.source, call.source_agent), ("to", call.target, call.target_agent)):
        if party or agent:
            ev[name] = {"agent": agent or party} if agent in ("", party) else {"session": party, "agent": agent}
    if call.tool:
        ev["tool"] = {"name": call.tool, **({"args_hash": call.args_hash} if _HASH.fullmatch(call.args_hash) else {})}
        if _SIM.fullmatch(call.args_sim):
            ev["tool"]["args_sim"] = call.args_sim
        if call.call_id:
            ev["tool"]["call_id"] = call.call_id
    content = call.content_hash if _HASH.fullmatch(call.content_hash) else ""
    for name, value in (("correlation_id", call.flow), ("origin", call.origin), ("content_hash", content)):
        if value:
            ev[name] = value
    for name in ("root_correlation_id", "turn_id", "task_id", "conversation_id", "project_id", "tenant_id", "team_id", "model"):
        if getattr(call, name):
            ev[name] = getattr(call, name)
    if call.background:
        ev["background"] = True
    return ev


def _same_order(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Weir says by the first part of the id which order a verdict is about; where an id
    has another form, scope and reason tell."""
    one, other = _order_id(a), _order_id(b)
    if one and other:
        return one == other
    return _about(a) == _about(b)


def _about(v: Mapping[str, Any]) -> Tuple[str, str, str]:
    scope = v.get("scope") or {}
    return scope.get("kind", ""), scope.get("id", ""), v.get("reason_code", "")


def _order_id(v: Mapping[str, Any]) -> str:
    found = _ORDER_ID.match(str(v.get("id", "")))
    return found.group(1) if found else ""


def _matches(v: Mapping[str, Any], c: Call) -> bool:
    return _binds(v, c) and _describes(v.get("match") or {}, c)


def _binds(v: Mapping[str, Any], c: Call) -> bool:
    flow, scope, m = v.get("correlation_id", ""), v.get("scope") or {}, v.get("match") or {}
    if flow and flow != c.flow_key:
        return False
    kind, id = str(scope.get("kind", "")), str(scope.get("id", ""))
    if kind == "flow":
        return bool(flow) or id == c.flow_key
    if kind in ("session", "agent"):
        if v.get("reason_code") == "repeated_wakes" and (c.tenant_id or "") != str(v.get("tenant_id") or ""):
            return False  # it is about one conversation of one tenant
        if m.get("from") or m.get("to") or m.get("edges"):
            return True  # which says whose calls
        if v.get("reason_code") == "agent_message_rate_exceeded":
            return _called(c.target, c.target_agent, id)
        return _called(c.source, c.source_agent, id)
    if kind == "pair":
        if m.get("edges"):
            return True
        a, bar, b = id.partition("|")
        return bool(bar) and (_along(c, a, b) or _along(c, b, a))
    if kind == "tree":
        return _in_tree(c, id)
    return {"task": c.task_id, "project": c.project_id, "tenant": c.tenant_id, "tool": c.tool}.get(kind) == id


def _describes(m: Mapping[str, Any], c: Call) -> bool:
    def caller(name: str) -> bool:
        return _called(c.source, c.source_agent, name)

    def callee(name: str) -> bool:
        return _called(c.target, c.target_agent, name)

    return (
        m.get("kind", c.kind) in ("", c.kind)
        and (c.background or not m.get("background"))
        and (not m.get("from") or any(map(caller, m["from"])))
        and (not m.get("to") or any(map(callee, m["to"])))
        and not any(map(caller, m.get("not_from", ())))
        and not any(map(callee, m.get("not_to", ())))
        and (not m.get("tool") or c.tool in m["tool"])
        and (not m.get("args_hash") or any(_same_hash(h, c.args_hash) for h in m["args_hash"]))
        and (not m.get("content_hash") or any(_same_hash(h, c.content_hash) for h in m["content_hash"]))
        and (not m.get("edges") or any(_along(c, e["from"], e["to"]) for e in m["edges"]))
        and m.get("turn_id", "") in ("", c.turn_id)
        and (not m.get("not_turn_id") or c.turn_id not in ("", m["not_turn_id"]))
        and m.get("task_id", "") in ("", c.task_id)
        and m.get("conversation_id", "") in ("", c.conversation_id)
        and m.get("project_id", "") in ("", c.project_id)
        and (not m.get("root_correlation_id") or _in_tree(c, m["root_correlation_id"]))
    )


def _in_tree(c: Call, root: str) -> bool:
    return root != "" and root in (c.root_correlation_id, c.flow_key)


def _called(id: str, agent: str, name: str) -> bool:
    return name != "" and name in (id, agent)


def _along(c: Call, a: str, b: str) -> bool:
    return _called(c.source, c.source_agent, a) and _called(c.target, c.target_agent, b)


def _same_hash(a: str, b: str) -> bool:
    """Compares hashes of which one may have been cut."""
    an, _, av = a.partition(":")
    bn, _, bv = b.partition(":")
    return bool(av and bv) and an == bn and (av.startswith(bv) or bv.startswith(av))


def _seconds(stamp: Optional[str]) -> float:
    """The time of RFC 3339 as weir writes it, in seconds since 1970; 0 for none."""
    if stamp is None:
        return 0.0
    found = _RFC3339.fullmatch(stamp)
    if found is None:
        raise ValueError(f"{stamp[:40]!r} is no time")
    second, fraction, zone = found.groups()
    at = datetime.datetime.fromisoformat(second + ("+00:00" if zone == "Z" else zone))
    return at.timestamp() + int((fraction or "0").ljust(3, "0")[:3]) / 1000  # weir counts milliseconds


def _number(n: float) -> str:
    return str(int(n)) if n == int(n) else repr(n)


def _most(rules: Mapping[str, Any], name: str) -> int:
    rule = rules.get(name) or {}
    most, stop = rule.get("max"), rule.get("stop")
    if isinstance(most, (int, float)) and not isinstance(most, bool):
        return int(most)
    if isinstance(stop, (int, float)) and not isinstance(stop, bool):
        return max(1, int(stop) - 1)
    return 0


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9}


def _duration(text: Any) -> float:
    """The seconds of a duration as limits write it, such as 1h30m or 500ms; a minute where it
    is none."""
    part = r"(\d+\.?\d*|\.\d+)(h|ms|m|us|\u00b5s|ns|s)"
    if not isinstance(text, str) or not re.fullmatch(f"({part})+", text, re.ASCII):
        return 60.0
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(part, text, re.ASCII)) or 60.0
