"""LangChain's agent on LangGraph, traced by Traceloop, or by OpenInference where KIND says so."""
import os
import telemetry as t
p = t.provider()
if os.environ.get("KIND") == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
else:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
Instrumentor().instrument(tracer_provider=p)
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
a = create_agent(ChatOpenAI(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], name="order_bot")
a.invoke({"messages": [("user", t.QUESTION)]}, {"recursion_limit": int(t.LIMIT or 60)})
p.shutdown()
