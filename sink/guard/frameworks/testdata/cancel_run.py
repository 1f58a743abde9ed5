"""A call in flight of a real library, which a stop by hand ends: prints "began", and how it has ended."""

import asyncio
import json
import socket
import sys
import threading
import time

from weir_guard import FlowStopped, Guard, cancel

what, url = sys.argv[1:]
LONG = 600.0  # seconds, which no test waits for
guard = Guard(url, name=what, quiet=True)


def began() -> None:
    print("began", flush=True)


def serve(app) -> str:
    """Serves an application, and returns its address."""
    import uvicorn

    port = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=lambda: asyncio.run(server.serve([port])), daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{port.getsockname()[1]}"


async def run_langgraph() -> dict:
    """A run of a graph with a node that waits: the run is interrupted."""
    from langgraph.graph import END, START, MessagesState, StateGraph

    seen = []

    async def wait(_: MessagesState) -> dict:
        began()
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("wait", wait)
    graph.add_edge(START, "wait")
    graph.add_edge("wait", END)
    run = graph.compile()
    try:
        await guard.arun(lambda: run.ainvoke({"messages": [("user", "go")]}), "f", "user-app", "graph")
    except FlowStopped as err:
        return {"stopped": str(err), "seen": seen}
    return {}


async def run_langgraph_tool() -> dict:
    """A tool of a graph that waits: the tool is cancelled, and the model reads why."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    from weir_guard.langgraph import aguarded

    async def wait(query: str) -> str:
        """Waits."""
        began()
        await asyncio.sleep(LONG)
        return query

    def model(state: MessagesState) -> dict:
        asked = sum(isinstance(m, AIMessage) for m in state["messages"])
        return {"messages": [AIMessage(content="", tool_calls=[] if asked else [{"name": "wait", "args": {"query": "x"}, "id": "c"}])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([wait], awrap_tool_call=aguarded(guard, flow="f", source="planner")))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    end = await graph.compile().ainvoke({"messages": [("user", "go")]})
    return {"stopped": next(m.content for m in end["messages"] if m.type == "tool"), "seen": ["cancelled"]}


async def run_mcp() -> dict:
    """A tool of an MCP server: it gets notifications/cancelled."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.mcpserver import MCPServer

    server, seen, done = MCPServer("slow"), [], threading.Event()

    @server.tool()
    async def wait() -> str:
        """Waits."""
        began()
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            seen.append("cancelled")
            done.set()
            raise
        return ""

    address = serve(server.streamable_http_app()) + "/mcp"
    async with streamable_http_client(address) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        try:
            await guard.arun(lambda: session.call_tool("wait", {}), "f", "planner", tool="wait")
        except FlowStopped as err:
            await asyncio.to_thread(done.wait, 30)
            return {"stopped": str(err), "seen": seen}
    return {}


async def run_mcp_task() -> dict:
    """A task of an MCP server: it gets tasks/cancel."""
    import mcp.types as types
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    server = Server("slow")
    server.experimental.enable_tasks()

    @server.list_tools()
    async def tools() -> list:
        return [types.Tool(name="wait", inputSchema={"type": "object"}, execution=types.ToolExecution(taskSupport="required"))]

    @server.call_tool()
    async def call(name: str, arguments: dict):
        async def work(task) -> types.CallToolResult:
            began()
            await asyncio.sleep(LONG)
            return types.CallToolResult(content=[])

        return await server.request_context.experimental.run_task(work)

    manager = StreamableHTTPSessionManager(server)

    async def handle(scope, receive, send):
        await manager.handle_request(scope, receive, send)

    address = serve(Starlette(routes=[Mount("/mcp", app=handle)], lifespan=lambda _: manager.run())) + "/mcp/"
    async with streamablehttp_client(address) as (read, write, session_id), ClientSession(read, write) as session:
        await session.initialize()
        begun = await guard.abegin("f", "planner", tool="wait")
        created = await session.experimental.call_tool_as_task("wait", {})
        task = created.task.taskId
        begun.on_stop(cancel.mcp_task(address, task, {"Mcp-Session-Id": session_id()}))
        async for status in session.experimental.poll_task(task):
            if status.status in ("cancelled", "completed", "failed"):
                begun.finish(error=status.status, status="cancelled")
                return {"stopped": str(begun.stop.error()), "seen": [status.status]}
    return {}


async def run_a2a(compat: bool = False) -> dict:
    """A task of an A2A agent: it gets CancelTask."""
    from a2a.client import ClientConfig, create_client
    from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import a2a_pb2 as a2a
    from starlette.applications import Starlette

    seen = []

    class Slow(AgentExecutor):
        async def execute(self, context, event_queue) -> None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await TaskUpdater(event_queue, context.task_id, context.context_id).start_work()
            await asyncio.sleep(LONG)

        async def cancel(self, context, event_queue) -> None:
            seen.append("cancelled")
            await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    port = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{port.getsockname()[1]}/"
    port.close()
    card = a2a.AgentCard(
        name="slow", description="waits", version="1", capabilities=a2a.AgentCapabilities(streaming=True),
        supported_interfaces=[a2a.AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=address)],
    )
    handler = DefaultRequestHandler(agent_executor=Slow(), task_store=InMemoryTaskStore(), agent_card=card)
    address = serve(Starlette(routes=create_jsonrpc_routes(handler, "/"))) + "/"
    card.supported_interfaces[0].url = address
    client = await create_client(card, ClientConfig(streaming=True))
    begun = await guard.abegin("f", "planner", "slow", message="go")
    message = new_text_message("go", role=a2a.Role.ROLE_USER)
    async for event in client.send_message(a2a.SendMessageRequest(message=message)):
        if event.HasField("task"):
            begun.on_stop(cancel.a2a_task(address, event.task.id))
        elif event.HasField("status_update"):
            state = event.status_update.status.state
            if state == a2a.TaskState.TASK_STATE_WORKING:
                began()
            if state == a2a.TaskState.TASK_STATE_CANCELED:
                begun.finish(error="canceled", status="cancelled")
                return {"stopped": str(begun.stop.error()), "seen": seen}
    return {}


result = asyncio.run({"langgraph": run_langgraph, "langgraph_tool": run_langgraph_tool, "mcp": run_mcp, "mcp_task": run_mcp_task, "a2a": run_a2a}[what]())
print(json.dumps(result), flush=True)
guard.close()
