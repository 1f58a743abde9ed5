// Checks calls with the TypeScript guard, many in flight, for TestGuardsUnderLoad, which reads what it prints.
import { pathToFileURL } from "node:url";

const [module, url, flight, seconds] = process.argv.slice(2);
const { Guard } = await import(pathToFileURL(module));
const guard = await Guard.connect(url, { quiet: true, askTimeout: 30_000 });
const until = Date.now() + 1000 * Number(seconds);
const said = { answers: 0, memory: [], wrong: [] };
const below = (n) => Math.floor(Math.random() * n);

async function work(n) {
  for (let flows = 0; Date.now() < until; flows++) {
    const stopped = below(8) === 0;
    const flow = stopped ? `stopped-${below(20)}` : `ts-${n}-${flows}`;
    let last, missing = 0;
    for (let calls = 3 + below(6); calls > 0; calls--) {
      const begun = Date.now() / 1000;
      const d = await guard.ask({ flow, from: `a-${flow}`, to: `b-${flow}`, hadWork: true, tell: true });
      const ofWeir = d.source === "weir";
      if (d.stopped !== stopped && (ofWeir || stopped)) said.wrong.push(`${flow}: ${d.action} by ${d.source}`);
      if (!ofWeir) {
        said.memory.push([begun, Date.now() / 1000]);
        missing++;
        await new Promise((resolve) => setTimeout(resolve, 100));
        continue;
      }
      said.answers++;
      if (stopped) continue;
      const left = d.remaining.find((r) => r.rule === "max_total_calls")?.left;
      if (left === undefined || (last !== undefined && !(last - 1 - missing <= left && left <= last - 1)))
        said.wrong.push(`${flow}: ${left} left after ${last} and ${missing} from memory`);
      last = left;
      missing = 0;
    }
  }
}

await Promise.all(Array.from({ length: Number(flight) }, (_, n) => work(n)));
await guard.close();
console.log(JSON.stringify(said));
