// Two agents of the official A2A SDK for TypeScript that hand each message to the other by HTTP, and declare weir's
// extension in their cards: ring.mjs FOLDER GUARD URL|- MAX_HOPS, where FOLDER has the packages and GUARD the source
// of the TypeScript guard. It prints what ring.py prints.
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, source, url, most] = process.argv.slice(2);
const find = createRequire(folder + "/package.json");
const load = (name) => import(pathToFileURL(find.resolve(name)));
const { default: ts } = await load("typescript");
const built = mkdtempSync(join(tmpdir(), "guard-"));
writeFileSync(join(built, "package.json"), '{"type": "module"}');
for (const file of readdirSync(source).filter((f) => f.endsWith(".ts"))) {
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  writeFileSync(join(built, file.replace(/ts$/, "js")), ts.transpileModule(readFileSync(join(source, file), "utf8"), { compilerOptions: options }).outputText);
}
const a2a = await import(pathToFileURL(join(built, "a2a.js")));
const { Guard, working } = await import(pathToFileURL(join(built, "weir-guard.js")));
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, JsonRpcTransportHandler, ServerCallContext } = await load("@a2a-js/sdk/server");
const { ClientFactory } = await load("@a2a-js/sdk/client");
const { AgentCard } = await load("@a2a-js/sdk");

const guard = url === "-" ? undefined : new Guard(url);
const worked = { left: 0, right: 0 }, end = [], hops = [], cards = {}, servers = [], seen = new Set();
const text = (value) => ({ content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" });

async function send(to, message) {
  const client = await new ClientFactory().createFromAgentCard(cards[to]);
  await client.sendMessage({ tenant: "", message, configuration: undefined, metadata: undefined }, { serviceParameters: { [a2a.header]: a2a.uri } });
}

function agent(name, other) {
  return {
    async execute(context, bus) {
      const hop = a2a.read(context.userMessage.metadata) ?? { flow: context.contextId, hops: 0 };
      hops.push(hop.hops);
      const why = a2a.refused(hop);
      if (!why) {
        worked[name]++;
        const message = { messageId: `m${hop.hops}`, contextId: "", taskId: "", role: 1, parts: [text(`step ${hop.hops} of the work`)], metadata: undefined, extensions: [], referenceTaskIds: [] };
        try {
          const card = a2a.maxHops(cards[other]);
          a2a.next(hop, [], card); // what may not be sent is not asked about
          const d = await guard?.ask({ flow: hop.flow, from: name, to: other, tell: true });
          a2a.put(message, a2a.next(hop, d?.remaining, card));
          await working({ flow: hop.flow, party: name }, () => send(other, message));
        } catch (err) {
          if (!(err instanceof a2a.Spent)) throw err;
          end.push(err.member);
        }
      }
      bus.publish(AgentEvent.message({ messageId: `a${hop.hops}`, contextId: context.contextId, taskId: "", role: 2, parts: [text(why || "done")], metadata: undefined, extensions: [], referenceTaskIds: [] }));
      bus.finished();
    },
    async cancelTask() {},
  };
}

for (const [name, other] of [["left", "right"], ["right", "left"]]) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    seen.add(request.headers[a2a.header.toLowerCase()] ?? "");
    const context = new ServerCallContext({ requestedVersion: request.headers["a2a-version"] ?? "1.0" });
    const answer = await new JsonRpcTransportHandler(server.handler).handle(body, context);
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  cards[name] = AgentCard.fromJSON({ name, description: name, version: "1", defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    capabilities: { extensions: [{ uri: a2a.uri, description: "Hop count, tree and remaining budget", required: false, params: { max_hops: Number(most) } }] },
    skills: [{ id: "s", name: "s", description: "hands work on", tags: ["test"] }],
    supportedInterfaces: [{ url: `http://127.0.0.1:${server.address().port}/`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }] });
  server.handler = new DefaultRequestHandler(cards[name], new InMemoryTaskStore(), agent(name, other));
  servers.push(server);
}

const first = { messageId: "m", contextId: "ring", taskId: "", role: 1, parts: [text("go")], metadata: undefined, extensions: [], referenceTaskIds: [] };
a2a.put(first, { flow: "ring", hops: 0 });
await send("left", first);
const { version } = JSON.parse(readFileSync(folder + "/node_modules/@a2a-js/sdk/package.json", "utf8"));
console.log(JSON.stringify({ version, ...worked, end, hops, header: [...seen] }));
for (const server of servers) server.close().closeAllConnections();
process.exit(0);
