"""Programs for TestHosts, each of which does to a guard what programs do. They say what is wrong."""

import asyncio
import atexit
import logging
import multiprocessing
import os
import select
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", sys.argv[1]))
import weir_guard  # noqa: E402
from weir_guard import grants  # noqa: E402

URL = sys.argv[3]


def want(good, what):
    if not good:
        print(what, flush=True)


def until_stopped(guard, flow):
    for _ in range(1000):  # ten seconds
        if guard.check(flow, "a", "b").stopped:
            return True
        time.sleep(0.01)
    return False


def fork():
    """As servers do that load the program before they fork: what weir orders later is heard by
    the workers, too, and the lock of a thread that is not there is nobody's."""
    guard = weir_guard.Guard(URL, name="workers")
    want(guard.check("f", "a", "b").stopped, "the parent does not know the order")
    guard._lock.acquire()
    workers = []
    for n in range(3):
        worker = os.fork()
        if worker == 0:
            first = guard.check("f", "a", "b")
            good = first.stopped and not first.stale and guard.ask("stop g", "a", "b").source == "weir" and until_stopped(guard, "g")
            guard.close()
            os._exit(0 if good else 1)
        workers.append(worker)
    guard._lock.release()
    for worker in workers:
        want(os.waitpid(worker, 0)[1] == 0, "a worker does not hear what weir orders")
    want(until_stopped(guard, "g"), "the parent hears nothing any more")
    want(guard.ask("h", "a", "b").source == "weir", "the parent cannot ask any more")
    guard.close()


def ids():
    guards = [weir_guard.Guard(URL, name="planners", connect=False) for _ in range(3)]
    want(len({g._stamped({}, 1.0)["id"] for g in guards}) == 3, "guards of one name give one id twice")


def blocked():
    """Threads that never ran cannot say that they heard nothing."""
    guard = weir_guard.Guard(URL, fail_closed=True)
    want(guard.check("h", "a", "b").action == "allow", "nothing is said against the call")
    guard._alive -= 60
    d = guard.check("h", "a", "b")
    want(guard.stale and d.source == "stale_closed", f"orders of a minute ago count as fresh: {d}")
    guard.close()


def closed():
    guard = weir_guard.Guard(URL)
    guard.close()
    guard.close()
    want(guard.check("f", "a", "b").action == "deny" and guard.check("h", "a", "b").source == "stale_open", "check after close")
    want(guard.ask("h", "a", "b").source == "weir", "ask after close")
    for url in ("http://127.0.0.1:99999", "ftp://127.0.0.1", "127.0.0.1:8080"):
        try:
            weir_guard.Guard(url)
            want(False, f"{url} is taken for an address")
        except ValueError:
            pass


def unsolicited():
    guard = weir_guard.Guard(URL, token="unsolicited", quiet=True)
    want(guard.ask("h", "a", "b").stopped, "the first answer refuses")
    for _, _, conn in guard._parked[:1]:
        try:
            select.select([conn.bounded.fileno()], [], [], 10)
        except (OSError, ValueError):
            pass  # a thread of the guard has closed it
    want(guard.ask("h", "a", "b").stopped, "what came unasked is taken for an answer")
    guard.close()


def busy():
    """An answer of 503 costs no connection where there is one address."""
    guard = weir_guard.Guard(URL, token="busy", quiet=True, connect=False)
    guard.ask("h", "a", "b")
    kept = [conn for _, _, conn in guard._parked]
    guard.ask("h", "a", "b")
    want(len(kept) == 1 and [conn for _, _, conn in guard._parked] == kept, "a new connection after an answer of 503")
    guard.close()


def granted():
    """What grants more may be async in any form."""
    given = []

    async def later(decision):
        given.append(decision)

    class Grants:
        async def __call__(self, decision):
            given.append(decision)

    for grant in (given.append, later, Grants(), lambda decision: later(decision)):
        asyncio.run(grants.give(grant, "held"))
        want(given == ["held"], f"{grant} was given {given}")
        given.clear()


