"""LangGraph, traced by LangSmith's SDK into OpenTelemetry alone."""
import os
os.environ.update(LANGSMITH_TRACING="true", LANGSMITH_OTEL_ENABLED="true", LANGSMITH_OTEL_ONLY="true", LANGSMITH_API_KEY="dummy")
import telemetry as t
p = t.provider()
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
a = create_agent(ChatOpenAI(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], name="order_bot")
a.invoke({"messages": [("user", t.QUESTION)]}, {"recursion_limit": 60})
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
p.shutdown()
