"""Plays the dispatcher of TestDispatch with the guard of Python."""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", sys.argv[1]))
from weir_guard import Guard, Work, current_work, working  # noqa: E402

guard = Guard(sys.argv[2], quiet=True)


def ok(d):
    if d.stopped:
        raise d.error()


def worker():
    ok(guard.ask(tool="search"))
    with guard.dispatch(target="s1", target_agent="coordinator") as d:
        ok(d)
    with guard.dispatch(target="s2", origin="user") as d:
        ok(d)
    with guard.dispatch(target="s3", source="cron", origin="scheduler") as d:
        ok(d)
    ok(guard.ask("mine", "x", "y"))
    ok(guard.ask("mine", target="y"))
    headers = current_work().headers()
    with working(None), working(Work.from_headers(headers)):
        with guard.dispatch(target="s4") as d:
            ok(d)
    with guard.dispatch(target="forbidden") as d:
        if not d.stopped:
            sys.exit("the forbidden call was allowed")
        ok(guard.ask(tool="write"))


async def coordinator():
    with guard.dispatch(target="s2", target_agent="worker") as d:
        ok(d)
        await asyncio.to_thread(worker)  # the context goes along


with guard.dispatch(target="s1", target_agent="coordinator") as d:
    ok(d)
    asyncio.run(coordinator())
if current_work() is not None:
    sys.exit("the work did not end")
ok(guard.ask(source="s9", target="s1"))
guard.close()
