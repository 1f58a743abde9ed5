# Plays an agent that asks weir by the SDK of Grafana Agent Observability, agento11y, as it is on PyPI:
#   evaluate.py URL TOKEN PHASES KIND FAIL CALLS
# PHASES: preflight, postflight or both. KIND: loop (each call and each result is the same) or honest.
# FAIL: open or closed. It reads a line from standard input after the third call if KIND ends with -wait.
# It prints how many calls the model wanted, how many ran, which were refused, and why it ended.
import json, logging, sys
from agento11y import (
    ApiConfig, AuthConfig, Client, ClientConfig, GenerationExportConfig, HookContext, HookEvaluateRequest, HookInput, HookModel,
    HooksConfig, Message, MessageRole, Part, PartKind, ToolCall, ToolResult, hook_denied_from_response, text_part,
)
from agento11y.errors import HookTransportError

logging.disable(logging.CRITICAL)
url, token, phases, kind, fail, calls = sys.argv[1:]
phases = ["preflight", "postflight"] if phases == "both" else [phases]
kind, _, wait = kind.partition("-")
client = Client(ClientConfig(
    generation_export=GenerationExportConfig(protocol="none", endpoint=url, insecure=True, auth=AuthConfig(mode="basic", tenant_id="acme", basic_user="acme", basic_password=token)),
    api=ApiConfig(endpoint=url),
    hooks=HooksConfig(enabled=True, phases=phases, timeout_seconds=2, fail_open=fail == "open"),
))


def ask(phase, **given):
    """Raises what the SDK makes of a denial."""
    response = client.evaluate_hook(HookEvaluateRequest(
        phase=phase, context=HookContext(agent_name="planner", conversation_id=kind + "-" + "-".join(phases), model=HookModel(provider="test", name="scripted")), input=HookInput(**given)))
    if denied := hook_denied_from_response(response):
        raise denied


messages = [Message(role=MessageRole.USER, parts=[text_part("find it")])]
wanted = ran = 0
end = "all calls ran"
try:
    for n in range(int(calls)):
        ask("preflight", messages=messages)
        wanted += 1
        same = kind == "loop"
        args = {"query": "weir" if same else f"page {n} of a long list"}
        call = Message(role=MessageRole.ASSISTANT, parts=[Part(kind=PartKind.TOOL_CALL, tool_call=ToolCall(id=f"call-{n}", name="search", input_json=json.dumps(args).encode()))])
        ask("postflight", messages=messages, output=[call])
        ran += 1
        text = "nothing" if same else f"entry {n} says {n * n} and {n * 31 % 7}"
        messages += [call, Message(role=MessageRole.TOOL, name="search", parts=[Part(kind=PartKind.TOOL_RESULT, tool_result=ToolResult(tool_call_id=f"call-{n}", name="search", content=text))])]
        if wait and ran == 3:
            print(json.dumps({"ran": ran}), flush=True)
            sys.stdin.readline()
except HookTransportError as err:
    end = f"closed: {err}"
except Exception as err:  # the SDK's own, with the rule and the reason
    end = f"{type(err).__name__} {getattr(err, 'rule_id', '')}: {getattr(err, 'reason', err)}"
print(json.dumps({"wanted": wanted, "ran": ran, "end": end}), flush=True)
