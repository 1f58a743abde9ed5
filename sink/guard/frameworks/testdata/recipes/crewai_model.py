import json
import os

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from common import CALLS, arguments, run, search  # noqa: E402
from crewai import BaseLLM  # noqa: E402
from crewai.tools import tool  # noqa: E402


class Script(BaseLLM):
    n: int = 0

    def call(self, messages, *args, **more):
        self.n += 1
        if self.n <= CALLS:
            return f"Thought: search\nAction: search\nAction Input: {json.dumps(arguments(self.n))}"
        return "Thought: I now know the final answer\nFinal Answer: done"

    def supports_function_calling(self):
        return False


search = tool("search")(search)
search.cache_function = lambda *_: False
run({"model": Script(model="script"), "search": search})
