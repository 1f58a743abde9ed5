"""Instrumentations of the client of a model, for frameworks without telemetry of their own."""
import os


def instrument(provider):
    kind = os.environ.get("KIND")
    if kind == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor
        OpenAIInstrumentor().instrument(tracer_provider=provider)
    else:
        if kind == "hidden":
            os.environ["TRACELOOP_TRACE_CONTENT"] = "false"
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor
        OpenAIInstrumentor().instrument(tracer_provider=provider)


def count_bytes():
    """Lets tiktoken count bytes: its tables are on the network."""
    import tiktoken
    encoding = tiktoken.Encoding("bytes", pat_str=r"\S+|\s+", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: encoding
