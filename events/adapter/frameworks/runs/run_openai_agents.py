"""OpenAI Agents SDK with OpenInference."""
import telemetry as t
p = t.provider()
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
OpenAIAgentsInstrumentor().instrument(tracer_provider=p)
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
m = OpenAIChatCompletionsModel(model=t.CASE, openai_client=AsyncOpenAI(base_url=t.MODEL, api_key=t.KEY))
Runner.run_sync(Agent(name="order_bot", instructions="Answer.", model=m, tools=[function_tool(t.lookup_order), function_tool(t.refund)]), t.QUESTION, max_turns=int(t.LIMIT or 20))
p.shutdown()
