// Draws a timeline as a sequence diagram: a lane for each party, a row for each event.
import { el, svg, short, plain, clock, spoken } from "./dom.js";

const row = 24, gutter = 120, head = 34;
const pauseFrom = 60_000; // milliseconds of silence that get a row of their own
const period = 8; // events of the longest cycle that is folded
const least = 3; // rounds that are folded

// rows turns steps into rows: steps, pauses, and cycles that go round at least three
// times. A step at which something was said is never folded away.
export function rows(steps, said, opened = new Set()) {
  const marked = new Set(said.map((s) => s.step));
  const sign = steps.map((s) => (marked.has(s.n) ? s.n : [s.kind, s.from, s.to, s.tool, s.refused, s.error].join("\u0000")));
  const out = [];
  const plainly = (s) => {
    const i = s.n - 1;
    const gap = i > 0 ? Date.parse(s.time) - Date.parse(steps[i - 1].time) : 0;
    if (gap >= pauseFrom) out.push({ pause: gap });
    out.push({ step: s });
  };
  for (let i = 0; i < steps.length; ) {
    let best = { length: 0, rounds: 0 };
    for (let length = 1; length <= period && i + length * least <= steps.length; length++) {
      let n = i + length;
      while (n < steps.length && sign[n] === sign[n - length]) n++;
      const rounds = Math.floor((n - i) / length);
      if (rounds >= least && rounds * length > best.rounds * best.length) best = { length, rounds };
    }
    if (!best.rounds) {
      plainly(steps[i++]);
      continue;
    }
    const inside = steps.slice(i, i + best.length * best.rounds);
    const open = opened.has(inside[0].n);
    out.push({ cycle: inside, length: best.length, rounds: best.rounds, open });
    if (open) inside.forEach(plainly);
    i += inside.length;
  }
  return out;
}

export function duration(ms) {
  const s = Math.round(ms / 1000);
  return [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].reduce(([text, left], [unit, letter]) => {
    const n = Math.floor(left / unit);
    return [n ? text + n + letter : text, left - n * unit];
  }, ["", s])[0] || "0s";
}

const human = "user";
const of = (id) => id || human;

// sentence says in words what a step is.
export function sentence(s) {
  const who = short(of(s.from), 40), whom = short(s.to || (s.kind === "agent.return" ? human : ""), 40), tool = short(s.tool ?? "", 40);
  const end = (s.error ? `, error ${short(s.error, 40)}` : s.status && s.status !== "ok" ? `, ${s.status}` : "") + (s.refused ? ", refused" : "") + (s.repeat ? ", a repeat" : "");
  switch (s.kind) {
    case "agent.call": return `${who} ${s.ask ? "asks to call" : "calls"} ${whom}${s.work === "no" ? " without work" : ""}${end}`;
    case "agent.return": return `${who} answers ${whom}${end}`;
    case "tool.call": return `${who} ${s.ask ? "asks to use" : "uses"} ${tool}${end}`;
    case "tool.result": return `${tool} answers ${who}${end}`;
    case "llm.call": return `${who} calls a model${end}`;
  }
  return `${s.kind}${s.note ? " " + short(s.note, 60) : ""}${end}`;
}

function cycleText({ cycle, length, rounds }) {
  const unit = cycle.slice(0, length);
  const names = [...new Set(unit.flatMap((s) => (s.tool ? [s.tool] : [of(s.from), of(s.to)])))].map((n) => short(n, 24));
  const between = unit.some((s) => s.tool) ? names.join(", ") : names.join(" ⇄ ");
  const work = cycle.some((s) => s.tool || s.work === "yes") ? "" : cycle.some((s) => s.work === "no") ? ", no work" : "";
  return `${between} ×${rounds}${work}`;
}

// lanes are the parties in the order in which they appear.
function lanesOf(steps) {
  const order = new Map();
  const add = (id) => order.has(id) || order.set(id, order.size);
  for (const s of steps) {
    if (s.kind === "agent.call") add(of(s.from)), add(of(s.to));
    else if (s.kind === "agent.return") add(of(s.from)), s.to && add(s.to);
    else if (s.from) add(s.from);
  }
  if (!order.size) add(human);
  return order;
}

