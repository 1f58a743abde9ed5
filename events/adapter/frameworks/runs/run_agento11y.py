"""Grafana's agento11y: its handler of LangGraph, which names the conversation by the thread."""
import telemetry as t
p = t.provider()
from agento11y import Client, ClientConfig, GenerationExportConfig
from agento11y_langgraph import with_agento11y_langgraph_callbacks
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
c = Client(ClientConfig(generation_export=GenerationExportConfig(protocol="none")))
a = create_agent(ChatOpenAI(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], name="order_bot")
config = {"recursion_limit": 60, "configurable": {"thread_id": "talk-1"}}
a.invoke({"messages": [("user", t.QUESTION)]}, with_agento11y_langgraph_callbacks(config, client=c, provider_resolver="auto", agent_name="order_bot"))
c.shutdown()
p.shutdown()
