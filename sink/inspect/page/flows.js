// All flows in one table. Only the rows that can be seen are in the document.
import { el, name, number, clock, badge, usage, flowPath, plain, say, button, copy } from "./dom.js";
import { get, lines, every, query } from "./api.js";

const rowHeight = 34;
const most = 5000;

const rank = { ok: 0, warned: 1, armed: 2, stopped: 3 };

// urgency puts what stands before what may come.
export const urgency = (f) => 10 * (rank[f.status] ?? 0) + (f.nearest?.near ?? 0);

const columns = [
  { key: "flow", head: "Flow", cell: (f) => el("a", { href: flowPath(f.flow), tabindex: -1 }, name(f.flow, 44)) },
  { key: "status", head: "Status", value: (f) => rank[f.status], cell: (f) => badge(f.status) },
  { key: "near", head: "Nearest limit", value: urgency, cell: nearest },
  { key: "parties", head: "Agents", number: true },
  { key: "hops", head: "Calls", number: true },
  { key: "tool_calls", head: "Tools", number: true },
  { key: "events", head: "Events", number: true },
  { key: "last", head: "Last", cell: (f) => clock(f.last) },
];

function nearest({ nearest: n }) {
  if (!n) return "–";
  return [usage(n.near, `${n.rule} used`), el("span", { class: "faint" }, ` ${n.rule} ${number(n.observed)}/${number(n.limit)}`)];
}

// parseTime reads what Grafana writes into links (milliseconds), or a time.
const parseTime = (text) => (!text ? undefined : /^\d+$/.test(text) ? Number(text) : Date.parse(text));

