// Plays the dispatcher of TestDispatch with the guard of TypeScript, compiled.
import { pathToFileURL } from "node:url";

const { Guard, FlowStopped, currentWork, headersOf, workFrom, working } = await import(pathToFileURL(process.argv[2]));
const guard = await Guard.connect(process.argv[3], { quiet: true });
const ok = (d) => {
  if (d.stopped) throw new FlowStopped(d);
};

async function worker() {
  await new Promise((resolve) => setTimeout(resolve, 1)); // the context goes along
  ok(await guard.ask({ tool: "search" }));
  await guard.dispatch({ to: "s1", toAgent: "coordinator" }, ok);
  await guard.dispatch({ to: "s2", origin: "user" }, ok);
  await guard.dispatch({ to: "s3", from: "cron", origin: "scheduler" }, ok);
  ok(await guard.ask({ flow: "mine", from: "x", to: "y" }));
  ok(await guard.ask({ flow: "mine", to: "y" }));
  const headers = new Headers(headersOf(currentWork()));
  await working(undefined, () => working(workFrom(headers), () => guard.dispatch({ to: "s4" }, ok)));
  await guard.dispatch({ to: "forbidden" }, async (d) => {
    if (!d.stopped) throw new Error("the forbidden call was allowed");
    ok(await guard.ask({ tool: "write" }));
  });
}

await guard.dispatch({ to: "s1", toAgent: "coordinator" }, async (d) => {
  ok(d);
  await guard.dispatch({ to: "s2", toAgent: "worker" }, async (d) => {
    ok(d);
    await worker();
  });
});
if (currentWork()) throw new Error("the work did not end");
ok(await guard.ask({ from: "s9", to: "s1" }));
await guard.close();
