// Says why a flow is stopped or warned, and how to let it go on.
import { el, badge, name, number, many, plain, ago, clock, moment, button, copy } from "./dom.js";

// shell quotes a word for a POSIX shell; what cannot be seen is written by its bytes.
export function shell(word) {
  if (/^[\w./:@%+=-]+$/.test(word) && !word.startsWith("-")) return word;
  if (/^[\x20-\x7e]*$/.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  const bytes = [...new TextEncoder().encode(word)].map((b) => (b > 0x20 && b < 0x7f && b !== 0x27 && b !== 0x5c ? String.fromCharCode(b) : `\\x${b.toString(16).padStart(2, "0")}`));
  return `$'${bytes.join("")}'`;
}

// command names the server, unless it is where weir looks anyway.
export const command = (words, flow) => `weir ${words} ${location.origin === "http://127.0.0.1:8080" ? "" : `--server ${location.origin} `}${flow.startsWith("-") ? "-- " : ""}${shell(flow)}`;

export const explainCommand = (flow) => command("explain", flow);
const releaseCommand = (flow) => command("flows release --reason 'why' --for 10m --token-file admin.token", flow);

// refuses says in words which calls an order refuses.
function refuses(m) {
  if (!m) return "every call of the flow";
  const list = (ids) => ids.map((id, i) => [i ? ", " : "", name(id, 30)]);
  const parts = [{ "agent.call": "calls to agents", "tool.call": "tool calls" }[m.kind] ?? "every call"];
  const add = (word, ids) => ids?.length && parts.push(` ${word} `, list(ids));
  add("by", m.from);
  add("to", m.to);
  add("by callers other than", m.not_from);
  add("to callees other than", m.not_to);
  if (m.background) parts.push(" in the background");
  add("of the tool", m.tool);
  if (m.edges?.length) parts.push(" along ", m.edges.map((e, i) => [i ? ", " : "", name(e.from, 24), " → ", name(e.to, 24)]));
  if (m.args_hash?.length) parts.push(" with the same arguments");
  if (m.content_hash?.length) parts.push(" with the same message");
  if (m.turn_id) parts.push(" in turn ", name(m.turn_id, 24));
  if (m.not_turn_id) parts.push(" in other turns than ", name(m.not_turn_id, 24));
  if (m.task_id) parts.push(" for task ", name(m.task_id, 24));
  if (m.root_correlation_id) parts.push(" in the tree of ", name(m.root_correlation_id, 24));
  if (m.project_id) parts.push(" in project ", name(m.project_id, 24));
  return parts;
}

const title = { deny: "Calls are refused", hold: "The flow waits for an operator", halt: "The flow is stopped", throttle: "Calls are delayed", warn: "Warned", allow: "Cleared",
  resume: "Resume it", review: "Review it", archive: "Archive it", notify: "Check on it" };

const stops = ["deny", "hold", "halt", "throttle"];

const weights = { hold: 4, halt: 3, deny: 2, throttle: 1 };
const widths = { tree: 4, flow: 3, session: 2, task: 2, pair: 1 };
const weight = (o) => (o.mode === "shadow" || !stops.includes(o.action) ? 0 : o.effective === "next" ? 10 : 100) + 5 * (weights[o.action] ?? 0) + (widths[o.scope?.kind] ?? 0);

// incidents groups verdicts by incident; those of an older weir stand alone.
export const incidents = (list, verdict = (x) => x) => [...Map.groupBy(list, (x) => verdict(x).incident_id ?? verdict(x).id).values()];

// whyIncident shows the strictest order of an incident, and folds the others.
export function whyIncident(orders, options) {
  const [first, ...more] = orders.toSorted((a, b) => weight(b) - weight(a));
  const node = why(first, options(first));
  if (more.length) {
    node.append(el("details", {}, el("summary", {}, `${more.length} more ${more.length === 1 ? "order" : "orders"} of this incident`),
      more.map((o) => why(o, options(o)))));
  }
  return [weight(first), node];
}

// why is one order. stepLink makes a link from the ordinal of an event.
export function why(order, { stepLink, about }) {
  const e = order.evidence ?? {};
  const rows = [];
  const row = (term, ...content) => content.flat().some(Boolean) && rows.push(el("dt", {}, term), el("dd", {}, content));
  row("Rule", el("a", { href: `/ui/limits?q=${encodeURIComponent(order.rule_id ?? "")}` }, order.rule_id ?? order.reason_code), order.rule_id && order.rule_id !== order.reason_code && el("span", { class: "faint" }, ` ${plain(order.reason_code)}`), order.mode === "shadow" && " (shadow mode: refuses no call)");
  row("What it limits", about);
  if (order.scope?.kind === "tree") row("Tree of", name(order.scope.id, 40), ": the order holds for all of its flows, and so does a grant");
  if (order.observed !== undefined) {
    row("Observed", el("strong", {}, number(order.observed)), order.limit !== undefined && [" against a limit of ", el("strong", {}, number(order.limit))], order.unit && order.unit !== "none" && ` ${order.unit}`, order.window_s && ` within ${number(order.window_s)} s`);
  }
  if (e.ordinals?.length) row("What counts", e.ordinals.map((n, i) => [i ? " " : "", stepLink(n)]));
  if (e.stack?.length) row("Call stack", e.stack.map((s, i) => [i ? " › " : "", name(s, 24)]));
  row("Time", clock(order.time), " (", ago(order.time), ")", e.calls && `, after ${many(e.calls, "call")}`, e.tokens && ` and ${many(e.tokens, "token")}`);
  if (stops.includes(order.action)) row("Refuses", order.effective === "next" && "From the next call: ", refuses(order.match));
  const r = order.recovery;
  if (r) {
    row("Safe to resume", r.safe_to_resume ? "yes" : "no", r.coherence !== undefined && ` · coherence ${number(r.coherence)}`, r.risk !== undefined && ` · risk ${number(r.risk)}`, r.void_active && " · void active");
    row("Reviewer", r.reviewer && name(r.reviewer, 40));
    row("Requested by", r.requested_by && name(r.requested_by, 40));
    row("Conditions", r.conditions?.map(plain).join(", "));
  }
  if (stops.includes(order.action)) row("Attempts after the stop", e.attempts ? many(e.attempts, "call") : "none", e.leaked && `; ${many(e.leaked, "call")} in flight at the stop`);
  row("Message to the agent", plain(order.agent_message ?? ""));
  row("Expires", order.expires_at && [moment(order.expires_at), " (", ago(order.expires_at), ")"], order.retry_after_s && `, retry after ${order.retry_after_s} s`);
  row("Incident", plain(order.incident_id ?? ""), order.cause && order.cause !== order.reason_code && ` (${plain(order.cause)})`);
  row("Limits", order.config_version && el("a", { href: "/ui/limits" }, order.config_version));
  const release = releaseCommand(order.correlation_id ?? "");
  return el("article", { class: `why ${order.action}` },
    el("h3", {}, badge(order.action), " ", order.effective === "next" ? "The limit is used up" : title[order.action] ?? order.action, ": ", plain(bare(order.message) ?? order.reason_code)),
    el("dl", {}, rows),
    order.correlation_id && order.action !== "warn" && el("details", {}, el("summary", {}, "How to let it continue"),
      el("p", {}, "For ten minutes, with the admin token. The log keeps your name and the reason. ", button("Copy the command", (ev) => copy(release, ev.target))), el("pre", { tabindex: 0, "aria-label": "Command that releases the flow" }, release),
      el("p", {}, "Permanently: raise ", el("code", {}, `rules.${order.rule_id}`), " in the limits file, and try the change on ", el("a", { href: "/ui/backtest" }, "a log"), " first.")));
}

// bare is the message without its head, which the heading already says.
const bare = (message) => message?.replace(/^(Renewed: )?(?:Warning|(?:Agent|Tool) call (?:rejected|delayed)|Limit used up, the next call will be rejected): /, "$1");
