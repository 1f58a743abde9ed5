"""Makes one call by an official SDK, with its own way of trying again, at each of the servers, which refuse it."""

import asyncio
import importlib.metadata
import sys

sdk, *urls = sys.argv[1:]


def openai():
    import openai as sdk

    sdk.OpenAI(base_url=url, api_key="none").chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


def anthropic():
    import anthropic as sdk

    sdk.Anthropic(base_url=url, api_key="none").messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])


def google():
    from google import genai
    from google.genai import types

    retry = types.HttpRetryOptions(attempts=3, initial_delay=0.1)  # by default it tries once
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url, retry_options=retry))
    client.models.generate_content(model="m", contents="x")


def mcp():
    from mcp import Client

    async def call():
        async with Client(url, mode="legacy") as client:
            result = await client.call_tool("t", {})
            print(result.model_dump_json(by_alias=True))

    asyncio.run(call())


def a2a():
    from a2a.client import ClientConfig, ClientFactory
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Message, Part, Role, SendMessageRequest

    async def call():
        card = AgentCard(name="t", description="t", version="1", capabilities=AgentCapabilities(), default_input_modes=["text/plain"], default_output_modes=["text/plain"])
        card.supported_interfaces.append(AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0"))
        client = ClientFactory(ClientConfig(streaming=False)).create(card)
        message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="x")])
        async for _ in client.send_message(SendMessageRequest(message=message)):
            pass

    asyncio.run(call())


run, package = {"openai": (openai, "openai"), "anthropic": (anthropic, "anthropic"), "google": (google, "google-genai"), "mcp": (mcp, "mcp"), "a2a": (a2a, "a2a-sdk")}[sdk]
print(package, importlib.metadata.version(package), flush=True)
for url in urls:
    try:
        run()
    except ImportError:
        raise
    except BaseException as err:
        print(type(err).__name__)
