"""Strands Agents, its own telemetry as it is by default."""
import telemetry as t
p = t.provider()
from strands import Agent, tool
from strands.models.openai import OpenAIModel
m = OpenAIModel(client_args={"base_url": t.MODEL, "api_key": t.KEY}, model_id=t.CASE)
Agent(name="order_bot", model=m, tools=[tool(t.lookup_order), tool(t.refund)], callback_handler=None)(t.QUESTION)
p.shutdown()
