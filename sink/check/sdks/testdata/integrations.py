# Plays an agent of a framework that is recorded by its integration of Grafana Agent Observability and asks
# weir by the same client before each tool, in the place that the framework has for it:
#   integrations.py FRAMEWORK URL TOKEN KIND FAIL CALLS
# FRAMEWORK: langgraph, openai-agents, pydantic-ai, litellm or claude-agent-sdk. The last two ask by themselves. KIND and FAIL are those of evaluate.py.
# It prints how many calls the model wanted, how many ran, and why it ended.
import asyncio, importlib.metadata, json, logging, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agento11y import (
    ApiConfig, AuthConfig, Client, ClientConfig, GenerationExportConfig, HookContext, HookEvaluateRequest, HookInput, HookModel,
    HooksConfig, Message, MessageRole, Part, PartKind, ToolCall, ToolResult, hook_denied_from_response,
)
from agento11y.errors import HookDeniedError, HookTransportError

logging.disable(logging.CRITICAL)
framework, url, token, kind, fail, calls = sys.argv[1:]
conversation, most = framework + "-" + kind, int(calls)
client = Client(ClientConfig(
    generation_export=GenerationExportConfig(protocol="none", endpoint=url, insecure=True, auth=AuthConfig(mode="basic", tenant_id="acme", basic_user="acme", basic_password=token)),
    api=ApiConfig(endpoint=url),
    hooks=HooksConfig(enabled=True, phases=["preflight", "postflight"], timeout_seconds=2, fail_open=fail == "open"),
))
seen, wanted, ran = [], 0, 0


def guard(id, args):
    """Asks before a tool runs. It hands over the calls and results so far, by which weir sees what changes."""
    call = Message(role=MessageRole.ASSISTANT, parts=[Part(kind=PartKind.TOOL_CALL, tool_call=ToolCall(id=id, name="search", input_json=json.dumps(args).encode()))])
    response = client.evaluate_hook(HookEvaluateRequest(
        phase="postflight", context=HookContext(agent_name="planner", conversation_id=conversation, model=HookModel(provider="test", name="scripted")), input=HookInput(messages=seen, output=[call])))
    if denied := hook_denied_from_response(response):
        raise denied
    seen.append(call)


def note(id, text):
    seen.append(Message(role=MessageRole.TOOL, name="search", parts=[Part(kind=PartKind.TOOL_RESULT, tool_result=ToolResult(tool_call_id=id, name="search", content=text))]))


def next_call():
    """What the model wants next: an id and arguments, or nothing."""
    global wanted
    if wanted == most:
        return None, None
    wanted += 1
    return f"call-{wanted}", {"query": "weir" if kind == "loop" else f"page {wanted} of a long list"}


def search(query: str) -> str:
    """Searches."""
    global ran
    ran += 1
    return "nothing" if kind == "loop" else f"entry {ran} says {ran * ran} and {ran * 31 % 7}"


def langgraph():
    from agento11y_langgraph import with_agento11y_langgraph_callbacks
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    class Scripted(BaseChatModel):
        _llm_type = "scripted"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            id, args = next_call()
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content="" if id else "done", tool_calls=[{"id": id, "name": "search", "args": args}] if id else []))])

    def wrap(request, execute):
        guard(request.tool_call["id"], request.tool_call["args"])
        result = execute(request)
        note(request.tool_call["id"], result.content)
        return result

    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [Scripted().invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([search], wrap_tool_call=wrap, handle_tool_errors=False))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    config = with_agento11y_langgraph_callbacks({"recursion_limit": 200}, client=client, provider="test")
    graph.compile().invoke({"messages": [("user", "find it")]}, config=config)


def openai_agents():
    from agento11y_openai_agents import create_agento11y_openai_agents_hooks
    from agents import Agent, Model, ModelResponse, RunConfig, RunHooks, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):
        async def get_response(self, *args, **kwargs):
            id, arguments = next_call()
            if id:
                output = ResponseFunctionToolCall(type="function_call", call_id=id, name="search", arguments=json.dumps(arguments))
            else:
                output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[ResponseOutputText(type="output_text", text="done", annotations=[])])
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    class Guard(RunHooks):
        async def on_tool_start(self, context, agent, tool):
            await asyncio.to_thread(guard, context.tool_call_id, json.loads(context.tool_arguments))

        async def on_tool_end(self, context, agent, tool, result):
            note(context.tool_call_id, result)

    hooks = create_agento11y_openai_agents_hooks(client=client, existing_hooks=Guard(), provider="test")
    agent = Agent(name="planner", model=Scripted(), tools=[function_tool(search)])
    asyncio.run(Runner.run(agent, "find it", hooks=hooks, max_turns=200, run_config=RunConfig(tracing_disabled=True)))


