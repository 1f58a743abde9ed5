"""Langfuse's handler of LangChain, or its decorators where KIND says so; nothing is sent to Langfuse."""
import os
os.environ.update(LANGFUSE_PUBLIC_KEY="pk-dummy", LANGFUSE_SECRET_KEY="sk-dummy", LANGFUSE_BASE_URL="http://127.0.0.1:1", LANGFUSE_HOST="http://127.0.0.1:1")
import telemetry as t
p = t.provider(False)
from langfuse import Langfuse, observe
Langfuse(tracer_provider=p)
if os.environ.get("KIND") == "decorators":
    lookup_order, refund = observe(as_type="tool")(t.lookup_order), observe(as_type="tool")(t.refund)
    script = [(lookup_order, {"order_id": "A-17"})] * 12
    if t.CASE == "honest":
        script = [(lookup_order, {"order_id": "A-17"}), (lookup_order, {"order_id": "A-18"}), (refund, {"order_id": "A-17", "amount": 5})]

    @observe(as_type="agent")
    def order_bot(question):
        return [tool(**args) for tool, args in script][-1]
    order_bot(t.QUESTION)
else:
    from langfuse.langchain import CallbackHandler
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    a = create_agent(ChatOpenAI(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], name="order_bot")
    a.invoke({"messages": [("user", t.QUESTION)]}, {"recursion_limit": 60, "callbacks": [CallbackHandler()]})
os.environ["OTEL_BSP_EXPORT_TIMEOUT"] = "1000"  # of what goes to Langfuse, which is not there
p.shutdown()
