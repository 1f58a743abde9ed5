// A script in the place of a model of the AI SDK, see common.mjs.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { CALLS, args, folder, run, search } from "./common.mjs";

const find = createRequire(folder + "/package.json");
const { MockLanguageModelV3 } = await import(pathToFileURL(find.resolve("ai/test")));
const { tool } = await import(pathToFileURL(find.resolve("ai")));
const { z } = await import(pathToFileURL(find.resolve("zod")));

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
let asked = 0;
const model = new MockLanguageModelV3({
  doGenerate: async () =>
    ++asked <= CALLS
      ? { content: [{ type: "tool-call", toolCallId: "c" + asked, toolName: "search", input: JSON.stringify(args(asked)) }], finishReason: { unified: "tool-calls" }, usage, warnings: [] }
      : { content: [{ type: "text", text: "done" }], finishReason: { unified: "stop" }, usage, warnings: [] },
});
await run({ model, search: tool({ description: "Searches.", inputSchema: z.object({ query: z.string() }), execute: search }) });
