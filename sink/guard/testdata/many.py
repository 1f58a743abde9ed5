"""Asks for a hundred calls at one time, each by a thread of its own, for TestManyAsksTakeFewRequests."""

import os
import sys
import threading
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", sys.argv[1]))
import weir_guard  # noqa: E402

guard = weir_guard.Guard(sys.argv[2], quiet=True, ask_timeout=60)
wrong = []


def ask(n: int) -> None:
    d = guard.ask("f-%d" % n, "a", "b")
    if d.source != "weir":
        wrong.append(str(d))


# One after the other, so that none joins the asks of another one before there are many requests.
threads = [threading.Thread(target=ask, args=(n,)) for n in range(100)]
for n, thread in enumerate(threads):
    thread.start()
    while guard._under_way <= n or guard._gathering and guard._requests._value:
        weir_guard._give_way()
urllib.request.urlopen(sys.argv[2] + "/all")
for thread in threads:
    thread.join()
guard.close()
if wrong:
    sys.exit("\n".join(wrong))
