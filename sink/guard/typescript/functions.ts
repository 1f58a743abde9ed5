/**
 * The guard before plain functions, for frameworks without an adapter here.
 *
 *     const search = guarded(guard, { flow, from: "planner", tool: "search" }, async ({ query }) => find(query));
 *
 * Most frameworks make a tool of a function: give them the guarded one.
 */
import { type Call, FlowStopped, type Guard } from "./weir-guard.js";

/** The same function, checked before each call. Its first argument is hashed as the arguments of the tool; if a
 * framework passes more in it than those of the model, args returns what to hash. Weir counts
 * each call and reads the hash of its result. A refused call does not run: it resolves to a text for the model, or to
 * what refused makes of that text. call names the flow, or returns it when the function is called; the caller is "agent"
 * and the tool is the name of the function unless call has others. */
export function guarded<A extends unknown[], R>(
  guard: Guard,
  call: Call | (() => Call),
  fn: (...args: A) => R | Promise<R>,
  o: { ask?: boolean; args?: (...args: A) => unknown; refused?: (message: string) => R } = {},
): (...args: A) => Promise<R> {
  const { ask, args: hashed = (...args: A) => args[0], refused = (message: string) => message as R } = o;
  return async (...args) => {
    const about = { from: "agent", tool: fn.name || "function", ...(typeof call === "function" ? call() : call), args: hashed(...args), ask };
    try {
      return await guard.run(about, async () => fn(...args));
    } catch (err) {
      if (err instanceof FlowStopped) return refused(err.decision.agentMessage);
      throw err;
    }
  };
}
