// Mastra with its own exporter for OpenTelemetry.
import { processors, CASE, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";
const exporters = processors().map((p) => new OtelExporter({ exporter: p._exporter, provider: { custom: { endpoint: "unused" } } }));
const agent = new Agent({
  id: "order_bot",
  name: "order_bot",
  instructions: "Answer.",
  model: createOpenAICompatible({ name: "scripted", baseURL: MODEL, apiKey: KEY })(CASE),
  tools: {
    lookup_order: createTool({ id: "lookup_order", description: "Look up an order.", inputSchema: z.object({ order_id: z.string() }), execute: async (i) => lookupOrder(i) }),
    refund: createTool({ id: "refund", description: "Refund an order.", inputSchema: z.object({ order_id: z.string(), amount: z.number() }), execute: async (i) => refund(i) }),
  },
});
const observability = new Observability({ configs: { otel: { serviceName: "shop", exporters } } });
const mastra = new Mastra({ agents: { order_bot: agent }, observability, logger: false });
await mastra.getAgent("order_bot").generate(QUESTION, { maxSteps: 20 });
await observability.shutdown();
process.exit(0);
