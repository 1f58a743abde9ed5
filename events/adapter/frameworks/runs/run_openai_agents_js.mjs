// OpenAI Agents SDK for TypeScript with OpenInference.
import { provider, CASE, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import * as agents from "@openai/agents";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import OpenAI from "openai";
import { z } from "zod";
const i = new OpenAIAgentsInstrumentation({ tracerProvider: p });
i.manuallyInstrument(agents);
const order = new agents.Agent({
  name: "order_bot",
  instructions: "Answer.",
  model: new agents.OpenAIChatCompletionsModel(new OpenAI({ baseURL: MODEL, apiKey: KEY }), CASE),
  tools: [
    agents.tool({ name: "lookup_order", description: "Look up an order.", parameters: z.object({ order_id: z.string() }), execute: lookupOrder }),
    agents.tool({ name: "refund", description: "Refund an order.", parameters: z.object({ order_id: z.string(), amount: z.number() }), execute: refund }),
  ],
});
await agents.run(order, QUESTION, { maxTurns: 20 });
await p.shutdown();
