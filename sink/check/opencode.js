// Written by `weir check --hook-config opencode`. It asks weir before each use of a tool,
// and tells it what became of it. To change it, run that again.
import fs from "node:fs"

const weir = {}

// Of sessions that a task has opened, the session that it belongs to.
const openers = new Map()
const openedBy = (session) => "weir.parent_correlation_id=" + encodeURIComponent(session)

async function tell(input) {
  const headers = { "content-type": "application/json" }
  // Who started OpenCode may have said so in its environment.
  const opener = openers.get(input.session_id)
  const { BAGGAGE, CLAUDE_CODE_SESSION_ID, CODEX_THREAD_ID, TRACEPARENT } = process.env
  const baggage = opener ?? CLAUDE_CODE_SESSION_ID ?? CODEX_THREAD_ID
  if (baggage) headers.baggage = openedBy(baggage)
  else if (BAGGAGE) headers.baggage = BAGGAGE
  if (TRACEPARENT) headers.traceparent = TRACEPARENT
  if (process.env.WEIR_TOKEN_FILE) headers.authorization = "Bearer " + fs.readFileSync(process.env.WEIR_TOKEN_FILE, "utf8").trim()
  const reply = await fetch(weir.url + (weir.closed ? "?closed=1" : ""), {
    method: "POST", headers, body: JSON.stringify({ program: "opencode", ...input }), signal: AbortSignal.timeout(3000),
  })
  if (!reply.ok) throw new Error("HTTP " + reply.status)
  if (!reply.headers.get("weir-hook")) throw new Error("what answers there is no weir")
  return await reply.json()
}

// What only tells must never stop anything.
async function record(input) {
  try { return await tell(input) } catch {}
}

export const Weir = async () => ({
  event: async ({ event }) => {
    const session = event.type === "session.created" && event.properties.info
    if (session?.parentID) openers.set(session.id, session.parentID)
    if (event.type === "session.deleted") openers.delete(event.properties.info.id)
  },
  // An agent that is started by the shell finds here which session that was.
  "shell.env": async (input, output) => {
    if (input.sessionID) output.env.BAGGAGE = openedBy(input.sessionID) + (process.env.BAGGAGE ? "," + process.env.BAGGAGE : "")
  },
  "chat.message": async (input, output) => {
    const prompt = (output.parts ?? []).map((part) => part.text ?? "").join("\n")
    const answer = await record({ hook_event_name: "UserPromptSubmit", session_id: input.sessionID, prompt })
    if (answer?.decision) throw new Error(answer.reason) // a person has stopped what it would begin
  },
  "tool.execute.before": async (input, output) => {
    let answer
    try {
      answer = await tell({ hook_event_name: "PreToolUse", session_id: input.sessionID, tool_name: input.tool, tool_use_id: input.callID, tool_input: output.args })
    } catch {
      if (!weir.closed) return
      throw new Error("The flow guard does not answer, and calls are refused until it does. Try again later.")
    }
    if (answer.decision) throw new Error(answer.reason) // OpenCode refuses by what is thrown
  },
  "tool.execute.after": async (input, output) => {
    await record({ hook_event_name: "PostToolUse", session_id: input.sessionID, tool_name: input.tool, tool_use_id: input.callID, tool_input: input.args ?? {}, tool_response: output.output })
  },
})
