"""AutoGen AgentChat by its own telemetry."""
import asyncio
import telemetry as t
p = t.provider()
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_core.models import ModelInfo
m = OpenAIChatCompletionClient(model=t.CASE, base_url=t.MODEL, api_key=t.KEY, model_info=ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False))
bot = AssistantAgent("order_bot", model_client=m, tools=[t.lookup_order, t.refund], max_tool_iterations=int(t.LIMIT or 14))
asyncio.run(RoundRobinGroupChat([bot], termination_condition=MaxMessageTermination(2)).run(task=t.QUESTION))
p.shutdown()
