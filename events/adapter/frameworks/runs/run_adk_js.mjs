// Google ADK for TypeScript. Its model is a class of ours by script, because it speaks to
// Gemini alone.
import { provider, CASE, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import { BaseLlm, FunctionTool, InMemoryRunner, LlmAgent } from "@google/adk";
import { z } from "zod";
const order = { order_id: "A-17" };
const script = CASE === "loop" ? Array(12).fill(["lookup_order", order])
  : [["lookup_order", order], ["lookup_order", { order_id: "A-18" }], ["refund", { order_id: "A-17", amount: 5 }]];
class Scripted extends BaseLlm {
  made = 0;
  async *generateContentAsync() {
    const next = script[this.made++];
    const part = next ? { functionCall: { id: `call_${this.made}`, name: next[0], args: next[1] } } : { text: "refunded 5 on A-17" };
    yield { content: { role: "model", parts: [part] }, usageMetadata: { promptTokenCount: 40, candidatesTokenCount: 12, totalTokenCount: 52 } };
  }
}
const agent = new LlmAgent({
  name: "order_bot",
  model: new Scripted({ model: CASE }),
  tools: [
    new FunctionTool({ name: "lookup_order", description: "Look up an order.", parameters: z.object({ order_id: z.string() }), execute: lookupOrder }),
    new FunctionTool({ name: "refund", description: "Refund an order.", parameters: z.object({ order_id: z.string(), amount: z.number() }), execute: refund }),
  ],
});
const runner = new InMemoryRunner({ agent, appName: "shop" });
const session = await runner.sessionService.createSession({ appName: "shop", userId: "u" });
for await (const _ of runner.runAsync({ userId: "u", sessionId: session.id, newMessage: { role: "user", parts: [{ text: QUESTION }] } }));
await p.shutdown();
process.exit(0);
