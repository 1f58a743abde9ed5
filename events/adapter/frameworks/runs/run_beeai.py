"""BeeAI with OpenInference."""
import asyncio
import telemetry as t
p = t.provider()
from openinference.instrumentation.beeai import BeeAIInstrumentor
BeeAIInstrumentor().instrument(tracer_provider=p)
from beeai_framework.adapters.openai import OpenAIChatModel
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.tools import tool


@tool
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return t.lookup_order(order_id)


@tool
def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    return t.refund(order_id, amount)


m = OpenAIChatModel(t.CASE, base_url=t.MODEL, api_key=t.KEY, tool_call_fallback_via_response_format=False)
m.tool_choice_support = {"none", "single", "auto"}  # a scripted model calls what it likes
a = RequirementAgent(name="order_bot", llm=m, tools=[lookup_order, refund])


async def main():
    await a.run(t.QUESTION)


asyncio.run(main())
p.shutdown()
