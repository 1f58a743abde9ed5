// Vercel's AI SDK with its integration for OpenTelemetry: as it is by default, with the
// names that it had before its seventh version where KIND is legacy, and without content.
import { provider, CASE, KIND, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import { generateText, registerTelemetry, stepCountIs, streamText, tool } from "ai";
import { LegacyOpenTelemetry, OpenTelemetry } from "@ai-sdk/otel";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";
registerTelemetry(KIND === "legacy" ? new LegacyOpenTelemetry() : new OpenTelemetry());
const ask = {
  model: createOpenAICompatible({ name: "scripted", baseURL: MODEL, apiKey: KEY })(CASE),
  prompt: QUESTION,
  stopWhen: stepCountIs(20),
  tools: {
    lookup_order: tool({ description: "Look up an order.", inputSchema: z.object({ order_id: z.string() }), execute: lookupOrder }),
    refund: tool({ description: "Refund an order.", inputSchema: z.object({ order_id: z.string(), amount: z.number() }), execute: refund }),
  },
  telemetry: KIND === "hidden" ? { recordInputs: false, recordOutputs: false } : { functionId: "order_bot" },
};
if (KIND === "stream") await streamText(ask).text;
else await generateText(ask);
await p.shutdown();
