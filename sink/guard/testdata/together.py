"""Asks for a call that is answered only when a hundred others are, and for those at one time,
for TestAsksTogether."""

import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", sys.argv[1]))
import weir_guard  # noqa: E402

guard = weir_guard.Guard(sys.argv[2], quiet=True, ask_timeout=60)
wrong = []


def ask(target: str) -> None:
    d = guard.ask("f", "a", target)
    if d.source != "weir" or d.stopped != (target == "forbidden"):
        wrong.append(f"{target}: {d}")


# A thread that gives way does so until all have come. That is remembered: the first request may be
# answered before another thread looks again.
give_way = weir_guard._give_way
all_have_come = threading.Event()


def until_all_have_come() -> None:
    while not all_have_come.is_set():
        if guard._under_way >= 101:
            all_have_come.set()
        give_way()


weir_guard._give_way = until_all_have_come
asking = [threading.Thread(target=ask, args=(target,)) for target in ["held"] + ["b", "forbidden"] * 50]
asking[0].start()
while not guard._under_way:
    give_way()
for thread in asking[1:]:
    thread.start()
for thread in asking:
    thread.join()
guard.close()
if guard._under_way or guard._gathering:
    wrong.append("asks are left")
if wrong:
    sys.exit("\n".join(wrong))
