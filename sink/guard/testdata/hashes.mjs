// Hashes the texts of standard input as hashes.ts, compiled, does.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { hashArgs, simArgs, hashContent, simhash, canonical } = await import(pathToFileURL(process.argv[2] + "/hashes.js"));
const rows = JSON.parse(readFileSync(0, "utf8")).map((row) =>
  row.of === "args" ? { ...row, hash: hashArgs(row.text), simhash: simArgs(row.text), canonical: canonical(row.text.replace(/^[ \n]+|[ \n]+$/g, "")) } : { ...row, hash: hashContent(row.text), simhash: simhash(row.text) },
);
console.log(JSON.stringify(rows));
