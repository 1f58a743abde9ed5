import json

import httpx
import openai
from common import CALLS, arguments, run, search

asked = 0


def answer(request):
    global asked
    asked += 1
    message = {"role": "assistant", "content": "done"}
    if asked <= CALLS:
        call = {"id": f"c{asked}", "type": "function", "function": {"name": "search", "arguments": json.dumps(arguments(asked))}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return httpx.Response(200, json={"id": "r", "object": "chat.completion", "created": 1, "model": "script", "usage": usage, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})


client = openai.OpenAI(api_key="none", base_url="http://model.test/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer)))
tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}}
run({"client": client, "search": search, "tools": [tool], "model": "script"})
