"""What the agents behind AG-UI have in common, by the arguments URL TOKEN GRANTS: the guard, what an approval is
worth, a tool, and the report of how each run ended, what the interrupt says, and how many tools ran."""

import importlib.metadata
import json
import sys

from weir_guard import Guard
from weir_guard.grants import Grant

url, token, grants = sys.argv[1:]
guard = Guard(url, token=token)
held = {"flow": "held", "source": "planner", "interrupt": True, "granted": Grant(url, token, calls=10, by="ann") if grants == "yes" else None}
ran, runs = [], []


def search(page: int) -> str:
    """Searches."""
    ran.append(page)
    return f"entry {page} says {page * page}"


def ended(last):
    """Keeps the last event of a run and returns its interrupts."""
    outcome = getattr(last, "outcome", None)
    interrupts = getattr(outcome, "interrupts", None) or []
    runs.append({"end": last.type.value, "outcome": getattr(outcome, "type", ""), "message": getattr(last, "message", None) or "", "metadata": [i.metadata for i in interrupts], "ran": len(ran)})
    return interrupts


def report(*packages):
    guard.close()
    print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in packages}, "runs": runs}))
