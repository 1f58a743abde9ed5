"""An agent of CrewAI whose model, a script, wants to search three times."""

import json
import os
import sys

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402
from weir_guard import Guard  # noqa: E402
from weir_guard.crewai import guarded  # noqa: E402

url, flow = sys.argv[1:]
ran, saw = [], []


@tool("search")
def search(query: str) -> str:
    """Searches."""
    ran.append(query)
    return "found"


class Script(BaseLLM):
    asked: int = 0

    def call(self, messages, *args, **more):
        saw[:] = [m["content"] for m in messages if isinstance(m, dict) and "Observation" in str(m.get("content"))]
        self.asked += 1
        if self.asked <= 3:
            return f'Thought: search\nAction: search\nAction Input: {{"query": "x{self.asked}"}}'
        return "Thought: I now know the final answer\nFinal Answer: done"

    def supports_function_calling(self):
        return False


guard = Guard(url, quiet=True)
guarded(guard, flow=flow)
agent = Agent(role="planner", goal="search", backstory="none", llm=Script(model="script"), tools=[search], verbose=False)
stdout, sys.stdout = sys.stdout, sys.stderr  # for what CrewAI prints
Crew(agents=[agent], tasks=[Task(description="search", expected_output="text", agent=agent)], verbose=False).kickoff()
sys.stdout = stdout
words = ["blocked" if "blocked" in text else "found" for text in saw if "found" in text or "blocked" in text]
print(json.dumps({"ran": len(ran), "saw": words[:3]}))
guard.close()
sys.stdout.flush()
os._exit(0)  # threads of CrewAI may wait for the network
