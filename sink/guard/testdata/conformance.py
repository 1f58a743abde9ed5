"""Runs weir_guard.py for the tests: decides the cases of standard input, or follows a weir."""

import datetime
import json
import logging
import resource
import sys

sys.path.insert(0, sys.argv[1])
import weir_guard  # noqa: E402

LOGGED = []


class Noted(logging.Handler):
    def emit(self, record):
        LOGGED.append(record.getMessage())


logging.getLogger().addHandler(Noted())
NAMES = {"from": "source", "to": "target", "from_agent": "source_agent", "to_agent": "target_agent"}
STATES = {"never": weir_guard._NEVER, "fresh": weir_guard._FRESH, "stale": weir_guard._STALE}


def words(call):
    return {NAMES.get(name, name): value for name, value in call.items()}


def told(d):
    said = {"action": d.action, "source": d.source, "stale": d.stale, "reason": d.reason, "limit": d.limit, "observed": d.observed}
    said.update(retry_after_s=d.retry_after, held_until=d.held_until, advice=d.advice, message=d.message, agent_message=d.agent_message, verdict_id=d.verdict_id)
    said.update(note=d.note, left=[[r.rule, r.left, r.limit, r.unit, r.until or 0, [r.forecast.runs, r.forecast.low or 0, r.forecast.expected or 0, r.forecast.high or 0] if r.forecast else 0] for r in d.remaining])
    return {name: value for name, value in said.items() if value not in (None, "", False, 0, []) or name in ("limit", "observed") and value is not None}


def fail(call, d):
    raise RuntimeError("an observer that fails")


def decide(case):
    b = case.get("bounds")
    bounds = weir_guard.Bounds() if b is None else weir_guard.Bounds(b.get("calls", 0), b.get("tool_calls", 0), b.get("rate", 0), b.get("window_s", 0))
    g = weir_guard.Guard("http://weir.test", connect=False, quiet=True, fail_closed=case.get("fail_closed", False), bounds=bounds, keys=case.get("keys"), most_orders=case.get("most_orders", 200_000))
    now = datetime.datetime.fromisoformat(case["now"].replace("Z", "+00:00")).timestamp()
    clock = [now]
    g._now = lambda: clock[0]
    g._state = STATES[case.get("state", "fresh")]
    for v in case.get("orders", ()):
        g._take(v)
    for heard in case.get("heard", ()):
        g._receive(heard["order"], heard.get("signature", ""))
    for step in case.get("before", ()):
        for _ in range(step["times"]):
            g.check(**words(step["call"]))
        clock[0] += step.get("then_s", 0)
    said = told(g.check(**words(case["call"])))
    ignored = {name: getattr(g.counts, name) for name in ("unsigned", "forged", "replayed", "unreadable", "left_out")}
    return {**said, **{name: n for name, n in ignored.items() if n}}


def follow(url, keys="", closed=False, stale_s=1.0, ask_s=1.0, faulty=False, once=False, most_orders=200_000):
    """One command per line, one answer per line."""
    keys = weir_guard.read_keys(keys) if keys else None
    words_of_guard = {"name": "python", "stale_after": stale_s, "ask_timeout": ask_s, "keys": keys, "fail_closed": closed}
    if faulty:
        words_of_guard["on_decision"] = fail
    if not once:
        words_of_guard["connect_timeout"] = 0.001
    g = weir_guard.Guard(url, most_orders=most_orders, **words_of_guard)
    if once:  # a program that decides one call and ends
        d = g.check("f", "a", "b")
        print(d.action, d.source)
        return
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "open":
            g.close()
            g = weir_guard.Guard(command["url"], most_orders=command["most_orders"], **words_of_guard)
            answer = {}
        elif command["do"] == "check":
            answer = told(g.check(**words(command["call"])))
        elif command["do"] == "ask":
            answer = told(g.ask(**words(command["call"])))
        elif command["do"] == "begin":
            begun = g.begin(**words(command["call"]), arguments=command.get("arguments"), message=command.get("message"), ask=command.get("ask", True))
            begun.finish(command.get("result"), error=command.get("error"), input_tokens=command.get("tokens", 0))
            begun.finish("once more")
            answer = told(begun.decision)
        elif command["do"] == "spent":
            g.spent(
                "f", "a", model="m", input_tokens=7, output_tokens=3, cost_usd=0.5, cache_read_input_tokens=6, cache_creation_input_tokens=5,
                cache_creation_1h_input_tokens=4, reasoning_output_tokens=2, cache_in_input=False
            )
            answer = {}
        elif command["do"] == "release":
            g.release(command["flow"], "ann", "a false alarm", 60)
            answer = {}
        elif command["do"] == "close":
            g.close()
            answer = {"logged": LOGGED}
        elif command["do"] == "state":
            answer = {"stale": g.stale, "orders": g.counts.orders, "bounds": g._bounds.calls, "unsigned": g.counts.unsigned, "forged": g.counts.forged, "replayed": g.counts.replayed}
            answer.update(unreadable=g.counts.unreadable, peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(json.dumps(answer), flush=True)
    g.close()


if len(sys.argv) > 2:
    follow(sys.argv[2], **json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
else:
    print(json.dumps([decide(case) for case in json.load(sys.stdin)]))
