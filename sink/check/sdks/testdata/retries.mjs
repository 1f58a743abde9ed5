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
    return await client.callTool({ name: "t", arguments: {} });
  }],
  "mcp-client": ["@modelcontextprotocol/client", async (url) => {
    const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return await client.callTool({ name: "t", arguments: {} });
  }],
  // A node that asks and fails, run by the engine with "Retry On Fail".
  n8n: ["n8n-core", async (url) => {
    await load("reflect-metadata");
    const { WorkflowExecute, ExecutionLifecycleHooks } = (await load("n8n-core")).default;
    const { Workflow } = (await load("n8n-workflow")).default;
    const kind = (name, inputs, execute) => ({ execute, description: { displayName: name, name, group: [], version: 1, description: "", defaults: { name }, inputs, outputs: ["main"], properties: [] } });
    const kinds = {
      start: kind("start", [], async () => [[{ json: {} }]]),
      agent: kind("agent", ["main"], async function () {
        const answer = await fetch(url, { method: "POST", body: "{}", headers: { "x-correlation-id": this.getExecutionId() } });
        throw new Error(`HTTP ${answer.status}`);
      }),
    };
    const node = (name, more) => ({ id: name, name, type: name, typeVersion: 1, position: [0, 0], parameters: {}, ...more });
    const workflow = new Workflow({ id: "w", name: "w", active: false, nodeTypes: { getByName: (n) => kinds[n], getByNameAndVersion: (n) => kinds[n], getKnownTypes: () => ({}) },
      nodes: [node("start"), node("agent", { retryOnFail: true, maxTries: 3, waitBetweenTries: 1 })], settings: { executionOrder: "v1" },
      connections: { start: { main: [[{ node: "agent", type: "main", index: 0 }]] } } });
    const execution = "execution-1";
    const run = await new WorkflowExecute({ executionId: execution, hooks: new ExecutionLifecycleHooks("manual", execution, workflow), variables: {}, setExecutionStatus() {}, sendDataToUI() {} }, "manual")
      .run({ workflow, startNode: workflow.getNode("start") });
    throw run.data.resultData.error;
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
    const result = await call(url); // of the clients of MCP alone
    if (result) console.log(JSON.stringify(result));
  } catch (err) {
    console.log(err.constructor.name);
  }
}
process.exit(0);
