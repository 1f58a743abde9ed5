// All flows in one table.
import { el, name, number, second, badge, called, usage, flowPath, plain, say, button, copy, wide, money, agentLink } from "./dom.js";
import { get, lines, every, query } from "./api.js";
import { sheet } from "./sheet.js";
import { begin } from "./begin.js";

const most = 5000;

const rank = { ok: 0, expired: 1, warned: 2, armed: 3, stopped: 4, held: 5 };

// urgency puts what stands before what may come.
export const urgency = (f) => 10 * (rank[f.status] ?? 0) + (f.nearest?.near ?? 0);

const columns = [
  { key: "flow", head: "Flow", cell: (f) => el("a", { href: flowPath(f.flow), tabindex: -1 }, name(f.flow, 64)) },
  { key: "status", head: "Status", value: (f) => rank[f.status], cell: (f) => badge(f.status) },
  { key: "service", head: "Service", value: (f) => f.service ?? "", cell: (f) => (f.service ? name(f.service, 24) : "–") },
  { key: "near", head: "Nearest limit", value: urgency, cell: nearest },
  { key: "parties", head: "Agents", cell: agents },
  { key: "hops", head: "Calls", number: true },
  { key: "tool_calls", head: "Tools", number: true },
  { key: "tokens", head: "Tokens", number: true, cell: (f) => (f.tokens ? number(f.tokens) : "–") },
  { key: "cost_usd", head: "Cost", number: true, cell: (f) => (f.cost_usd ? money(f.cost_usd) : "–") },
  { key: "last", head: "Last", cell: (f) => second(f.last) },
];

function agents({ parties, agents: names }) {
  if (!names?.length) return "–";
  const more = parties - Math.min(2, names.length);
  return [names.slice(0, 2).map((a, i) => [i ? ", " : "", agentLink(a, 16)]), more > 0 && el("span", { class: "faint" }, ` and ${more} more`)];
}

// nearest shows the value at the stop of a stopped flow, else the limit that is used up most.
export function nearest({ nearest: near, stop }) {
  const n = stop ?? near;
  if (!n) return "–";
  if (stop) return [el("span", { class: "badge stopped", title: "the value at the stop" }, `${number(n.observed)}/${number(n.limit)} `), el("span", { class: "faint" }, n.rule)];
  return [usage(n.near, `${n.rule} used`), el("span", { class: "faint" }, ` ${n.rule} ${number(n.observed)}/${number(n.limit)}`)];
}

// parseTime reads what Grafana writes into links (milliseconds), or a time.
const parseTime = (text) => (!text ? undefined : /^\d+$/.test(text) ? Number(text) : Date.parse(text));

