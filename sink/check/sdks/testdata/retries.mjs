// Makes one call by an official SDK, with its own way of trying again, at each of the servers, which refuse it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, sdk, ...urls] = process.argv.slice(2);
const find = createRequire(folder + "/package.json");
const load = (name) => import(pathToFileURL(find.resolve(name)));

const calls = {
  openai: ["openai", async (url) => {
    const { default: OpenAI } = await load("openai");
    await new OpenAI({ baseURL: url, apiKey: "none" }).chat.completions.create({ model: "m", messages: [{ role: "user", content: "x" }] });
  }],
  anthropic: ["@anthropic-ai/sdk", async (url) => {
    const { default: Anthropic } = await load("@anthropic-ai/sdk");
    await new Anthropic({ baseURL: url, apiKey: "none" }).messages.create({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "x" }] });
  }],
  google: ["@google/genai", async (url) => {
    const { GoogleGenAI } = await load("@google/genai");
    const retryOptions = { attempts: 3, initialDelay: 0.1 }; // by default it tries once
    await new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: url, retryOptions } }).models.generateContent({ model: "m", contents: "x" });
  }],
  mcp: ["@modelcontextprotocol/sdk", async (url) => {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    await client.callTool({ name: "t", arguments: {} });
  }],
  a2a: ["@a2a-js/sdk", async (url) => {
    const { ClientFactory } = await load("@a2a-js/sdk/client");
    const card = { name: "t", description: "t", version: "1", capabilities: {}, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"], skills: [],
      supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }] };
    const client = await new ClientFactory().createFromAgentCard(card);
    await client.sendMessage({ message: { messageId: "m", role: 1, parts: [{ content: { $case: "text", value: "x" } }] } });
  }],
};

const [name, call] = calls[sdk];
console.log(name, JSON.parse(readFileSync(`${folder}/node_modules/${name}/package.json`, "utf8")).version);
for (const url of urls) {
  try {
    await call(url);
  } catch (err) {
    console.log(err.constructor.name);
  }
}
process.exit(0);
