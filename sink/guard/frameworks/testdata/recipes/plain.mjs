// A loop without a framework, see common.mjs.
import { CALLS, args, run, search } from "./common.mjs";

await run({ search, queries: Array.from({ length: CALLS }, (_, n) => args(n + 1).query) });
