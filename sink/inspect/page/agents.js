// All agents in one table, over all their flows, and what was noted about them.
import { el, name, number, many, clock, second, badge, plain, say, button, copy, agentLink, agentPath, passed } from "./dom.js";
import { get, every, query } from "./api.js";
import { sheet } from "./sheet.js";
import { begin } from "./begin.js";

const most = 5000;

const pathOf = (a) => (a.seen ? `/ui/flows?${query({ q: a.agent })}` : agentPath(a.agent, a.kind));

const rank = { archived: 1, potentially_stuck: 2, stuck: 3 };

// attention puts those first that somebody has to look after, the longest silent before
// all, then those that did something last.
const attention = (a) => (rank[a.state] && (a.certainty || a.step) ? rank[a.state] * 1e10 + a.age_s : (Date.parse(a.last) || 0) / 1000);

const columns = [
  { key: "agent", head: "Agent", cell: (a) => el("a", { href: pathOf(a), tabindex: -1 }, name(a.agent, 44)) },
  { key: "state", head: "State", value: attention, cell: (a) => [badge(a.state), a.waiting && ` for ${plain(a.waiting)}`] },
  { key: "reason_code", head: "Why", value: (a) => a.reason_code ?? "", cell: (a) => (a.reason_code ? [el("span", {}, plain(a.reason_code)), a.certainty && el("span", { class: "faint" }, a.certainty === "stuck" ? " certain" : " may be")] : "–") },
  { key: "age_s", head: "Silent for", number: true, cell: (a) => (a.seen ? "–" : passed(a.age_s)) },
  { key: "step", head: "Step", value: (a) => a.step ?? "", cell: (a) => (a.step ? [plain(a.step), a.reviewer && [" by ", name(a.reviewer, 20)]] : "–") },
  { key: "flows", head: "Flows", number: true },
  { key: "notes", head: "Notes", number: true },
  { key: "last", head: "Last", value: (a) => a.last ?? "", cell: (a) => second(a.last) },
];

// seenIn lists the agents that flows name and that the agent stage was not told of, or not
// yet: it hears of who is at work some time later, and of nobody while nothing watches agents.
function seenIn(flows, known) {
  const seen = new Map();
  for (const f of flows) {
    for (const agent of f.agents ?? []) {
      if (known.has(agent)) continue;
      const a = seen.get(agent) ?? { agent, state: "seen", seen: true, flows: 0, notes: 0, last: "" };
      a.flows++;
      if (f.last > a.last) a.last = f.last;
      seen.set(agent, a);
    }
  }
  return [...seen.values()];
}