def names():
    """Nothing ends looking a name up; an ask ends all the same."""
    known, look = threading.Event(), socket.getaddrinfo

    def hangs(*at, **more):
        known.wait()
        return look(*at, **more)

    socket.getaddrinfo = hangs
    guard = weir_guard.Guard(URL, ask_timeout=0.2, connect_timeout=0.01)
    want(guard.ask("h", "a", "b").source == "stale_open", "nobody can have been asked")
    known.set()
    for _ in range(1000):
        if guard.ask("h", "a", "b").source == "weir":
            break
        time.sleep(0.01)
    else:
        print("the name is known now, and nobody is asked")
    want(until_stopped(guard, "f"), "the name is known now, and no order comes")
    guard.close()


def threads():
    """A program that ends, or has too many already, gets no more threads."""
    guard = weir_guard.Guard(URL)

    def start(self):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = start
    want(guard.ask("h", "a", "b").source == "weir", "weir cannot be asked without a new thread")
    guard.close()


def moves():
    """The member that the guard uses ends after a check of the flow "end"."""
    guard = weir_guard.Guard(URL, name="mover")
    want(guard.check("f", "a", "b").stopped, "the order is not known")
    guard.ask("end", "a", "b")
    while not guard.ask("moved", "a", "b").stopped:
        time.sleep(0.01)
    for _ in range(20):
        want(guard.ask("h", "a", "b").source == "weir", "a check is not answered by the other member")
    guard.ask("stop g", "a", "b")
    want(until_stopped(guard, "g"), "the order of the other member does not come")
    guard.close()


def tries():
    """Asks once, of several addresses that may not answer."""
    guard = weir_guard.Guard(URL, quiet=True, connect=False)
    d = guard.ask("h", "a", "b")
    want(d.source == sys.argv[4], f"the check is answered by {d.source}, want {sys.argv[4]}")
    guard.close()


def _logged():
    """What guards log from now on."""
    said = []

    class Keeps(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    logging.getLogger("weir.guard").addHandler(Keeps())
    logging.getLogger("weir.guard").propagate = False
    return said


def logs():
    """What goes wrong with each call is said once."""
    said = _logged()

    def fails(call, d):
        raise RuntimeError("an observer that fails")

    guard = weir_guard.Guard("http://127.0.0.1:9", ask_timeout=0.2, on_decision=fails)
    for _ in range(20):
        guard.ask("h", "a", "b")
        guard._receive("no verdict")
    guard.close()
    want(len(said) == 5, f"said {len(said)} times: {said}")


def dropped():
    """Weir rejects each report; the first is logged."""
    said = _logged()
    guard = weir_guard.Guard(URL, token="unknown")
    for n in range(1, 4):
        guard.spent("h", "a", input_tokens=7)
        while guard.counts.reports_dropped < n:
            time.sleep(0.001)
    guard.close()
    said = [text for text in said if "dropped" in text]
    want(len(said) == 1, f"said {len(said)} times: {said}")


def _spends(flow):
    """Uses a guard that nothing closes."""
    weir_guard.Guard(URL, name=flow).spent(flow, "planner", input_tokens=7)


def ends():
    """Programs that end without closing their guard: at their end, by an error, and as a process of
    multiprocessing."""
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=_spends, args=(method,))
        child.start()
        child.join()
        want(child.exitcode == 0, f"the process of {method} ends with {child.exitcode}")
    _spends("a program")
    raise SystemExit(0)


def away():
    """A program that ends while weir is unreachable, or answers nothing, does not hang."""
    _logged()
    silent = socket.create_server(("127.0.0.1", 0))
    for port in (9, silent.getsockname()[1]):
        weir_guard.Guard(f"http://127.0.0.1:{port}", ask_timeout=0.2, connect_timeout=0.1).spent("away", "planner", input_tokens=7)
    atexit._run_exitfuncs()
    want(not any(t.name == "weir-guard" and t.is_alive() for t in threading.enumerate()), "threads of guards go on")


if __name__ == "__main__":  # a spawned process imports this file
    globals()[sys.argv[2]]()