def pydantic_ai():
    from agento11y_pydantic_ai import create_agento11y_pydantic_ai_capability
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    class Guard(AbstractCapability):
        async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
            await asyncio.to_thread(guard, call.tool_call_id, args)
            result = await handler(args)
            note(call.tool_call_id, result)
            return result

    async def scripted(messages, info):  # the integration streams
        id, args = next_call()
        yield {0: DeltaToolCall("search", json.dumps(args), tool_call_id=id)} if id else "done"

    recorded = create_agento11y_pydantic_ai_capability(client=client, provider="test")
    agent = Agent(FunctionModel(stream_function=scripted), tools=[search], capabilities=[recorded, Guard()])
    agent.run_sync("find it", usage_limits=UsageLimits(request_limit=200))


class Upstream(BaseHTTPRequestHandler):
    """The provider: of LiteLLM's proxy by OpenAI's protocol, of Claude Code by Anthropic's."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "/messages" in self.path:
            self.messages(asked)
            return
        id, args = next_call()
        message = {"role": "assistant", "content": None if id else "done"}
        if id:
            message["tool_calls"] = [{"id": id, "type": "function", "function": {"name": "search", "arguments": json.dumps(args)}}]
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if id else "stop"}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.reply("application/json", body)

    def messages(self, asked):
        """Asks for one shell command after the other. What Claude Code asks beside the run has no tools."""
        if "count_tokens" in self.path:
            self.reply("application/json", b'{"input_tokens": 10}')
            return
        id, args = next_call() if asked.get("tools") else (None, None)
        block = {"type": "tool_use", "id": "toolu_" + id, "name": "Bash", "input": {}} if id else {"type": "text", "text": ""}
        command = json.dumps({"command": f"echo {args['query']} >> ran"}) if id else ""
        delta = {"type": "input_json_delta", "partial_json": command} if id else {"type": "text_delta", "text": "done"}
        usage = {"input_tokens": 10, "output_tokens": 5}
        told = [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": asked["model"], "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use" if id else "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        self.reply("text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in told).encode())

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def provider():
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{upstream.server_address[1]}"


def claude_agent_sdk():
    """The SDK with the program that it ships. It sends no conversation, so the name of the agent has the session."""
    global ran
    from agento11y_claude_agent import agento11y_query
    from claude_agent_sdk import ClaudeAgentOptions

    place = os.path.join(os.environ["HOME"], "work")
    os.mkdir(place)
    options = ClaudeAgentOptions(cwd=place, permission_mode="bypassPermissions", env={
        "ANTHROPIC_BASE_URL": provider(), "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"})

    async def run():
        async for _ in agento11y_query(prompt="find it", options=options, client=client, agent_name="planner#" + conversation):
            pass

    try:
        asyncio.run(run())
    finally:
        try:
            with open(os.path.join(place, "ran")) as lines:
                ran = len(lines.readlines())
        except FileNotFoundError:
            pass


def litellm():
    """The proxy itself, in this process, with the guardrail as its page says; a client of it knows nothing of weir."""
    upstream = provider()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm
    from agento11y_litellm import Agento11yLiteLLMGuardrail, Agento11yLiteLLMLogger
    from fastapi.testclient import TestClient
    from litellm.proxy import proxy_server

    litellm.callbacks = [
        Agento11yLiteLLMLogger(client=client, agent_name="litellm-proxy"),
        Agento11yLiteLLMGuardrail(client=client, agent_name="litellm-proxy", default_on=True, event_hook=["pre_call", "post_call"]),
    ]
    proxy_server.llm_router = litellm.Router(model_list=[{"model_name": "scripted", "litellm_params": {
        "model": "openai/scripted", "api_base": upstream + "/v1", "api_key": "none", "num_retries": 0, "max_retries": 0}}])
    agent = TestClient(proxy_server.app, raise_server_exceptions=False)
    messages = [{"role": "user", "content": "find it"}]
    while True:
        answer = agent.post("/v1/chat/completions", json={"model": "scripted", "messages": messages, "metadata": {"session_id": conversation},
                                                         "tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}}]})
        if answer.status_code != 200:
            raise RuntimeError(f"HTTP {answer.status_code}: {answer.json()['error']['message']}")
        message = answer.json()["choices"][0]["message"]
        if not message.get("tool_calls"):
            return
        call = message["tool_calls"][0]
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": search(**json.loads(call["function"]["arguments"]))}]


end = "all calls ran"
try:
    {"langgraph": langgraph, "openai-agents": openai_agents, "pydantic-ai": pydantic_ai, "litellm": litellm, "claude-agent-sdk": claude_agent_sdk}[framework]()
except BaseException as err:
    while not isinstance(err, (HookDeniedError, HookTransportError)) and (inner := err.exceptions[0] if isinstance(err, BaseExceptionGroup) else err.__cause__):
        err = inner
    end = f"closed: {err}" if isinstance(err, HookTransportError) else f"{type(err).__name__} {getattr(err, 'rule_id', '')}: {getattr(err, 'reason', err)}"
print(json.dumps({"version": importlib.metadata.version("pydantic_ai" if framework == "pydantic-ai" else framework), "wanted": wanted, "ran": ran, "end": end}), flush=True)
os._exit(0)
