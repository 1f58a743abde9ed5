"""What all runs share: where spans go, the tools, and the question.

CASE is loop or honest, MODEL the URL of a scripted model that speaks chat completions,
LIMIT the framework's own limit or nothing,
OUT the file for spans as OTLP JSON, one export request a line, and
OTEL_EXPORTER_OTLP_ENDPOINT a running weir."""
import base64
import json
import os

from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

CASE, MODEL, KEY = os.environ["CASE"], os.environ["MODEL"], "sk-dummy"
LIMIT = os.environ.get("LIMIT")  # of the framework itself, where one is tried
QUESTION = "Where is order A-17?"


class File(SpanExporter):
    """Writes ids as hex digits, as OTLP JSON wants them and protobuf's JSON does not."""

    def __init__(self, path):
        self.file = open(path, "w")

    def export(self, spans):
        self.file.write(json.dumps(hexadecimal(MessageToDict(encode_spans(spans)))) + "\n")
        self.file.flush()
        return SpanExportResult.SUCCESS

    def shutdown(self):
        self.file.close()


def hexadecimal(o):
    if isinstance(o, dict):
        return {k: base64.b64decode(v).hex() if k in ("traceId", "spanId", "parentSpanId") else hexadecimal(v) for k, v in o.items()}
    return [hexadecimal(v) for v in o] if isinstance(o, list) else o


def processors():
    return [BatchSpanProcessor(e, schedule_delay_millis=200) for e in (File(os.environ["OUT"]), OTLPSpanExporter())]


def provider(use=True):
    p = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    for each in processors():
        p.add_span_processor(each)
    if use:
        trace.set_tracer_provider(p)
    return p


def lookup_order(order_id: str) -> str:
    """Look up an order.

    Args:
        order_id: which order
    """
    return f"order {order_id}: shipped, carrier unknown"


def refund(order_id: str, amount: float) -> str:
    """Refund an order.

    Args:
        order_id: which order
        amount: how much
    """
    return f"refunded {amount} on {order_id}"
