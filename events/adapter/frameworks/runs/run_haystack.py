"""Haystack: opentelemetry-haystack with content, or OpenInference where KIND says so."""
import os
import telemetry as t
p = t.provider()
if os.environ.get("KIND") == "openinference":
    from openinference.instrumentation.haystack import HaystackInstrumentor
    HaystackInstrumentor().instrument(tracer_provider=p)
else:
    from haystack import tracing
    from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
    tracing.tracer.is_content_tracing_enabled = True
    tracing.enable_tracing(OpenTelemetryTracer(p.get_tracer("haystack")))
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
m = OpenAIChatGenerator(model=t.CASE, api_key=Secret.from_token(t.KEY), api_base_url=t.MODEL)
a = Pipeline()
a.add_component("order_bot", Agent(chat_generator=m, tools=[create_tool_from_function(f) for f in (t.lookup_order, t.refund)], max_agent_steps=14))
a.run({"order_bot": {"messages": [ChatMessage.from_user(t.QUESTION)]}})
p.shutdown()
