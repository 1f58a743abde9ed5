"""Microsoft Agent Framework by its own telemetry, content recorded unless KIND is default."""
import asyncio, os
import telemetry as t
p = t.provider()
from agent_framework import Agent, tool
from agent_framework.observability import enable_instrumentation
from agent_framework_openai import OpenAIChatCompletionClient
enable_instrumentation(enable_sensitive_data=os.environ.get("KIND") != "default")
m = OpenAIChatCompletionClient(model=t.CASE, base_url=t.MODEL, api_key=t.KEY)
free = tool(approval_mode="never_require")
asyncio.run(Agent(client=m, name="order_bot", instructions="Answer.", tools=[free(t.lookup_order), free(t.refund)]).run(t.QUESTION))
p.shutdown()
