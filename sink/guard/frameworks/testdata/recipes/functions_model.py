from common import CALLS, arguments, cid, run
from common import search as found
from smolagents import Model
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from weir_guard.functions import guarded


class Script(Model):
    asked = 0

    def generate(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **more):
        self.asked += 1
        name, given = ("search", arguments(self.asked)) if self.asked <= CALLS else ("final_answer", {"answer": "done"})
        call = ChatMessageToolCall(id=f"c{self.asked}", type="function", function=ChatMessageToolCallFunction(name=name, arguments=given))
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def search(query: str) -> str:
    """Searches.

    Args:
        query: what to search for
    """
    return found(query)


class Refusing:
    """A guard that refuses each call with the arguments that it would hash."""

    def begin(self, **about):
        self.decision, self.stopped, self.agent_message = self, True, about["arguments"]
        return self


# A context that a framework passes is another object in each call: it must not hide that calls are equal.
hashed = guarded(Refusing(), lambda query, context: "", flow=cid)("x", context=object())
assert hashed == {"query": "x"}, hashed
# Code that reads an object gets one from a refused call, too.
answer = guarded(Refusing(), lambda query: {}, refused=lambda about: {"error": about}, flow=cid)("x")
assert answer == {"error": {"query": "x"}}, answer
run({"model": Script(), "search": search})
