"""CAMEL, which has no telemetry of its own: the client of its models is instrumented, see clients."""
import clients
import telemetry as t
p = t.provider()
clients.instrument(p)
clients.count_bytes()
from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.toolkits import FunctionTool
from camel.types import ModelPlatformType
m = ModelFactory.create(model_platform=ModelPlatformType.OPENAI_COMPATIBLE_MODEL, model_type=t.CASE, url=t.MODEL, api_key=t.KEY)
ChatAgent("You look after orders.", model=m, tools=[FunctionTool(f) for f in (t.lookup_order, t.refund)]).step(t.QUESTION)
p.shutdown()
