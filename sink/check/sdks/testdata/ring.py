"""Two agents of the official A2A SDK that hand each message to the other, and declare weir's extension in
their cards: ring.py GUARD URL|- MAX_HOPS, where GUARD is the folder of weir_guard. Without a URL no weir is
asked. It prints how many messages each agent worked on, and how the run ended."""

import asyncio
import importlib.metadata
import json
import sys

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Message, Part, Role, SendMessageRequest
from a2a.utils.errors import InvalidParamsError
from starlette.applications import Starlette

sys.path.insert(0, sys.argv[1])
import weir_guard  # noqa: E402
from weir_guard import a2a  # noqa: E402

url, limit = sys.argv[2], int(sys.argv[3])
guard = None if url == "-" else weir_guard.Guard(url)
worked, ends, seen = {"left": 0, "right": 0}, [], []


def card(name):
    extension = AgentExtension(uri=a2a.URI, description="Hop count, tree and remaining budget")
    extension.params.update({"max_hops": limit})
    return AgentCard(name=name, description=name, version="1", capabilities=AgentCapabilities(extensions=[extension]), default_input_modes=["text/plain"], default_output_modes=["text/plain"],
                     skills=[AgentSkill(id="s", name="s", description="hands work on", tags=["test"])], supported_interfaces=[AgentInterface(url=f"http://{name}/", protocol_binding="JSONRPC", protocol_version="1.0")])


cards = {name: card(name) for name in worked}


async def send(to, message):
    client = ClientFactory(ClientConfig(streaming=False, httpx_client=httpx.AsyncClient(transport=httpx.ASGITransport(app=apps[to]), timeout=60))).create(cards[to])
    async for _ in client.send_message(SendMessageRequest(message=message)):
        pass


class Agent(AgentExecutor):
    def __init__(self, name):
        self.name, self.other = name, "right" if name == "left" else "left"

    async def execute(self, context, events):
        hop = a2a.read(context.message.metadata) or a2a.Hop(flow=context.context_id)
        seen.append(hop.hops)
        if hop.refused():
            raise InvalidParamsError(message=hop.refused())
        worked[self.name] += 1
        message = Message(message_id=f"m{hop.hops}", role=Role.ROLE_USER, parts=[Part(text=f"step {hop.hops} of the work")])
        try:
            remaining, most = (), a2a.max_hops(cards[self.other])
            hop.next(card=most)  # what may not be sent is not asked about
            if guard:
                with weir_guard.working(hop.work(self.name)):
                    d = await asyncio.to_thread(guard.ask, target=self.other, tell=True)
                if d.stopped:
                    raise d.error()
                remaining = d.remaining
            a2a.put(message, hop.next(remaining, most))
            await send(self.other, message)
        except (a2a.Spent, weir_guard.FlowStopped) as err:
            ends.append(getattr(err, "member", None) or err.decision.reason)
        await events.enqueue_event(new_text_message("done"))

    async def cancel(self, context, events):
        pass


apps = {}
for name in worked:
    handler = DefaultRequestHandler(agent_executor=Agent(name), task_store=InMemoryTaskStore(), agent_card=cards[name])
    apps[name] = Starlette(routes=[*create_agent_card_routes(cards[name]), *create_jsonrpc_routes(handler, "/")])


async def main():
    first = Message(message_id="m", role=Role.ROLE_USER, context_id="ring", parts=[Part(text="go")])
    a2a.put(first, a2a.Hop(flow="ring"))
    await send("left", first)


asyncio.run(main())
print(json.dumps({"version": importlib.metadata.version("a2a-sdk"), **worked, "end": ends, "hops": seen}))
