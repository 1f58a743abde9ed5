"""LangGraph, traced by MLflow, which exports its traces by OTLP; and MLflow's decorators
around a program without a framework where KIND is decorators."""
import os
import telemetry as t
os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_TRACKING_URI="file://" + os.path.abspath("mlruns"), OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", MLFLOW_USE_DEFAULT_TRACER_PROVIDER="false")
p = t.provider()
import mlflow
if os.environ.get("KIND") == "decorators":
    from openai import OpenAI
    import json
    mlflow.openai.autolog()
    client = OpenAI(base_url=t.MODEL, api_key=t.KEY)
    tools = {f.__name__: mlflow.trace(f, span_type="TOOL") for f in (t.lookup_order, t.refund)}
    known = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}}} for name in tools]

    @mlflow.trace(span_type="AGENT")
    def order_bot(question):
        messages = [{"role": "user", "content": question}]
        while True:
            answer = client.chat.completions.create(model=t.CASE, messages=messages, tools=known).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            if not answer.tool_calls:
                return answer.content
            for call in answer.tool_calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": tools[call.function.name](**json.loads(call.function.arguments))})

    order_bot(t.QUESTION)
else:
    mlflow.langchain.autolog()
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    a = create_agent(ChatOpenAI(model=t.CASE, base_url=t.MODEL, api_key=t.KEY), tools=[t.lookup_order, t.refund], name="order_bot")
    a.invoke({"messages": [("user", t.QUESTION)]}, {"recursion_limit": 60})
mlflow.flush_trace_async_logging()
p.shutdown()
