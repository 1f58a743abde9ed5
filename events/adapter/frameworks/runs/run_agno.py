"""Agno with OpenInference."""
import telemetry as t
p = t.provider()
from openinference.instrumentation.agno import AgnoInstrumentor
AgnoInstrumentor().instrument(tracer_provider=p)
from agno.agent import Agent
from agno.models.openai.like import OpenAILike
Agent(name="order_bot", model=OpenAILike(id=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], telemetry=False).run(t.QUESTION)
p.shutdown()
