// Strands Agents for TypeScript with its own telemetry.
import { provider, CASE, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import { Agent, tool } from "@strands-agents/sdk";
import { OpenAIModel } from "@strands-agents/sdk/models/openai";
import { z } from "zod";
const agent = new Agent({
  name: "order_bot",
  systemPrompt: "Answer.",
  printer: false,
  model: new OpenAIModel({ api: "chat", modelId: CASE, apiKey: KEY, clientConfig: { baseURL: MODEL } }),
  tools: [
    tool({ name: "lookup_order", description: "Look up an order.", inputSchema: z.object({ order_id: z.string() }), callback: lookupOrder }),
    tool({ name: "refund", description: "Refund an order.", inputSchema: z.object({ order_id: z.string(), amount: z.number() }), callback: refund }),
  ],
});
await agent.invoke(QUESTION);
await p.shutdown();
process.exit(0);
