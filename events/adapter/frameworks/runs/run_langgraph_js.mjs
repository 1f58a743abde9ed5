// LangChain.js' agent on LangGraph.js, traced by Traceloop, or by OpenInference where KIND
// says so.
import { provider, CASE, KIND, KEY, MODEL, QUESTION, lookupOrder, refund } from "./telemetry.mjs";
const p = provider();
import * as callbacks from "@langchain/core/callbacks/manager";
if (KIND === "openinference") {
  const { LangChainInstrumentation } = await import("@arizeai/openinference-instrumentation-langchain");
  new LangChainInstrumentation({ tracerProvider: p }).manuallyInstrument(callbacks);
} else {
  const { LangChainInstrumentation } = await import("@traceloop/instrumentation-langchain");
  const i = new LangChainInstrumentation();
  i.setTracerProvider(p);
  i.manuallyInstrument({ callbackManagerModule: callbacks });
}
import { createAgent, tool } from "langchain";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
const agent = createAgent({
  name: "order_bot",
  model: new ChatOpenAI({ model: CASE, apiKey: KEY, configuration: { baseURL: MODEL } }),
  tools: [
    tool(lookupOrder, { name: "lookup_order", description: "Look up an order.", schema: z.object({ order_id: z.string() }) }),
    tool(refund, { name: "refund", description: "Refund an order.", schema: z.object({ order_id: z.string(), amount: z.number() }) }),
  ],
});
await agent.invoke({ messages: [{ role: "user", content: QUESTION }] }, { recursionLimit: 60 });
await p.shutdown();
