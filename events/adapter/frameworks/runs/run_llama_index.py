"""LlamaIndex's agent workflow with OpenInference."""
import asyncio
import telemetry as t
p = t.provider()
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
LlamaIndexInstrumentor().instrument(tracer_provider=p)
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai_like import OpenAILike
m = OpenAILike(model=t.CASE, api_base=t.MODEL, api_key=t.KEY, is_chat_model=True, is_function_calling_model=True)


async def main():
    bot = FunctionAgent(name="order_bot", description="Answers.", system_prompt="Answer.", llm=m, tools=[t.lookup_order, t.refund], streaming=False)
    await AgentWorkflow(agents=[bot], root_agent="order_bot").run(user_msg=t.QUESTION, max_iterations=30)
    await asyncio.sleep(0.3)
asyncio.run(main())
p.shutdown()
