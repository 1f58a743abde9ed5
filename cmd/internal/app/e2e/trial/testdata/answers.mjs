// Checks calls with the TypeScript guard, many in flight, for trial answers, which reads what it prints.
// answers_lane.go says what each answer has to be.
import { createWriteStream } from "node:fs";
import { once } from "node:events";
import { pathToFileURL } from "node:url";

const [module, given] = process.argv.slice(2);
const o = JSON.parse(given);
const { Guard } = await import(pathToFileURL(module));
const guard = await Guard.connect(o.url, { quiet: true, askTimeout: 1000 * o.timeout, log: (level, text) => level === "warn" && console.error(text) });
const said = { asked: 0, answered: 0, refused: 0, wrong: 0, doubled: 0, peak: 0, first: [], silent: [], took: {}, orders: {} };
const flows = createWriteStream(o.flows, { flags: "a" });
const below = (n) => Math.floor(Math.random() * n);
let under = 0;

function wrong(text) {
  said.wrong++;
  if (said.first.length < 12) said.first.push(text);
}

class Lane {
  made = 0;
  calls = 0;
  serial = 0;
  constructor(n) {
    this.name = `ty-b-${n}`;
  }

  call() {
    if (this.made === this.calls) this.next();
    const parties = [`a-${this.flow}`, `b-${this.flow}`];
    if (this.kind === "loop" && this.made % 2) parties.reverse();
    this.made++;
    return { flow: this.flow, from: parties[0], to: parties[1], hadWork: this.kind !== "loop", tell: true };
  }

  next() {
    this.end();
    this.serial++;
    Object.assign(this, { allowed: 0, refused: 0, missing: 0, row: 0, left: o.most, over: false, kind: "work", flow: `${this.name}-${this.serial}`, most: o.most });
    const r = below(32);
    if (r < 4) Object.assign(this, { kind: "stopped", flow: `stopped-${below(o.stopped)}`, calls: 1 + below(6) });
    else if (r < 6) Object.assign(this, { kind: "loop", most: o.loops, calls: o.loops + 3 });
    else this.calls = r < 7 ? o.most + 3 : 1 + below(o.most);
  }

  end() {
    if (this.made) flows.write(`${this.flow} ${this.allowed} ${this.refused} ${this.missing}\n`);
    this.made = this.calls = 0;
  }

  take(d, begun) {
    const ofWeir = d.source === "weir";
    const now = Date.now() / 1000;
    under--;
    if (ofWeir) {
      said.answered++;
      const bucket = Math.floor(40 * Math.log10(Math.max(1, (now - begun) * 1e6)));
      said.took[bucket] = (said.took[bucket] ?? 0) + 1;
    } else said.silent.push([begun, now]);
    if (this.kind === "stopped" && !d.stopped) wrong(`${this.flow} is stopped, and allowed by ${d.source}`);
    else if (this.kind !== "stopped" && d.stopped && this.allowed + this.missing < this.most)
      wrong(`${this.flow}: refused after ${this.allowed + this.missing} of ${this.most} calls by ${d.source}`);
    else if (ofWeir && d.stopped) {
      const order = /^([0-9a-f]{16})-/.exec(d.verdictId ?? "")?.[1];
      if (!order || (said.orders[order] ??= this.flow) !== this.flow) wrong(`${this.flow}: refused by order ${order} of ${said.orders[order]}`);
    } else if (ofWeir) this.remaining(d);
    if (!ofWeir) {
      this.missing++;
      if (this.kind === "loop") this.row = 0;
    } else if (d.stopped) {
      this.refused++;
      this.over = true;
      said.refused++;
    } else {
      this.allowed++;
      this.row++;
    }
  }

  remaining(d) {
    const left = d.remaining.find((r) => r.rule === "max_total_calls")?.left ?? -1;
    if (this.over || this.row >= this.most) wrong(`${this.flow}: allowed after ${this.row} of ${this.most} calls, or after it was refused`);
    if (!(o.most - 1 - this.allowed - this.missing <= left && left <= this.left - 1))
      wrong(`${this.flow}: ${left} calls are left after ${this.left}, ${this.allowed} allowed and ${this.missing} without an answer`);
    this.left = left;
  }
}

const began = Date.now() / 1000;
async function work(n) {
  const lane = new Lane(n);
  for (;;) {
    const now = Date.now() / 1000;
    const at = began + (Math.floor((now - began) / o.every) + 1) * o.every;
    if (at > o.until) break;
    await new Promise((resolve) => setTimeout(resolve, 1000 * (at - now)));
    const call = lane.call();
    said.asked++;
    said.peak = Math.max(said.peak, ++under);
    const begun = Date.now() / 1000;
    lane.take(await guard.ask(call), begun);
  }
  lane.end();
}

await Promise.all(Array.from({ length: o.lanes }, (_, n) => work(n)));
await guard.close();
flows.end();
await once(flows, "close");
console.log(JSON.stringify(said));
