// Reads the answers to heartbeats of standard input as beats.ts, compiled, does, and prints the milliseconds of each.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { nextBeat } = await import(pathToFileURL(process.argv[2] + "/beats.js"));
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((answer) => nextBeat(answer) ?? 0)));