export default async function ({ main, signal, parameters, remember, go }) {
  const wanted = {
    text: parameters.get("q") ?? "", stuck: parameters.get("stuck") === "1", kind: parameters.get("kind") === "project" ? "project" : "",
    tag: parameters.get("tag") ?? "", sort: parameters.get("sort") ?? "state", up: parameters.get("up") === "1",
  };
  let all = [], list = {}, paused = false;

  const change = (fields) => {
    Object.assign(wanted, fields);
    remember({ q: wanted.text, stuck: wanted.stuck && "1", kind: wanted.kind, tag: wanted.tag, sort: wanted.sort === "state" ? "" : wanted.sort, up: wanted.up && "1" });
    arrange(true);
  };
  const anew = (fields) => {
    change(fields);
    load().catch(unanswered);
  };
  const search = el("input", { type: "search", "aria-label": "Filter by agent", placeholder: "filter by agent", value: wanted.text, oninput: () => change({ text: search.value }) });
  const stuck = el("select", { "aria-label": "Filter by state", onchange: () => anew({ stuck: stuck.value === "1" }) },
    [["", "every state"], ["1", "only stuck"]].map(([v, text]) => el("option", { value: v, selected: (v === "1") === wanted.stuck }, text)));
  const kind = el("select", { "aria-label": "Agents or projects", onchange: () => anew({ kind: kind.value }) },
    [["", "agents"], ["project", "projects"]].map(([v, text]) => el("option", { value: v, selected: v === wanted.kind }, text)));
  const pause = button("Pause", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? "Go on" : "Pause";
  }, { "aria-pressed": "false" });
  const count = el("p", { class: "faint", id: "count" });
  const table = sheet({ label: "Agents", columns, id: (a) => a.agent, path: pathOf, state: (a) => a.state, about: "count", main, signal, go,
    reorder: (key) => change({ sort: key, up: wanted.sort === key ? !wanted.up : key === "agent" }) });
  const none = el("p", { hidden: true }), start = el("div", {});
  const tag = el("input", { type: "text", "aria-label": "Notes with the tag", placeholder: "tag", value: wanted.tag, onchange: () => anew({ tag: tag.value.trim() }) });
  const notes = el("div", {});
  main.append(el("h1", {}, "Agents"), el("p", { class: "faint" }, "All agents that events name. weir watches an agent for silence if it reports its status (agent.status), or every agent with agents.watch: all."), el("div", { class: "bar" }, search, stuck, kind, pause, button("Copy link", (e) => copy(location.href, e.target))), count, start, table.node, none,
    el("section", { "aria-labelledby": "notes" }, el("h2", { id: "notes" }, "Notes"), el("div", { class: "bar" }, tag), notes));

  function arrange(again) {
    const text = wanted.text.toLowerCase();
    const shown = all.filter((a) => !text || a.agent.toLowerCase().includes(text));
    const empty = all.length === 0 && !wanted.stuck && !wanted.kind;
    if (!empty) start.replaceChildren();
    else if (!start.firstChild) start.append(begin("No agents yet"));
    none.hidden = shown.length > 0 || empty;
    none.textContent = text ? "No agent matches this filter." : wanted.stuck ? "No agent is stuck." : wanted.kind ? "No projects yet. Events name a project in project_id." : "";
    table.node.hidden = shown.length === 0;
    count.textContent = `${many(list.stuck ?? 0, "agent")} stuck · ${number(shown.length)} of ${number(list.scanned ?? 0)} shown` +
      (list.truncated ? ", of those that were used last" : "") + (list.told ? ` · up to date as of ${list.told.slice(11, 19)}` : "");
    table.show(shown, { sort: columns.some((c) => c.key === wanted.sort) ? wanted.sort : "state", up: wanted.up, anew: again });
  }

  let said = ""; // of the notes that are shown
  function showNotes(found) {
    const now = JSON.stringify(found);
    if (now === said) return;
    said = now;
    notes.replaceChildren(found.length ? noteList(found, (t) => { tag.value = t; anew({ tag: t }); }) : el("p", { class: "faint" }, "No notes. Agents and people leave them with POST /v1/notes."));
  }

  async function load() {
    if (paused && all.length) return;
    const [agents, found, flows] = await Promise.all([get(`/v1/agents?${query({ limit: most, stuck: wanted.stuck && "1", kind: wanted.kind })}`, signal), get(`/v1/notes?${query({ limit: 50, tag: wanted.tag })}`, signal),
      wanted.stuck || wanted.kind ? { flows: [] } : get(`/v1/flows?${query({ limit: most })}`, signal)]);
    const before = new Map(all.map((a) => [a.agent, a]));
    list = agents;
    // An agent of which nothing new is known keeps its object, and with that its row.
    const seen = seenIn(flows.flows, new Set(agents.agents.map((a) => a.agent)));
    list.scanned += seen.length;
    all = [...agents.agents, ...seen].map((a) => {
      const b = before.get(a.agent);
      return b && JSON.stringify(a) === JSON.stringify(b) ? b : a;
    });
    arrange(false);
    showNotes(found.notes);
  }
  const unanswered = () => signal.aborted || say("weir is unreachable; retrying");
  await load();
  every(() => load().then(() => say(paused ? "paused" : ""), unanswered), signal);
}

// noteList are notes; pick is called with a tag that is chosen.
export const noteList = (notes, pick) => el("ol", { class: "timeline" }, notes.map((n) => el("li", {}, clock(n.time), " ", agentLink(n.agent, 32), n.author && n.author !== n.agent && [" by ", name(n.author, 32)],
  (n.tags ?? []).map((t) => [" ", button(plain(t), () => pick(t), { class: "link", title: "notes with this tag" })]), el("br"), plain(n.summary ?? ""))));
