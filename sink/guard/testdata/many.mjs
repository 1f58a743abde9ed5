// Asks for a thousand calls at one time, each from a timer of its own, for TestManyAsksTakeFewRequests.
import { pathToFileURL } from "node:url";

const { Guard } = await import(pathToFileURL(process.argv[2]));
const guard = new Guard(process.argv[3], { quiet: true, askTimeout: 60_000 });
const asking = [];
await new Promise((all) => {
  for (let n = 0; n < 1000; n++)
    setTimeout(() => {
      asking.push(guard.ask({ flow: `f-${n}`, from: "a", to: "b" }));
      if (asking.length === 1000) all();
    }, 0);
});
await fetch(process.argv[3] + "/all");
for (const d of await Promise.all(asking)) if (d.source !== "weir") throw new Error(JSON.stringify(d));
await guard.close();
