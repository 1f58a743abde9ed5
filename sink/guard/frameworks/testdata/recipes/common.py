"""What the recipes of the page are run with: a tool, and a script in the place of a model, which
wants to search 40 times: for the same again and again, or for the next page each time. After the
third time weir is killed, where the environment names its process."""

import json
import os
import signal
import sys
import uuid

CALLS = 40
EQUAL = os.environ["RECIPE_MODE"] != "honest"
KILL = int(os.environ.get("RECIPE_KILL", "0"))
cid = "recipe-" + str(uuid.uuid4())
task = "find it"
ran = []


def arguments(n):
    """What the model asks for at the n-th time."""
    return {"query": "x"} if EQUAL else {"query": f"page {n} of the list"}


def search(query: str) -> str:
    """Searches."""
    ran.append(query)
    if KILL and len(ran) == 3:
        os.kill(KILL, signal.SIGKILL)
    return "found nothing" if EQUAL else f"row {len(ran) * 7919} of {query}: value {len(ran) ** 3}"


def run(names, then=lambda defined: None):
    """Runs the code of standard input, which is that of the page, then what uses the names that it defines,
    and says how often the tool ran."""
    stdout, sys.stdout = sys.stdout, sys.stderr  # for what frameworks print
    error = ""
    try:
        defined = {"__name__": "__main__", "cid": cid, "task": task, **names}
        exec(compile(sys.stdin.read(), "RECIPES.md", "exec"), defined)
        then(defined)
    except Exception as err:
        error = f"{type(err).__name__}: {err}"
    print(json.dumps({"ran": len(ran), "flow": cid, "error": error}), file=stdout, flush=True)
    os._exit(0)  # threads of frameworks may wait for the network
