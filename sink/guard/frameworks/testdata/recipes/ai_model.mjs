// Runs the code of standard input, which is that of the page, with a tool and a script in the place
// of a model, as common.py does. The first argument is the folder of the packages.
import { createRequire } from "node:module";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const find = createRequire(folder + "/package.json");
const { MockLanguageModelV3 } = await import(pathToFileURL(find.resolve("ai/test")));
const { tool } = await import(pathToFileURL(find.resolve("ai")));
const { z } = await import(pathToFileURL(find.resolve("zod")));

const calls = 40;
const equal = process.env.RECIPE_MODE !== "honest";
const kill = Number(process.env.RECIPE_KILL ?? 0);
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
let asked = 0;
let ran = 0;
const model = new MockLanguageModelV3({
  doGenerate: async () =>
    ++asked <= calls
      ? { content: [{ type: "tool-call", toolCallId: "c" + asked, toolName: "search", input: JSON.stringify({ query: equal ? "x" : `page ${asked} of the list` }) }], finishReason: { unified: "tool-calls" }, usage, warnings: [] }
      : { content: [{ type: "text", text: "done" }], finishReason: { unified: "stop" }, usage, warnings: [] },
});
const search = tool({
  description: "Searches.",
  inputSchema: z.object({ query: z.string() }),
  execute: async ({ query }) => {
    if (++ran === 3 && kill) process.kill(kill, "SIGKILL");
    return equal ? "found nothing" : `row ${ran * 7919} of ${query}: value ${ran ** 3}`;
  },
});
const cid = "recipe-" + crypto.randomUUID();
globalThis.recipe = { model, search, cid, task: "find it" };
// A file in the folder of the packages, so that their names are found as in a program.
const file = `${folder}/recipe-${process.pid}.mjs`;
writeFileSync(file, "const { model, search, cid, task } = globalThis.recipe;\n" + readFileSync(0, "utf8"));
let error = "";
try {
  await import(pathToFileURL(file));
} catch (err) {
  error = String(err);
} finally {
  rmSync(file);
}
console.log(JSON.stringify({ ran, flow: cid, error }));
process.exit(0);
