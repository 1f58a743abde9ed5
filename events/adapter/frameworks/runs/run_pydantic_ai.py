"""Pydantic AI by its own instrumentation, or exported by Logfire where KIND says so."""
import os
import telemetry as t
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
if os.environ.get("KIND") == "logfire":
    import logfire
    logfire.configure(send_to_logfire=False, console=False, service_name="shop", additional_span_processors=t.processors())
    logfire.instrument_pydantic_ai()
    end = logfire.shutdown
else:
    p = t.provider()
    Agent.instrument_all()
    end = p.shutdown
a = Agent(OpenAIChatModel(t.CASE, provider=OpenAIProvider(base_url=t.MODEL, api_key=t.KEY)), name="order_bot", tools=[t.lookup_order, t.refund])
a.run_sync(t.QUESTION)
end()
