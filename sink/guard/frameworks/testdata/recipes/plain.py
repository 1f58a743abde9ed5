# A loop without a framework, see common.py.
from common import CALLS, arguments, run, search

run({"search": search, "queries": [arguments(n)["query"] for n in range(1, CALLS + 1)]})
