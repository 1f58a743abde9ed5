// Calls tools of weir mcp by the official SDKs: tools.mjs MODULES SDK stdio|http PLACE... and lines of JSON on standard input.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, sdk, transport, ...place] = process.argv.slice(2);
const require = createRequire(path.join(modules, "node_modules", "x.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const version = JSON.parse(fs.readFileSync(path.join(modules, "node_modules", sdk, "package.json"), "utf8")).version;

const old = sdk === "@modelcontextprotocol/sdk";
const { Client } = await load(old ? sdk + "/client/index.js" : sdk);
const { StdioClientTransport } = await load(sdk + (old ? "/client/stdio.js" : "/stdio"));
const { StreamableHTTPClientTransport } = await load(old ? sdk + "/client/streamableHttp.js" : sdk);
const client = new Client({ name: "test", version: "1" });
await client.connect(transport === "stdio"
  ? new StdioClientTransport({ command: place[0], args: place.slice(1) })
  : new StreamableHTTPClientTransport(new URL(place[0]), { requestInit: { headers: { authorization: "Bearer " + place[1] } } }));
console.log(sdk, version, transport);
console.log(JSON.stringify((await client.listTools()).tools.map((tool) => tool.name)));
for (const line of fs.readFileSync(0, "utf8").split("\n").filter((line) => line.trim())) {
  console.log(JSON.stringify(await client.callTool(JSON.parse(line))));
}
await client.close();
