// A script in the place of a model of LangChain, see common.mjs.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { CALLS, args, folder, run, search } from "./common.mjs";

const find = createRequire(folder + "/package.json");
const { BaseChatModel } = await import(pathToFileURL(find.resolve("@langchain/core/language_models/chat_models")));
const { AIMessage } = await import(pathToFileURL(find.resolve("@langchain/core/messages")));
const { z } = await import(pathToFileURL(find.resolve("zod")));

let asked = 0;
class Script extends BaseChatModel {
  _llmType() {
    return "script";
  }
  bindTools() {
    return this;
  }
  async _generate() {
    const tool_calls = ++asked <= CALLS ? [{ name: "search", args: args(asked), id: "c" + asked, type: "tool_call" }] : [];
    const message = new AIMessage({ content: tool_calls.length ? "" : "done", tool_calls });
    return { generations: [{ text: "", message }] };
  }
}
await run({ model: new Script({}), search, schema: z.object({ query: z.string() }) });
