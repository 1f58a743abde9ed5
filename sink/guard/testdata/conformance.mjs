// Runs weir-guard.ts, compiled, for the tests: decides the cases of standard input, or
// follows a weir.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Guard } = await import(pathToFileURL(process.argv[2]));
const names = { call_id: "callId", args_sim: "argsSim", from_agent: "fromAgent", to_agent: "toAgent", args_hash: "argsHash", content_hash: "contentHash", turn_id: "turn", task_id: "task", conversation_id: "conversation", project_id: "project", tenant_id: "tenant", team_id: "team", root_correlation_id: "root", had_work: "hadWork" };
const words = (call) => Object.fromEntries(Object.entries(call).map(([name, value]) => [names[name] ?? name, value]));

function told(d) {
  const said = { action: d.action, source: d.source, stale: d.stale, reason: d.reason, limit: d.limit, observed: d.observed, retry_after_s: d.retryAfter, held_until: d.heldUntil && d.heldUntil.getTime() / 1000, advice: d.advice, message: d.message, agent_message: d.agentMessage, verdict_id: d.verdictId, note: d.note, left: d.remaining.length && d.remaining.map((r) => [r.rule, r.left, r.limit, r.unit, r.until ? r.until.getTime() / 1000 : 0, r.forecast ? [r.forecast.runs, r.forecast.low ?? 0, r.forecast.expected ?? 0, r.forecast.high ?? 0] : 0]) };
  return Object.fromEntries(Object.entries(said).filter(([name, value]) => value || ((name === "limit" || name === "observed") && value !== undefined)));
}

async function decide(c) {
  const b = c.bounds && { calls: c.bounds.calls ?? 0, toolCalls: c.bounds.tool_calls ?? 0, rate: c.bounds.rate ?? 0, window: c.bounds.window_s ?? 0 };
  const g = new Guard("http://weir.test", { name: "guard/test", quiet: true, failClosed: c.fail_closed ?? false, bounds: b, keys: c.keys, mostOrders: c.most_orders, log: () => {} });
  let now = Date.parse(c.now);
  g.now = () => now;
  g.state = c.state ?? "fresh";
  for (const v of c.orders ?? []) g.take(v);
  for (const h of c.heard ?? []) await g.receive(h.order, h.signature);
  for (const step of c.before ?? []) {
    for (let i = 0; i < step.times; i++) g.check(words(step.call));
    now += (step.then_s ?? 0) * 1000;
  }
  const said = told(g.check(words(c.call)));
  for (const name of ["unsigned", "forged", "replayed", "unreadable"]) if (g.counts[name]) said[name] = g.counts[name];
  if (g.counts.leftOut) said.left_out = g.counts.leftOut;
  return said;
}

function keys(path) {
  return path && Object.fromEntries(readFileSync(path, "utf8").split("\n").filter(Boolean).map((line) => line.split(" ")));
}

if (process.argv.length > 3) {
  const o = JSON.parse(process.argv[4] ?? "{}");
  const fail = () => {
    throw new Error("an observer that fails");
  };
  const words_of_guard = { name: "typescript", staleAfter: 1000 * (o.stale_s ?? 1), askTimeout: 1000 * (o.ask_s ?? 1), connectTimeout: o.once ? undefined : 1, keys: keys(o.keys), failClosed: o.closed, onDecision: o.faulty && fail, log: (_, line) => void logged.push(line) };
  const logged = [];
  let g = await Guard.connect(process.argv[3], { ...words_of_guard, mostOrders: o.most_orders });
  if (o.once) {
    // A program that decides one call and ends.
    const d = g.check({ flow: "f", from: "a", to: "b" });
    console.log(d.action, d.source);
  }
  for await (const line of o.once ? [] : createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer = {};
    if (command.do === "open") {
      await g.close();
      g = await Guard.connect(command.url, { ...words_of_guard, mostOrders: command.most_orders });
    }
    if (command.do === "check") answer = told(g.check(words(command.call)));
    if (command.do === "ask") answer = told(await g.ask(words(command.call)));
    if (command.do === "begin") {
      const begun = await g.begin({ ...words(command.call), args: command.arguments, message: command.message, ask: command.ask });
      begun.finish(command.result, { error: command.error, inputTokens: command.tokens });
      begun.finish("once more");
      answer = told(begun.decision);
    }
    if (command.do === "spent") g.spent({ flow: "f", from: "a", model: "m", inputTokens: 7, outputTokens: 3, costUsd: 0.5, cacheReadInputTokens: 6, cacheCreationInputTokens: 5, cacheCreation1hInputTokens: 4, reasoningOutputTokens: 2, cacheInInput: false });
    if (command.do === "release") await g.release(command.flow, "ann", "a false alarm", 60);
    if (command.do === "close") {
      await g.close();
      answer = { logged };
    }
    if (command.do === "state") answer = { stale: g.stale, orders: g.counts.orders, bounds: g.bounds.calls, unsigned: g.counts.unsigned, forged: g.counts.forged, replayed: g.counts.replayed, unreadable: g.counts.unreadable, peak_mib: process.resourceUsage().maxRSS / 1024 };
    console.log(JSON.stringify(answer));
  }
  if (!o.once) await g.close();
} else {
  console.log(JSON.stringify(await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(decide))));
}
