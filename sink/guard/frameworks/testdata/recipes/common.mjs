// What the recipes in TypeScript are run with, as common.py is for Python: a tool, and a script in the place of a model.
// The first argument is the folder of the packages. The code of standard input is that of the page.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

export const CALLS = 40;
export const folder = process.argv[2];
const equal = process.env.RECIPE_MODE !== "honest";
const kill = Number(process.env.RECIPE_KILL ?? 0);
let ran = 0;

/** What the model asks for at the n-th time. */
export const args = (n) => ({ query: equal ? "x" : `page ${n} of the list` });

export const search = async ({ query }) => {
  if (++ran === 3 && kill) process.kill(kill, "SIGKILL");
  return equal ? "found nothing" : `row ${ran * 7919} of ${query}: value ${ran ** 3}`;
};

/** Runs the code with the names, and prints how often the tool ran. */
export async function run(names) {
  const cid = "recipe-" + crypto.randomUUID();
  globalThis.recipe = { cid, task: "find it", ...names };
  // A file in the folder of the packages, so that their names are found as in a program.
  const file = `${folder}/recipe-${process.pid}.mjs`;
  writeFileSync(file, `const { ${Object.keys(globalThis.recipe).join(", ")} } = globalThis.recipe;\n` + readFileSync(0, "utf8"));
  let error = "";
  try {
    await import(pathToFileURL(file));
  } catch (err) {
    error = String(err);
  } finally {
    rmSync(file);
  }
  console.log(JSON.stringify({ ran, flow: cid, error }));
  process.exit(0);
}
