// Checks calls with the TypeScript guard for trial switch, and writes when each check began and was
// answered, and whether the call was admitted.
import { appendFileSync, existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, given] = process.argv.slice(2);
const o = JSON.parse(given);
const { Guard } = await import(pathToFileURL(module));
const guard = await Guard.connect(o.url, { name: o.name, quiet: true });
const now = () => (performance.timeOrigin + performance.now()) / 1000;
for (let n = 1; !existsSync(o.end); n++) {
  const begun = now();
  const d = await guard.ask({ flow: `${o.name}-${n % o.flows}`, from: o.name, to: "b", hadWork: true });
  appendFileSync(o.file, `${begun.toFixed(6)} ${now().toFixed(6)} ${d.stopped ? 0 : 1}\n`);
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await guard.close();
