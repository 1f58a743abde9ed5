from common import CALLS, arguments, run, search
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Script(BaseLlm):
    n: int = 0

    async def generate_content_async(self, llm_request, stream=False):
        self.n += 1
        part = types.Part.from_function_call(name="search", args=arguments(self.n)) if self.n <= CALLS else types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


run({"model": Script(model="script"), "search": search})
