// Genkit for JavaScript, its spans by the provider of the program.
import { provider, CASE, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import { genkit, z } from "genkit";
import { openAICompatible } from "@genkit-ai/compat-oai";
const ai = genkit({ plugins: [openAICompatible({ name: "scripted", apiKey: KEY, baseURL: MODEL })] });
const tools = [
  ai.defineTool({ name: "lookup_order", description: "Look up an order.", inputSchema: z.object({ order_id: z.string() }), outputSchema: z.string() }, async (i) => lookupOrder(i)),
  ai.defineTool({ name: "refund", description: "Refund an order.", inputSchema: z.object({ order_id: z.string(), amount: z.number() }), outputSchema: z.string() }, async (i) => refund(i)),
];
const orderBot = ai.defineFlow("order_bot", async (question) => (await ai.generate({ model: `scripted/${CASE}`, prompt: question, tools, maxTurns: 20 })).text);
await orderBot(QUESTION);
await p.shutdown();
process.exit(0);
