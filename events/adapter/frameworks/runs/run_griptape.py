"""Griptape by its own observability driver, and where KIND says so the client of its model, too."""
import os
import telemetry as t
from griptape.drivers.observability.open_telemetry import OpenTelemetryObservabilityDriver
from griptape.observability import Observability
p = t.provider()
if os.environ.get("KIND"):
    import clients
    clients.instrument(p)
from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.tools import BaseTool
from griptape.artifacts import TextArtifact
from griptape.utils.decorators import activity
from schema import Schema
from opentelemetry.sdk.trace import SpanProcessor


class Orders(BaseTool):
    @activity(config={"description": "Look up an order", "schema": Schema({"order_id": str})})
    def lookup_order(self, params: dict) -> TextArtifact:
        return TextArtifact(t.lookup_order(**params["values"]))

    @activity(config={"description": "Refund an order", "schema": Schema({"order_id": str, "amount": float})})
    def refund(self, params: dict) -> TextArtifact:
        return TextArtifact(t.refund(**params["values"]))


driver = OpenTelemetryObservabilityDriver(service_name="shop", trace_provider=p, span_processor=SpanProcessor())
with Observability(observability_driver=driver):
    Agent(prompt_driver=OpenAiChatPromptDriver(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[Orders()]).run(t.QUESTION)
p.shutdown()