export default async function ({ main, signal, parameters, remember, go }) {
  const wanted = {
    text: parameters.get("q") ?? "", status: parameters.get("status") ?? "", rule: parameters.get("rule") ?? "",
    from: parameters.get("from") ?? "", to: parameters.get("to") ?? "", sort: parameters.get("sort") ?? "near", up: parameters.get("up") === "1",
  };
  let all = [], of = 0, loaded, paused = false, typing;

  const change = (fields) => {
    Object.assign(wanted, fields);
    remember({ q: wanted.text, status: wanted.status, rule: wanted.rule, from: wanted.from, to: wanted.to, sort: wanted.sort, up: wanted.up && "1" });
    arrange(true);
  };
  const search = el("input", { type: "search", "aria-label": "Search by flow, service or agent", placeholder: "flow, service, agent", value: wanted.text, oninput: () => { change({ text: search.value }); clearTimeout(typing); typing = setTimeout(() => load().catch(() => {}), 200); } });
  const status = el("select", { "aria-label": "Filter by status", onchange: () => change({ status: status.value }) },
    ["", "ok", "expired", "warned", "armed", "stopped", "held"].map((s) => el("option", { value: s, selected: s === wanted.status }, s ? called(s) : "every status")));
  const rule = el("input", { type: "text", "aria-label": "Filter by rule or reason", placeholder: "rule or reason", value: wanted.rule, onchange: () => { change({ rule: rule.value.trim() }); byVerdicts().catch(() => {}); } });
  const pause = button("Pause", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? "Go on" : "Pause";
  }, { "aria-pressed": "false" });
  const count = el("p", { class: "faint", id: "count" });
  const range = el("p", {});
  const table = sheet({ label: "Flows", columns, id: (f) => f.flow, path: (f) => flowPath(f.flow), state: (f) => f.status, about: "count", main, signal, go,
    reorder: (key) => change({ sort: key, up: wanted.sort === key ? !wanted.up : key === "flow" || key === "service" }) });
  const none = el("p", { hidden: true }, "No flow matches these filters.");
  const start = el("div", {});
  main.append(el("h1", {}, "Flows"), el("div", { class: "bar" }, search, status, rule, pause, button("Copy link", (e) => copy(location.href, e.target))), range, count, start, table.node, none);

  // verdicts of a time range tell which flows a rule spoke about, even when nothing stands any more.
  let spoken; // flows by id; undefined when every flow is wanted
  async function byVerdicts() {
    range.replaceChildren();
    spoken = undefined;
    const from = parseTime(wanted.from), to = parseTime(wanted.to);
    if (wanted.rule || from || to) {
      spoken = new Map();
      for (const v of await lines(`/v1/verdicts?${query({ since: -20000 })}`, signal)) {
        const at = Date.parse(v.time);
        if (v.action === "allow" || wide(v) || (from && at < from) || (to && at > to)) continue;
        if (wanted.rule && wanted.rule !== v.reason_code && wanted.rule !== v.rule_id) continue;
        spoken.set(v.correlation_id ?? "", v);
      }
      const text = [wanted.rule && `of which ${plain(wanted.rule)} spoke`, from && `from ${new Date(from).toISOString()}`, to && `to ${new Date(to).toISOString()}`].filter(Boolean).join(" ");
      range.append(`Flows ${text}: ${number(spoken.size)} in the latest verdicts. `, button("All flows", () => { rule.value = ""; change({ rule: "", from: "", to: "" }); byVerdicts(); }));
    }
    arrange(true);
  }

  function arrange(anew) {
    const text = wanted.text.toLowerCase();
    const named = (f) => f.flow.toLowerCase().includes(text) || f.service?.toLowerCase().includes(text) || f.agents?.some((a) => a.toLowerCase().includes(text));
    // The server looks through all agents of a flow, of which the list names the first.
    const found = loaded === wanted.text ? new Set(all.map((f) => f.flow)) : new Set();
    const fits = (f) => (!text || found.has(f.flow) || named(f)) && (!wanted.status || f.status === wanted.status) && (!spoken || spoken.has(f.flow));
    const known = new Map(all.map((f) => [f.flow, f]));
    if (spoken) for (const [flow, v] of spoken) if (!known.has(flow)) known.set(flow, { flow, status: v.action, last: v.time });
    const shown = [...known.values()].filter(fits);
    const empty = of === 0 && loaded === "" && known.size === 0;
    if (!empty) start.replaceChildren();
    else if (!start.firstChild) start.append(begin("No flows yet"));
    table.node.hidden = empty;
    none.hidden = shown.length > 0 || empty;
    count.textContent = `${number(shown.length)} of ${number(of)} flows`;
    table.show(shown, { sort: columns.some((c) => c.key === wanted.sort) ? wanted.sort : "near", up: wanted.up, anew });
  }

  const load = async () => {
    if (paused && loaded === wanted.text) return;
    const asked = wanted.text;
    const list = await get(`/v1/flows?${query({ limit: most, sort: "near", q: asked })}`, signal);
    if (asked !== wanted.text) return;
    [of, loaded] = [list.scanned, asked];
    const before = new Map(all.map((f) => [f.flow, f]));
    // A flow that nothing came to keeps its object, and with that its row.
    all = list.flows.map((f) => {
      const b = before.get(f.flow);
      return b && b.events === f.events && b.status === f.status ? b : f;
    });
    arrange(false);
    if (list.truncated) count.textContent += `, of those that were used last`;
  };
  await load();
  await byVerdicts();
  every(() => load().then(() => say(paused ? "paused" : ""), () => say("weir is unreachable; retrying")), signal);
}
