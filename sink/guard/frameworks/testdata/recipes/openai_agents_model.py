import json

from agents import Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from common import CALLS, arguments, run, search
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Script(Model):
    n = 0

    async def get_response(self, *args, **more):
        self.n += 1
        if self.n <= CALLS:
            out = ResponseFunctionToolCall(type="function_call", call_id=f"c{self.n}", name="search", arguments=json.dumps(arguments(self.n)))
        else:
            out = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[ResponseOutputText(type="output_text", text="done", annotations=[])])
        return ModelResponse(output=[out], usage=Usage(), response_id=None)

    def stream_response(self, *args, **more):
        raise NotImplementedError("this script does not stream")


run({"model": Script(), "search": function_tool(search)})
