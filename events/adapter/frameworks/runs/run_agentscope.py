"""AgentScope with its own tracing."""
import asyncio
import telemetry as t
p = t.provider()
from agentscope.agent import Agent, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.middleware import TracingMiddleware
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
m = OpenAIChatModel(OpenAICredential(api_key=t.KEY, base_url=t.MODEL), model=t.CASE, stream=False)
a = Agent("order_bot", "Answer.", m, Toolkit([FunctionTool(t.lookup_order), FunctionTool(t.refund)]), middlewares=[TracingMiddleware()],
          state=AgentState(permission_context=PermissionContext(mode=PermissionMode.BYPASS)), react_config=ReActConfig(max_iters=20))
asyncio.run(a.reply(UserMsg(name="user", content=t.QUESTION)))
p.shutdown()
