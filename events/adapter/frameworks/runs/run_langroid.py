"""Langroid, which has no telemetry of its own: see clients."""
import clients
import telemetry as t
p = t.provider()
clients.instrument(p)
clients.count_bytes()
import langroid as lr
import langroid.language_models as lm
from langroid.agent.tool_message import ToolMessage


class LookupOrder(ToolMessage):
    request: str = "lookup_order"
    purpose: str = "To look up an <order_id>"
    order_id: str

    def handle(self) -> str:
        return t.lookup_order(self.order_id)


class Refund(ToolMessage):
    request: str = "refund"
    purpose: str = "To refund an <amount> on an <order_id>"
    order_id: str
    amount: float

    def handle(self) -> str:
        return t.refund(self.order_id, self.amount)


llm = lm.OpenAIGPTConfig(chat_model="local/" + t.MODEL.removeprefix("http://"), api_key=t.KEY, stream=False, chat_context_length=32000)
a = lr.ChatAgent(lr.ChatAgentConfig(llm=llm, name="order_bot", use_tools=False, use_functions_api=True, use_tools_api=True))
a.enable_message([LookupOrder, Refund])
lr.Task(a, interactive=False).run(t.QUESTION, turns=30)
p.shutdown()
