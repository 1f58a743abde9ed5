// Calls a tool twice by the official SDK and prints what its caller sees the second time.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const find = createRequire(folder + "/package.json");
const load = (name) => import(pathToFileURL(find.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.callTool({ name: "lookup_order", arguments: { order_id: "1" } });
let seen;
try {
  const second = await client.callTool({ name: "lookup_order", arguments: { order_id: "2" } });
  seen = { kind: "result", error: !!second.isError, text: second.content[0].text, reason: second.structuredContent?.reason_code ?? "" };
} catch (err) {
  seen = { kind: "exception", error: true, text: String(err.message), reason: err.data?.reason_code ?? "" };
}
console.log(JSON.stringify(seen));
process.exit(0);
