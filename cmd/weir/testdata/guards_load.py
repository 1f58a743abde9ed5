"""Checks calls with the Python guard by many threads for TestGuardsUnderLoad, which reads what it prints."""

import json
import random
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import weir_guard  # noqa: E402

url, threads, seconds = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
guard = weir_guard.Guard(url, quiet=True, ask_timeout=30.0)
until, lock = time.time() + seconds, threading.Lock()
said = {"answers": 0, "memory": [], "wrong": []}


def work(n):
    rng, flows = random.Random(n), 0
    while time.time() < until:
        flows += 1
        stopped = rng.randrange(8) == 0
        flow = "stopped-%d" % rng.randrange(20) if stopped else "py-%d-%d" % (n, flows)
        last, missing = None, 0
        for _ in range(rng.randrange(3, 9)):
            begun = time.time()
            d = guard.ask(flow, "a-" + flow, "b-" + flow, had_work=True, tell=True)
            with lock:
                if d.source != "weir":
                    said["memory"].append([begun, time.time()])
                else:
                    said["answers"] += 1
                if d.stopped != stopped and (d.source == "weir" or stopped):
                    said["wrong"].append("%s: %s by %s" % (flow, d.action, d.source))
            if d.source != "weir":
                missing += 1
                time.sleep(0.1)
                continue
            left = [r.left for r in d.remaining if r.rule == "max_total_calls"]
            if stopped:
                continue
            if not left or last is not None and not last - 1 - missing <= left[0] <= last - 1:
                with lock:
                    said["wrong"].append("%s: %s left after %s and %d from memory" % (flow, left, last, missing))
            last, missing = (left or [last])[0], 0


workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
for w in workers:
    w.start()
for w in workers:
    w.join()
guard.close()
print(json.dumps(said))
