"""DSPy: a ReAct module by OpenInference. Its model is DSPy's own by script, because DSPy
asks for fields of a text and not for calls of tools."""
import telemetry as t
p = t.provider()
from openinference.instrumentation.dspy import DSPyInstrumentor
DSPyInstrumentor().instrument(tracer_provider=p)
import dspy
from dspy.utils import DummyLM
order, other = '{"order_id": "A-17"}', '{"order_id": "B-2"}'
calls = [("lookup_order", order)] * 12 if t.CASE == "loop" else [("lookup_order", order), ("lookup_order", other), ("refund", order)]
steps = [{"next_thought": "look", "next_tool_name": name, "next_tool_args": args} for name, args in calls + [("finish", "{}")]]
dspy.configure(lm=DummyLM(steps + [{"reasoning": "it says so", "answer": "shipped"}]))
dspy.ReAct("question -> answer", tools=[t.lookup_order, t.refund], max_iters=14)(question=t.QUESTION)
p.shutdown()
