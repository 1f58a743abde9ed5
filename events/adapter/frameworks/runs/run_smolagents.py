"""smolagents with OpenInference."""
import telemetry as t
p = t.provider()
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
SmolagentsInstrumentor().instrument(tracer_provider=p)
from smolagents import OpenAIServerModel, ToolCallingAgent, tool
m = OpenAIServerModel(model_id=t.CASE, api_base=t.MODEL, api_key=t.KEY)
ToolCallingAgent(tools=[tool(t.lookup_order), tool(t.refund)], model=m, name="order_bot", description="answers", max_steps=12, verbosity_level=0).run(t.QUESTION)
p.shutdown()
