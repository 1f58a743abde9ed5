"""Asks ten times, for TestPythonAsksOnOneConnection."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", sys.argv[1]))
from weir_guard import Guard  # noqa: E402

guard = Guard(sys.argv[2], quiet=True)
for n in range(10):
    d = guard.ask("f", "a", "forbidden" if n % 2 else "b")
    if d.source != "weir" or d.stopped != bool(n % 2):
        sys.exit(f"ask {n}: {d}")
guard.close()
