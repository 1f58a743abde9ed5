// VoltAgent with its own observability.
import { processors, CASE, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
import { Agent, VoltAgentObservability, createTool } from "@voltagent/core";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";
const observability = new VoltAgentObservability({ serviceName: "shop", spanProcessors: processors() });
const agent = new Agent({
  name: "order_bot",
  instructions: "Answer.",
  model: createOpenAICompatible({ name: "scripted", baseURL: MODEL, apiKey: KEY })(CASE),
  observability,
  maxSteps: 20,
  tools: [
    createTool({ name: "lookup_order", description: "Look up an order.", parameters: z.object({ order_id: z.string() }), execute: async (i) => lookupOrder(i) }),
    createTool({ name: "refund", description: "Refund an order.", parameters: z.object({ order_id: z.string(), amount: z.number() }), execute: async (i) => refund(i) }),
  ],
});
await agent.generateText(QUESTION);
await observability.shutdown();
process.exit(0);