export default async function ({ main, signal, parameters, remember, go }) {
  const wanted = {
    text: parameters.get("q") ?? "", status: parameters.get("status") ?? "", rule: parameters.get("rule") ?? "",
    from: parameters.get("from") ?? "", to: parameters.get("to") ?? "", sort: parameters.get("sort") ?? "near", up: parameters.get("up") === "1",
  };
  let all = [], shown = [], selected, paused = false, first = -1, drawn = new Map();

  const change = (fields) => {
    Object.assign(wanted, fields);
    remember({ q: wanted.text, status: wanted.status, rule: wanted.rule, from: wanted.from, to: wanted.to, sort: wanted.sort, up: wanted.up && "1" });
    arrange(true);
  };
  const search = el("input", { type: "search", "aria-label": "Filter by flow", placeholder: "filter by flow", value: wanted.text, oninput: () => change({ text: search.value }) });
  const status = el("select", { "aria-label": "Filter by status", onchange: () => change({ status: status.value }) },
    ["", "ok", "warned", "armed", "stopped"].map((s) => el("option", { value: s, selected: s === wanted.status }, s || "every status")));
  const rule = el("input", { type: "text", "aria-label": "Filter by rule or reason", placeholder: "rule or reason", value: wanted.rule, onchange: () => { change({ rule: rule.value.trim() }); byVerdicts().catch(() => {}); } });
  const pause = button("Pause", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? "Go on" : "Pause";
  }, { "aria-pressed": "false" });
  const count = el("p", { class: "faint", id: "count" });
  const range = el("p", {});
  const heads = columns.map((c) => {
    const sort = button(c.head, () => change({ sort: c.key, up: wanted.sort === c.key ? !wanted.up : c.key === "flow" }));
    return el("th", { scope: "col", class: c.number ? "number" : undefined }, sort);
  });
  const above = el("tr", { class: "room" }), below = el("tr", { class: "room" });
  const body = el("tbody", {});
  const sheet = el("table", { class: "flows", "aria-describedby": "count" }, el("caption", { class: "unseen" }, "Flows"), el("thead", {}, el("tr", {}, heads)), body);
  const scroller = el("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Flows" }, sheet);
  const none = el("p", { hidden: true }, "No flow is like that.");
  main.append(el("h1", {}, "Flows"), el("div", { class: "bar" }, search, status, rule, pause, button("Copy link", (e) => copy(location.href, e.target))), range, count, scroller, none);

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
        if (v.action === "allow" || (from && at < from) || (to && at > to)) continue;
        if (wanted.rule && wanted.rule !== v.reason_code && wanted.rule !== v.rule_id) continue;
        spoken.set(v.correlation_id ?? "", v);
      }
      const text = [wanted.rule && `of which ${plain(wanted.rule)} spoke`, from && `from ${new Date(from).toISOString()}`, to && `to ${new Date(to).toISOString()}`].filter(Boolean).join(" ");
      range.append(`Flows ${text}: ${number(spoken.size)} in the latest verdicts. `, button("All flows", () => { rule.value = ""; change({ rule: "", from: "", to: "" }); byVerdicts(); }));
    }
    arrange(true);
  }

  function arrange(anew) {
    heads.forEach((th, i) => {
      const on = columns[i].key === wanted.sort;
      on ? th.setAttribute("aria-sort", wanted.up ? "ascending" : "descending") : th.removeAttribute("aria-sort");
    });
    const text = wanted.text.toLowerCase();
    const fits = (f) => (!text || f.flow.toLowerCase().includes(text)) && (!wanted.status || f.status === wanted.status) && (!spoken || spoken.has(f.flow));
    const known = new Map(all.map((f) => [f.flow, f]));
    if (spoken) for (const [flow, v] of spoken) if (!known.has(flow)) known.set(flow, { flow, status: v.action, last: v.time });
    let next = [...known.values()].filter(fits);
    const column = columns.find((c) => c.key === wanted.sort) ?? columns[2];
    const value = column.value ?? ((f) => f[column.key] ?? 0);
    const sign = wanted.up ? 1 : -1;
    next.sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : a.flow < b.flow ? -1 : 1));
    // Rows never move under the pointer, nor while somebody is among them.
    if (!anew && (scroller.matches(":hover") || scroller.contains(document.activeElement))) {
      const place = new Map(shown.map((f, i) => [f.flow, i]));
      next = [...next.filter((f) => place.has(f.flow)).sort((a, b) => place.get(a.flow) - place.get(b.flow)), ...next.filter((f) => !place.has(f.flow))];
    }
    shown = next;
    none.hidden = shown.length > 0;
    sheet.setAttribute("aria-rowcount", shown.length + 1);
    count.textContent = `${number(shown.length)} of ${number(all.length)} flows`;
    draw(true);
  }

  // draw puts the rows into the document that can be seen.
  function draw(changed) {
    const visible = Math.ceil(scroller.clientHeight / rowHeight) + 8;
    const from = Math.max(0, Math.min(Math.floor(scroller.scrollTop / rowHeight) - 4, shown.length - visible));
    if (from === first && !changed) return;
    first = from;
    const rows = [], next = new Map();
    shown.slice(from, from + visible).forEach((f, i) => {
      let row = drawn.get(f.flow);
      if (!row || row.of !== f) {
        row = { of: f, node: el("tr", {}, columns.map((c) => el("td", { class: c.number ? "number" : undefined }, c.cell ? c.cell(f) : number(f[c.key])))) };
        row.node.addEventListener("click", (e) => e.target.closest("a") || go(flowPath(f.flow)));
      }
      row.node.setAttribute("aria-rowindex", from + i + 2);
      row.node.classList.toggle("selected", f.flow === selected);
      next.set(f.flow, row);
      rows.push(row.node);
    });
    drawn = next;
    above.style.height = `${from * rowHeight}px`;
    below.style.height = `${Math.max(0, shown.length - from - rows.length) * rowHeight}px`;
    body.replaceChildren(above, ...rows, below);
  }

  function move(by) {
    if (!shown.length) return;
    const at = shown.findIndex((f) => f.flow === selected);
    const to = Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by));
    selected = shown[to].flow;
    const top = to * rowHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + 3 * rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + 3 * rowHeight - scroller.clientHeight;
    scroller.focus({ preventScroll: true });
    draw(true);
    say(`${plain(selected)}, ${shown[to].status}, row ${to + 1} of ${shown.length}`);
  }
  main.addEventListener("move", (e) => move(e.detail.by ?? e.detail), { signal });
  scroller.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && selected !== undefined && e.target === scroller) go(flowPath(selected));
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      move(e.key === "ArrowDown" ? 1 : -1);
    }
  });
  scroller.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
  addEventListener("resize", () => draw(true), { signal });

  const load = async () => {
    if (paused && all.length) return;
    const list = await get(`/v1/flows?${query({ limit: most, sort: "near" })}`, signal);
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
  every(() => load().then(() => say(paused ? "paused" : ""), () => say("weir does not answer; trying again")), signal);
}
