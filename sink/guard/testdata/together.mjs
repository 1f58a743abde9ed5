// Asks once, and then for a hundred calls at one time, for TestAsksTogether.
import { pathToFileURL } from "node:url";

const { Guard } = await import(pathToFileURL(process.argv[2]));
const guard = new Guard(process.argv[3], { quiet: true });
const ask = async (n) => {
  const d = await guard.ask({ flow: "f", from: "a", to: n % 2 ? "forbidden" : "b" });
  if (d.source !== "weir" || d.stopped !== Boolean(n % 2)) throw new Error(`ask ${n}: ${JSON.stringify(d)}`);
};
await ask(0);
await Promise.all(Array.from({ length: 100 }, (_, n) => ask(n)));
await guard.close();
