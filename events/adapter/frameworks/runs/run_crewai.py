"""CrewAI with OpenInference."""
import os
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true", OPENAI_API_KEY="sk-dummy")
import telemetry as t
p = t.provider()
from openinference.instrumentation.crewai import CrewAIInstrumentor
CrewAIInstrumentor().instrument(tracer_provider=p, skip_dep_check=True)
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
m = LLM(model="openai/" + t.CASE, base_url=t.MODEL, api_key=t.KEY)
bot = Agent(role="order_bot", goal="answer", backstory="answers", llm=m, tools=[tool("lookup_order")(t.lookup_order), tool("refund")(t.refund)], max_iter=int(t.LIMIT or 20))
Crew(agents=[bot], tasks=[Task(description=t.QUESTION, expected_output="where it is", agent=bot)]).kickoff()
p.shutdown()
