// One agent: its state over all its flows, and the reason for it.
import { el, name, badge, spoken, number, many, usage, plain, ago, clock, button, copy, short, table, right, passed, wide } from "./dom.js";
import { get, lines, query, every } from "./api.js";
import { noteList } from "./agents.js";
import { why, command } from "./why.js";

export default async function ({ main, signal, parameters, go }) {
  const agent = parameters.get("id") ?? "";
  const kind = parameters.get("kind") === "project" ? "project" : "";
  const facts = el("p", {}), told = el("dl", { class: "facts" }), orders = el("section", { "aria-labelledby": "why" }), said = el("div", {}), counters = el("div", {}), notes = el("div", {});
  const ask = command("agents rescue --reason 'why'", agent);
  main.append(el("h1", {}, kind ? "Project " : "Agent ", name(agent, 80)), facts,
    el("div", { class: "bar" }, button("Copy link", (e) => copy(location.href, e.target)), !kind && button("Copy weir agents rescue", (e) => copy(ask, e.target))),
    el("div", { class: "two" }, el("div", {}, told, counters), el("div", {}, orders, el("section", { "aria-labelledby": "said" }, el("h2", { id: "said" }, "Verdicts"), said), el("section", { "aria-labelledby": "notes" }, el("h2", { id: "notes" }, "Notes"), notes))));

  let shown = "";
  async function load() {
    const v = await get(`/v1/inspect/agent?${query({ agent, kind })}`, signal);
    const now = JSON.stringify(v);
    if (now === shown) return;
    const verdicts = (await lines(`/v1/verdicts?${query({ since: -5000 })}`, signal)).filter((x) => wide(x) && x.scope.id === agent && x.scope.kind === (kind || "agent")).reverse();
    show(v, verdicts);
    shown = now;
  }
  function show(v, verdicts) {
    facts.replaceChildren(badge(v.state), v.waiting ? ` for ${plain(v.waiting)}` : "", v.reason_code ? ` · ${plain(v.reason_code)}` : "", ...(v.since ? [" · since ", clock(v.since), " (", ago(v.since), ")"] : []), ` · ${many(v.events, "event")}`);
    const rows = [];
    const row = (term, ...content) => content.flat().some(Boolean) && rows.push(el("dt", {}, term), el("dd", {}, content));
    row("Last seen", v.last && clock(v.last));
    row("Silent for", v.silent_s > 0 && passed(v.silent_s));
    row("Next check", v.due && clock(v.due));
    row("Step", v.step && plain(v.step), v.reviewer && [" by ", name(v.reviewer, 30)], v.step_due && [", until ", clock(v.step_due)]);
    row("Requested by", v.requested_by && name(v.requested_by, 40));
    row("Active in", v.flows > 0 && many(v.flows, "flow"), (v.flow_keys ?? []).map((key) => [" ", el("a", { href: `/ui/flows/by-key/${key}` }, key.slice(0, 8))]));
    row("It reports", v.status && `status ${plain(v.status)}`, v.margin && ` · margin ${plain(v.margin)}`, v.health && ` · health ${plain(v.health)}`,
      v.coherence !== undefined && ` · coherence ${number(v.coherence)}`, v.risk !== undefined && ` · risk ${number(v.risk)}`, v.void_active && " · void active");
    row("Reports", v.reports > 0 && many(v.reports, "report"), v.mean_gap_s > 0 && `, one every ${passed(v.mean_gap_s)} on average`);
    told.replaceChildren(...rows);
    // The latest verdict with the reason of its state explains the state.
    const stuck = v.reason_code && verdicts.find((x) => x.reason_code === v.reason_code && x.action !== "allow");
    const standing = [...(stuck ? [stuck] : []), ...(v.orders ?? [])];
    orders.replaceChildren(el("h2", { id: "why" }, standing.length ? "Why" : v.reason_code ? `It is ${plain(v.state).replace("_", " ")}: ${plain(v.reason_code)}` : "No active order"), ...standing.map((o) => why(o, { stepLink: (n) => el("span", {}, `#${n}`) })));
    const list = (v.counters ?? []).filter((c) => c.limit || c.warn || c.observed).sort((a, b) => b.near - a.near);
    counters.replaceChildren(...(list.length ? [el("h2", {}, "Counters against limits"), table("Counters", ["Rule", "Observed", "Warn", "Limit", "Used"], list.map((c) => [
      el("th", { scope: "row" }, c.rule), right(number(c.observed)), right(c.warn ? number(c.warn) : "–"), right(c.limit ? number(c.limit) : "–"), c.near ? usage(c.near, `${c.rule} used`) : "–"]))] : []));
    said.replaceChildren(verdicts.length ? el("ol", { class: "timeline" }, verdicts.slice(0, 50).map((x) => el("li", {}, clock(x.time), " ", badge(spoken({ verdict: x })), " ", plain(x.message ?? x.reason_code)))) : el("p", {}, "No recent verdicts."));
    notes.replaceChildren(v.notes?.length ? noteList(v.notes, (t) => go(`/ui/agents?${query({ tag: t })}`)) : el("p", {}, "No notes."));
  }
  document.title = `${short(agent, 30)} · weir`;
  try {
    await load();
  } catch (error) {
    if (error.status !== 404) throw error;
    facts.replaceChildren("weir does not watch this agent. It watches agents that report their status (agent.status), or every agent with agents.watch: all. ", el("a", { href: `/ui/flows?${query({ q: agent })}` }, "Flows that name it"));
    return;
  }
  every(() => load().catch(() => {}), signal);
}
