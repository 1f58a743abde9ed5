from common import CALLS, arguments, run, search
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def script(messages, info):
    n = sum(isinstance(m, ModelResponse) for m in messages)
    return ModelResponse(parts=[ToolCallPart("search", arguments(n))] if n < CALLS else [TextPart("done")])


run({"model": FunctionModel(script), "search": search})
