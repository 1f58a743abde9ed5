// Reads the cases of standard input as a2a.ts, compiled, does, and prints what it makes of them.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { read, refused, next, put, value, Spent } = await import(pathToFileURL(process.argv[2] + "/a2a.js"));
const now = new Date("2026-11-20T14:00:00Z");
const answers = JSON.parse(readFileSync(0, "utf8")).map((c) => {
  const hop = read(c.metadata);
  if (!hop) return { want: null };
  const answer = { want: value(hop), refused: refused(hop, now) };
  try {
    const message = {};
    put(message, next(hop, (c.remaining ?? []).map((r) => ({ ...r, until: r.until && new Date(r.until) })), c.card, now));
    answer.next = message.metadata[message.extensions[0]];
  } catch (err) {
    if (!(err instanceof Spent)) throw err;
    answer.next_refused = err.member;
  }
  return answer;
});
console.log(JSON.stringify(answers));
