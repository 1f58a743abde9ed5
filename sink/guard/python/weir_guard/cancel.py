"""Ends work that a call has begun elsewhere: a task of an A2A agent, a task or a request of an MCP
server. Each function returns what Begun.on_stop takes:

    begun.on_stop(cancel.a2a_task("https://coder.example/a2a", task.id))
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, Mapping, Optional, Union

__all__ = ["CancelError", "a2a_task", "mcp_request", "mcp_task"]

_TIMEOUT = 5.0  # seconds
_MOST_ANSWER = 1 << 20
_NO_METHOD, _NOT_CANCELABLE, _NO_VERSION = -32601, -32002, -32009


class CancelError(Exception):
    """The other side has refused to cancel."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


def a2a_task(url: str, task_id: str, headers: Optional[Mapping[str, str]] = None, tls: Optional[ssl.SSLContext] = None) -> Callable[[], None]:
    """Cancels a task of an agent by CancelTask, or where the agent is of version 0.3 by tasks/cancel.
    A task that has ended already is no error."""

    def cancel() -> None:
        try:
            try:
                _post(url, "CancelTask", {"id": task_id}, {"A2A-Version": "1.0", **(headers or {})}, tls)
            except CancelError as err:
                if err.code not in (_NO_METHOD, _NO_VERSION):
                    raise
                _post(url, "tasks/cancel", {"id": task_id}, headers, tls)
        except CancelError as err:
            if err.code != _NOT_CANCELABLE:
                raise

    return cancel


def mcp_task(url: str, task_id: str, headers: Optional[Mapping[str, str]] = None, tls: Optional[ssl.SSLContext] = None) -> Callable[[], None]:
    """Cancels a task of a server by tasks/cancel. headers has the Mcp-Session-Id of the session in
    which the task was begun."""
    return lambda: _post(url, "tasks/cancel", {"taskId": task_id}, headers, tls)


def mcp_request(url: str, request_id: Union[int, str], headers: Optional[Mapping[str, str]] = None, tls: Optional[ssl.SSLContext] = None) -> Callable[[], None]:
    """Cancels a request of a session by notifications/cancelled. SDKs send that themselves when the
    task of a call is cancelled: this is for programs without one."""
    params = {"requestId": request_id, "reason": "stopped by a person"}
    return lambda: _send(url, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}, headers, tls) and None


def _post(url: str, method: str, params: Dict[str, Any], headers: Optional[Mapping[str, str]], tls: Optional[ssl.SSLContext]) -> None:
    text = _send(url, {"jsonrpc": "2.0", "id": "weir-cancel", "method": method, "params": params}, headers, tls)
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError):
        raise CancelError(0, f"the answer to {method} cannot be read") from None
    if error:
        raise CancelError(error.get("code", 0), str(error.get("message", "")))


def _send(url: str, message: Dict[str, Any], headers: Optional[Mapping[str, str]], tls: Optional[ssl.SSLContext]) -> str:
    request = urllib.request.Request(url, json.dumps(message).encode(), {**(headers or {}), "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=tls) as answer:
            return _payload(answer)
    except urllib.error.HTTPError as err:
        text = _payload(err)  # a refusal may have a JSON-RPC error as its body
        if '"error"' in text:
            return text
        raise CancelError(err.code, f"{message['method']} is answered by {err.code}") from None


def _payload(answer: Any) -> str:
    """The JSON of an answer: the body, or the data of the last event of a stream."""
    text: str = answer.read(_MOST_ANSWER).decode("utf-8", "replace")
    if "text/event-stream" not in answer.headers.get("Content-Type", ""):
        return text
    data = [line[5:].strip() for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    return data[-1] if data else ""
