/**
 * Ends work that a call has begun elsewhere: a task of an A2A agent, a task or a request of an MCP
 * server. Each function returns what Begun.onStop takes:
 *
 *     begun.onStop(a2aTask("https://coder.example/a2a", task.id));
 */

/** How the other side is reached. */
export interface Reach {
  headers?: Record<string, string>;
  fetch?: typeof fetch;
}

/** The other side has refused to cancel. */
export class CancelError extends Error {
  override name = "CancelError";
  constructor(readonly code: number, message: string) {
    super(`${message} (${code})`);
  }
}

const timeout = 5000; // milliseconds
const noMethod = -32601;
const notCancelable = -32002;
const noVersion = -32009;

/** Cancels a task of an agent by CancelTask, or where the agent is of version 0.3 by tasks/cancel. A
 * task that has ended already is no error. */
export function a2aTask(url: string, id: string, o: Reach = {}): () => Promise<void> {
  return async () => {
    try {
      await post(url, "CancelTask", { id }, { ...o, headers: { "A2A-Version": "1.0", ...o.headers } });
    } catch (first) {
      let err = first;
      if (err instanceof CancelError && (err.code === noMethod || err.code === noVersion)) {
        try {
          return await post(url, "tasks/cancel", { id }, o);
        } catch (second) {
          err = second;
        }
      }
      if (!(err instanceof CancelError) || err.code !== notCancelable) throw err;
    }
  };
}

/** Cancels a task of a server by tasks/cancel. headers has the Mcp-Session-Id of the session in which
 * the task was begun. */
export function mcpTask(url: string, taskId: string, o: Reach = {}): () => Promise<void> {
  return () => post(url, "tasks/cancel", { taskId }, o);
}

/** Cancels a request of a session by notifications/cancelled. SDKs send that themselves when the signal
 * of a call aborts: this is for programs without one. */
export function mcpRequest(url: string, requestId: number | string, o: Reach = {}): () => Promise<void> {
  return async () => {
    await send(url, { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason: "stopped by a person" } }, o);
  };
}

async function post(url: string, method: string, params: object, o: Reach): Promise<void> {
  const text = await send(url, { jsonrpc: "2.0", id: "weir-cancel", method, params }, o);
  let answer: { error?: { code?: number; message?: string } };
  try {
    answer = JSON.parse(text) as typeof answer;
  } catch {
    throw new CancelError(0, `the answer to ${method} cannot be read`);
  }
  if (answer.error) throw new CancelError(answer.error.code ?? 0, answer.error.message ?? "");
}

async function send(url: string, message: { method: string; [more: string]: unknown }, o: Reach): Promise<string> {
  const headers = { ...o.headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const answer = await (o.fetch ?? fetch)(url, { method: "POST", headers, body: JSON.stringify(message), signal: AbortSignal.timeout(timeout) });
  let text = await answer.text();
  if (answer.headers.get("content-type")?.includes("text/event-stream")) {
    text = text.split("\n").filter((line) => /^data: *\S/.test(line)).at(-1)?.slice(5).trim() ?? "";
  }
  // A refusal may have a JSON-RPC error as its body.
  if (!answer.ok && !text.includes('"error"')) throw new CancelError(answer.status, `${message.method} is answered by ${answer.status}`);
  return text;
}
