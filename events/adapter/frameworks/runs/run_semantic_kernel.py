"""Semantic Kernel with its own telemetry, content recorded unless KIND is default."""
import asyncio, os
os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS"] = "true"
if os.environ.get("KIND") != "default":
    os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"] = "true"
import telemetry as t
p = t.provider()
from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Orders:
    @kernel_function
    def lookup_order(self, order_id: str) -> str:
        "Look up an order."
        return t.lookup_order(order_id)

    @kernel_function
    def refund(self, order_id: str, amount: float) -> str:
        "Refund an order."
        return t.refund(order_id, amount)


m = OpenAIChatCompletion(ai_model_id=t.CASE, async_client=AsyncOpenAI(api_key=t.KEY, base_url=t.MODEL))
a = ChatCompletionAgent(service=m, name="order_bot", instructions="help", function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=14))
a.kernel.add_plugin(Orders(), "orders")
asyncio.run(a.get_response(t.QUESTION))
p.shutdown()