// labelOf is what stands beside a step that is no arrow.
function labelOf(s) {
  if (s.kind === "agent.call" || (s.kind === "agent.return" && s.to)) return "";
  const text = s.kind === "tool.call" ? s.tool : s.kind === "tool.result" ? `↩ ${s.tool}` : s.kind === "llm.call" ? "model" : s.kind === "agent.return" ? "answers the user" : s.kind + (s.note ? " " + s.note : "");
  return text + (s.error ? ` ✗ ${s.error}` : "");
}

const shape = { deny: "■", hold: "⏸", halt: "■", throttle: "◔", warn: "▲", allow: "✓" };

// diagram returns the picture and mark(n), which covers what came after step n.
export function diagram({ steps, said }, { pick } = {}) {
  const opened = new Set();
  const at = new Map(); // y below a step
  const node = el("div", { class: "diagram", tabindex: 0, role: "region", "aria-label": "Sequence of calls" });
  let future, marked, height;
  const lanes = lanesOf(steps);
  const width = Math.max(96, Math.min(150, Math.floor(360 / lanes.size)));
  const x = (id) => gutter + (lanes.get(of(id)) + 0.5) * width;
  const longest = Math.max(14, Math.floor(width / 6.5)); // letters of a label
  const labels = steps.filter((s) => s.from && lanes.get(of(s.from)) === lanes.size - 1).map((s) => Math.min(longest, labelOf(s).length));
  const beside = gutter + lanes.size * width + Math.max(6, 7 * Math.max(0, ...labels) + 18 - width / 2); // where verdicts stand
  const total = beside + 230;
  const last = new Map(); // what is shown at a step: the weightiest of what was said
  for (const s of said) if (!last.has(s.step) || s.verdict.action !== "warn") last.set(s.step, s);

  function draw() {
    const list = rows(steps, said, opened);
    const marks = [];
    let y = 6;
    at.clear();
    for (const r of list) {
      const top = y;
      y += row;
      if (r.pause) marks.push(svg("text", { x: gutter + 8, y: top + 16, class: "pause" }, `⋮ +${duration(r.pause)}`));
      else if (r.step) {
        at.set(r.step.n, y);
        marks.push(stepMarks(r.step, top + 14));
      } else {
        for (const s of r.open ? [] : r.cycle) at.set(s.n, y);
        marks.push(cycleMarks(r, top));
      }
    }
    height = y + 6;
    future = svg("rect", { class: "future", x: 0, width: total, y: height, height: 0 });
    const lines = [...lanes.keys()].map((id) => svg("line", { class: "lane", x1: x(id), x2: x(id), y1: 0, y2: height }));
    const heads = svg("svg", { class: "heads", width: total, height: head, "aria-hidden": "true" }, [...lanes.keys()].map((id) => [
      svg("rect", { x: x(id) - width / 2 + 4, y: 4, width: width - 8, height: head - 8, rx: 4 }),
      svg("text", { x: x(id), y: 22, "text-anchor": "middle" }, svg("title", {}, plain(id)), short(id, Math.floor((width - 16) / 7))),
    ]));
    node.replaceChildren(heads, svg("svg", { width: total, height, role: "group", "aria-label": `${steps.length} events between ${lanes.size} parties; the list below tells the same in words` }, lines, marks, future));
    if (marked !== undefined) mark(marked, true);
  }

  function stepMarks(s, y) {
    const g = svg("g", { class: `step${s.refused ? " refused" : ""}${s.repeat ? " repeat" : ""}`, "data-n": s.n },
      svg("rect", { class: "hit", x: 0, y: y - 14, width: total, height: row }),
      time(s, y + 4),
      svg("text", { class: "n", x: gutter - 14, y: y + 4, "text-anchor": "end" }, svg("title", {}, `${s.time}: ${sentence(s)}`), `${s.n}`));
    const from = s.from || s.kind === "agent.call" ? x(s.from) : gutter;
    if (s.kind === "agent.call" || (s.kind === "agent.return" && s.to)) {
      const to = x(s.to);
      if (from === to) g.append(svg("path", { class: "arrow", d: `M${from} ${y - 6}h18v10h-12` }), tip(from + 6, y + 4, -1));
      else {
        const way = Math.sign(to - from);
        g.append(svg("line", { class: s.kind === "agent.call" ? "arrow" : "arrow back", x1: from, x2: to - 6 * way, y1: y, y2: y }), tip(to, y, way));
        if (s.kind === "agent.call" && s.work === "yes") g.append(svg("circle", { class: "work", cx: from, cy: y, r: 4 }, svg("title", {}, "worked before this call")));
      }
    } else {
      g.append(svg("rect", { class: "work", x: from - 4, y: y - 4, width: 8, height: 8 }),
        svg("text", { class: s.error ? "label error" : "label", x: from + 9, y: y + 4 }, short(labelOf(s), s.from ? longest : Math.floor((lanes.size * width) / 6.5))));
    }
    const v = last.get(s.n);
    if (v) {
      g.append(svg("text", { class: `said ${v.verdict.action}`, x: beside, y: y + 4 }, `${shape[v.verdict.action] ?? "•"} ${spoken(v)}: ${short(v.verdict.rule_id ?? v.verdict.reason_code, 30)}`));
    }
    return g;
  }

  const time = (s, y) => svg("text", { class: "time", x: 4, y }, s.time.slice(11, 23));
  const tip = (px, py, way) => svg("path", { class: "tip", d: `M${px} ${py}l${-7 * way} -4v8z` });

  function cycleMarks(r, y) {
    const ids = r.cycle.slice(0, r.length).flatMap((s) => [x(s.from), s.kind.startsWith("agent.") && s.to ? x(s.to) : x(s.from)]);
    const left = Math.min(...ids) - 12, right = Math.max(...ids) + 12;
    const text = cycleText(r);
    const toggle = () => {
      opened.has(r.cycle[0].n) ? opened.delete(r.cycle[0].n) : opened.add(r.cycle[0].n);
      draw();
      node.querySelector(`[data-cycle="${r.cycle[0].n}"]`)?.focus({ preventScroll: true });
    };
    const label = `${r.open ? "▾" : "▸"} ${text}`;
    const button = svg("g", { class: "cycle", role: "button", tabindex: 0, "aria-expanded": String(r.open), "data-cycle": r.cycle[0].n,
      onclick: toggle, onkeydown: (e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), toggle()) },
    svg("rect", { x: left, y: y + 3, width: Math.max(right - left, label.length * 7.4 + 16), height: row - 6, rx: 9 }), svg("text", { x: left + 9, y: y + 16 }, label));
    return [button, time(r.cycle[0], y + 16), svg("text", { class: "n", x: gutter - 14, y: y + 16, "text-anchor": "end" }, `${r.cycle[0].n}…`)];
  }

  // mark covers what came after a step, and keeps that step in sight.
  function mark(n, still) {
    marked = n;
    const y = n <= 0 ? 0 : n >= steps.length ? height : at.get(n) ?? height;
    future.setAttribute("y", y);
    future.setAttribute("height", Math.max(0, height - y));
    if (still) return;
    const top = y + head - row;
    if (top - head < node.scrollTop) node.scrollTop = Math.max(0, top - head - row);
    else if (top + 2 * row > node.scrollTop + node.clientHeight) node.scrollTop = top + 2 * row - node.clientHeight;
  }

  node.addEventListener("click", (e) => {
    const n = e.target.closest?.("[data-n]")?.dataset.n;
    if (n && pick) pick(Number(n));
  });
  draw();
  return { node, mark };
}

