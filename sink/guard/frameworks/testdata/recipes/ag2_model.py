import json

from ag2.events import ToolCallEvent
from ag2.testing import TestConfig
from common import CALLS, arguments, run, search

config = TestConfig(*[ToolCallEvent("search", arguments=json.dumps(arguments(n))) for n in range(CALLS)], "done")
run({"config": config, "search": search})
