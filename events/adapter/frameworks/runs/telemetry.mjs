// What all runs in JavaScript share, as telemetry.py has it: where spans go, the tools, and
// the question.
import fs from "node:fs";
import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

export const CASE = process.env.CASE, KIND = process.env.KIND, MODEL = process.env.MODEL, KEY = "sk-dummy";
export const QUESTION = "Where is order A-17?";

// File writes one export request a line.
class File {
  export(spans, done) {
    fs.appendFileSync(process.env.OUT, Buffer.from(JsonTraceSerializer.serializeRequest(spans)).toString() + "\n");
    done({ code: 0 });
  }
  async shutdown() {}
  async forceFlush() {}
}

export function processors() {
  return [new File(), new OTLPTraceExporter()].map((e) => new BatchSpanProcessor(e, { scheduledDelayMillis: 200 }));
}

// provider makes one that is the program's own, with what else shall get its spans.
export function provider(...more) {
  const p = new NodeTracerProvider({ resource: resourceFromAttributes({ "service.name": "shop" }), spanProcessors: [...processors(), ...more] });
  p.register();
  trace.setGlobalTracerProvider(p);
  return p;
}

export const lookupOrder = ({ order_id }) => `order ${order_id}: shipped, carrier unknown`;
export const refund = ({ order_id, amount }) => `refunded ${amount} on ${order_id}`;
