"""Google ADK by its own telemetry, with the content of messages, and its own model interface."""
import asyncio, os
os.environ.update(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_ONLY")
import telemetry as t
p = t.provider()
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
LOOP = [("lookup_order", {"order_id": "A-17"})] * 12
HONEST = [("lookup_order", {"order_id": "A-17"}), ("lookup_order", {"order_id": "A-18"}), ("refund", {"order_id": "A-17", "amount": 5})]


class Scripted(BaseLlm):
    n: int = 0

    async def generate_content_async(self, request, stream=False):
        script, self.n = LOOP if t.CASE == "loop" else HONEST, self.n + 1
        part = types.Part(text="refunded 5 on A-17")
        if self.n <= len(script):
            name, args = script[self.n - 1]
            part = types.Part(function_call=types.FunctionCall(name=name, args=args))
        yield LlmResponse(content=types.Content(role="model", parts=[part]), finish_reason=types.FinishReason.STOP)


async def main():
    r = InMemoryRunner(agent=LlmAgent(name="order_bot", model=Scripted(model=t.CASE), tools=[t.lookup_order, t.refund]), app_name="shop")
    s = await r.session_service.create_session(app_name="shop", user_id="u")
    async for _ in r.run_async(user_id="u", session_id=s.id, new_message=types.Content(role="user", parts=[types.Part(text=t.QUESTION)])):
        pass
asyncio.run(main())
p.shutdown()
