/**
 * The guard before the tools of the AI SDK (package ai, which this file does not need).
 *
 *     const tools = guarded(guard, { flow, from: "planner" }, { search, write });
 *     await generateText({ model, tools, prompt });
 */
import { type Call, type Decision, FlowStopped, type Guard } from "./weir-guard.js";

/** A tool, as far as it is called. */
interface Tool {
  // Tools of any input: the model's arguments are checked by the tool's own schema.
  execute?: (input: any, options: any) => unknown;
}

/** What the model reads in the place of a result. */
export interface Refused {
  refused: string;
  advice: Decision["advice"];
  message: string;
}

function refused(d: Decision): Refused {
  return { refused: d.reason, advice: d.advice, message: d.agentMessage };
}

/** The same tools, each of which is checked before it is executed. call says whose they are: a
 * call, or what returns one when the tool is called. Weir counts each call and hears of its result;
 * a refused call is not executed, and its result is a Refused. With ask: false calls are decided
 * from memory, see Guard.begin. With report: false they are decided from memory and not reported,
 * for programs whose telemetry reports them. */
export function guarded<T extends Record<string, object>>(guard: Guard, call: Call | (() => Call), tools: T, o: { ask?: boolean; report?: boolean } = {}): T {
  const wrap = (name: string, tool: Tool): Tool => {
    const { execute } = tool;
    if (!execute) return tool; // who executes it decides
    return {
      ...tool,
      execute: async (input: unknown, options: unknown): Promise<unknown> => {
        const callId = (options as { toolCallId?: string } | undefined)?.toolCallId;
        const about = { from: "agent", callId, ...(typeof call === "function" ? call() : call), tool: name };
        if (o.report === false) {
          const d = guard.check(about);
          return d.stopped ? refused(d) : execute.call(tool, input, options);
        }
        try {
          return await guard.run({ ...about, args: input, ask: o.ask }, async (signal) => execute.call(tool, input, withSignal(options, signal)));
        } catch (err) {
          if (err instanceof FlowStopped) return refused(err.decision);
          throw err;
        }
      },
    };
  };
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, wrap(name, tool)])) as T;
}

/** The options of a call with a signal that aborts as well when an order by hand binds the call. */
function withSignal(options: unknown, signal: AbortSignal): object {
  const own = (options as { abortSignal?: AbortSignal } | undefined)?.abortSignal;
  return { ...(options as object), abortSignal: own ? either(own, signal) : signal };
}

function either(a: AbortSignal, b: AbortSignal): AbortSignal {
  const both = new AbortController(); // AbortSignal.any needs Node 20
  for (const signal of [a, b]) {
    if (signal.aborted) both.abort(signal.reason);
    signal.addEventListener("abort", () => both.abort(signal.reason), { once: true });
  }
  return both.signal;
}
