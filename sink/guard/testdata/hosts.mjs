// Programs for TestHosts, each of which does to a guard what programs do. They say what is wrong.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [path, name, url] = process.argv.slice(2);
const { Guard, currentWork, working } = await import(pathToFileURL(path));
const want = (good, what) => {
  if (!good) console.log(what);
};

const programs = {
  ids() {
    const ids = [1, 2, 3].map(() => {
      const guard = new Guard(url, { name: "planners" });
      guard.now = () => 1;
      return guard.stamped({}).id;
    });
    want(new Set(ids).size === 3, `guards of one name give one id twice: ${ids}`);
  },

  // A timer cannot say that nothing was heard while the program keeps the event loop.
  async blocked() {
    const guard = await Guard.connect(url, { failClosed: true, staleAfter: 1000 });
    want(guard.check({ flow: "h", from: "a", to: "b" }).action === "allow", "nothing is said against the call");
    for (const end = performance.now() + 1100; performance.now() < end; );
    const d = guard.check({ flow: "h", from: "a", to: "b" });
    want(guard.stale && d.source === "stale_closed", `orders of before count as fresh: ${JSON.stringify(d)}`);
    await guard.close();
  },

  async closed() {
    const guard = await Guard.connect(url, { log: () => {} });
    await guard.close();
    await guard.close();
    // The stream ends a moment later.
    while (!guard.stale) await new Promise((next) => setTimeout(next, 10));
    want(guard.check({ flow: "f", from: "a", to: "b" }).action === "deny" && guard.check({ flow: "h", from: "a", to: "b" }).source === "stale_open", "check after close");
    want((await guard.ask({ flow: "h", from: "a", to: "b" })).source === "weir", "ask after close");
  },

  // Programs of CommonJS read the package, too, where Node can.
  required() {
    const [major, minor] = process.versions.node.split(".").map(Number);
    if (major < 20 || (major === 20 && minor < 19) || (major === 22 && minor < 12)) return;
    const required = createRequire(import.meta.url)(path);
    want(required.Guard, "require gives no Guard");
    want(working({ flow: "f" }, () => currentWork()?.flow) === "f", "work is not known in what it does");
  },

  // The member that the guard uses ends after a check of the flow "end".
  async moves() {
    const guard = await Guard.connect(url, { name: "mover", log: () => {} });
    want(guard.check({ flow: "f", from: "a", to: "b" }).stopped, "the order is not known");
    await guard.ask({ flow: "end", from: "a", to: "b" });
    while (!(await guard.ask({ flow: "moved", from: "a", to: "b" })).stopped) await new Promise((next) => setTimeout(next, 10));
    for (let n = 0; n < 20; n++) want((await guard.ask({ flow: "h", from: "a", to: "b" })).source === "weir", "a check is not answered by the other member");
    await guard.ask({ flow: "stop g", from: "a", to: "b" });
    for (let n = 0; n < 1000 && !guard.check({ flow: "g", from: "a", to: "b" }).stopped; n++) await new Promise((next) => setTimeout(next, 10));
    want(guard.check({ flow: "g", from: "a", to: "b" }).stopped, "the order of the other member does not come");
    await guard.close();
  },

  // Asks once, of several addresses that may not answer.
  async tries() {
    const guard = new Guard(url, { log: () => {} });
    const d = await guard.ask({ flow: "h", from: "a", to: "b" });
    want(d.source === process.argv[5], `the check is answered by ${d.source}, want ${process.argv[5]}`);
    await guard.close();
  },

  // What goes wrong with each call is said once.
  async logs() {
    const said = [];
    const onDecision = () => {
      throw new Error("an observer that fails");
    };
    const guard = await Guard.connect("http://127.0.0.1:9", { connectTimeout: 100, onDecision, log: (level, text) => level === "warn" && said.push(text) });
    for (let n = 0; n < 20; n++) {
      await guard.ask({ flow: "h", from: "a", to: "b" });
      await guard.receive("no verdict");
    }
    await guard.close();
    want(said.length === 5, `said ${said.length} times: ${said}`);
  },

  // Weir rejects each report; the first is logged.
  async dropped() {
    const said = [];
    const guard = new Guard(url, { token: "unknown", log: (level, text) => level === "warn" && text.includes("dropped") && said.push(text) });
    for (let n = 1; n <= 3; n++) {
      guard.spent({ flow: "h", from: "a", inputTokens: 7 });
      while (guard.counts.reportsDropped < n) await new Promise((next) => setTimeout(next, 1));
    }
    await guard.close();
    want(said.length === 1, `said ${said.length} times: ${said}`);
  },
};
await programs[name]();
