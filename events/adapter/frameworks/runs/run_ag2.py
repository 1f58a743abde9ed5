"""AG2 with its telemetry middleware."""
import asyncio
import telemetry as t
p = t.provider()
from ag2 import Agent
from ag2.config import OpenAIConfig
from ag2.middleware.builtin.telemetry import TelemetryMiddleware
m = OpenAIConfig(model=t.CASE, base_url=t.MODEL, api_key=t.KEY)
a = Agent("order_bot", "Answer.", config=m, tools=[t.lookup_order, t.refund], middleware=[TelemetryMiddleware(tracer_provider=p, agent_name="order_bot")])
asyncio.run(a.ask(t.QUESTION))
p.shutdown()
