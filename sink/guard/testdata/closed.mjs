// Asks ten times, one after the other and then at one time, for TestAsksAgainOnAClosedConnection.
import { pathToFileURL } from "node:url";

const { Guard } = await import(pathToFileURL(process.argv[2]));
const guard = new Guard(process.argv[3], { quiet: true });
const ask = async (n) => {
  const d = await guard.ask({ flow: "f", from: "a", to: n % 2 ? "forbidden" : "b" });
  if (d.source !== "weir" || d.stopped !== Boolean(n % 2)) throw new Error(`ask ${n}: ${JSON.stringify(d)}`);
};
for (let n = 0; n < 10; n++) await ask(n);
for (let n = 0; n < 10; n++) {
  await new Promise((resolve) => setTimeout(resolve, 0)); // a request each
  await ask(n);
}
await guard.close();
