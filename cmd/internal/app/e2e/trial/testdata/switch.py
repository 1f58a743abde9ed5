"""Checks calls with the Python guard for trial switch, and writes when each check began and was answered,
and whether the call was admitted."""

import json
import os
import sys
import time

sys.path.insert(0, sys.argv[1])
import weir_guard  # noqa: E402

o = json.loads(sys.argv[2])
guard = weir_guard.Guard(o["url"], name=o["name"], quiet=True)
n = 0
with open(o["file"], "w") as out:
    while not os.path.exists(o["end"]):
        n += 1
        begun = time.time()
        d = guard.ask("%s-%d" % (o["name"], n % o["flows"]), o["name"], "b", had_work=True)
        out.write("%.6f %.6f %d\n" % (begun, time.time(), 0 if d.stopped else 1))
        out.flush()
        time.sleep(0.001)
guard.close()
