/**
 * The guard before the tools of the AI SDK (package ai, which this file does not need).
 *
 *     const tools = guarded(guard, { flow, from: "planner" }, { search, write });
 *     await generateText({ model, tools, prompt });
 */
import type { Call, Decision, Guard } from "./weir-guard.js";

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

/** The same tools, each of which is decided about before it is executed. call says whose
 * they are: a call, or what returns one when the tool is called. A refused call is not
 * executed, and its result is a Refused. With ask, weir is asked and counts the call. */
export function guarded<T extends Record<string, object>>(guard: Guard, call: Call | (() => Call), tools: T, o: { ask?: boolean } = {}): T {
  const wrap = (name: string, tool: Tool): Tool => {
    const { execute } = tool;
    if (!execute) return tool; // who executes it decides
    return {
      ...tool,
      execute: async (input: unknown, options: unknown): Promise<unknown> => {
        const about = { ...(typeof call === "function" ? call() : call), tool: name };
        const d = o.ask ? await guard.ask(about) : guard.check(about);
        if (d.stopped) return { refused: d.reason, advice: d.advice, message: d.agentMessage } satisfies Refused;
        return execute.call(tool, input, options);
      },
    };
  };
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, wrap(name, tool)])) as T;
}