// asList tells the same in words. It is made when it is opened.
export function asList({ steps, said }) {
  const list = el("details", { class: "words", ontoggle: () => list.open && list.children.length === 1 && list.append(el("ol", {}, steps.map((s) =>
    el("li", {}, clock(s.time), " ", sentence(s), said.filter((v) => v.step === s.n).map((v) => el("strong", {}, ` · ${plain(v.verdict.message ?? v.verdict.reason_code)}`)))))) },
  el("summary", {}, "The same as a list"));
  return list;
}

// asMermaid is the text of a diagram that other pages draw.
export function asMermaid({ steps }) {
  const lanes = [...lanesOf(steps).keys()];
  const label = (text) => short(text, 60).replace(/[;#:\n]/g, " ");
  const out = ["sequenceDiagram", ...lanes.map((id, i) => `  participant p${i} as ${label(id)}`)];
  const p = (id) => `p${lanes.indexOf(of(id))}`;
  for (const s of steps) {
    if (s.kind === "agent.call") out.push(`  ${p(s.from)}->>${p(s.to)}: ${s.n}${s.refused ? " refused" : ""}`);
    else if (s.kind === "agent.return" && s.to) out.push(`  ${p(s.from)}-->>${p(s.to)}: ${s.n}`);
    else if (s.from) out.push(`  Note over ${p(s.from)}: ${s.n} ${label(s.tool || s.kind)}`);
  }
  return out.join("\n") + "\n";
}
