// A run of the AI SDK whose model, a script, wants to search three times.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, flow] = process.argv.slice(2);
const find = createRequire(folder + "/package.json");
const load = (path) => import(pathToFileURL(path));
const { generateText, stepCountIs, tool } = await load(find.resolve("ai"));
const { MockLanguageModelV3 } = await load(find.resolve("ai/test"));
const { z } = await load(find.resolve("zod"));
const { Guard } = await load(folder + "/node_modules/weir-guard/dist/weir-guard.js");
const { guarded } = await load(folder + "/node_modules/weir-guard/dist/ai.js");

let ran = 0;
let asked = 0;
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const model = new MockLanguageModelV3({
  doGenerate: async () =>
    ++asked <= 3
      ? { content: [{ type: "tool-call", toolCallId: "c" + asked, toolName: "search", input: '{"query":"x"}' }], finishReason: { unified: "tool-calls" }, usage, warnings: [] }
      : { content: [{ type: "text", text: "done" }], finishReason: { unified: "stop" }, usage, warnings: [] },
});
const guard = await Guard.connect(url, { quiet: true });
const search = tool({ description: "Searches.", inputSchema: z.object({ query: z.string() }), execute: async () => (ran++, "found") });
const end = await generateText({ model, prompt: "search", stopWhen: stepCountIs(5), tools: guarded(guard, { flow, from: "planner" }, { search }) });
console.log(JSON.stringify({ ran, saw: end.steps.flatMap((s) => s.toolResults).map((r) => r.output.message ?? r.output) }));
await guard.close();
