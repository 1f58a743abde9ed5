// Charts of the last two hours, one bar a minute. weir keeps them in memory since its start.
import { el, svg, number, money, ago } from "./dom.js";

const [width, height, most] = [360, 56, 121];

const kinds = [
  { key: "stopped", title: "Stopped flows", now: (p) => `${number(p.stopped)} now`, value: (p) => p.stopped, red: true, bad: () => 0, text: (v) => number(v) },
  { key: "spend", title: "Spend", now: (p, all) => `${money(sum(all, "micro_usd") / 1e6)} in all`, value: (p) => p.micro_usd / 1e6, bad: () => 0, text: (v) => `${money(v)} a minute` },
  { key: "checks", title: "Checks", now: (p, all) => `${number(sum(all, "checks"))}, ${number(sum(all, "refused"))} refused`, value: (p) => Math.max(p.checks, p.refused), bad: (p) => p.refused, text: (v) => `${number(v)} a minute` },
];

const sum = (all, key) => all.reduce((n, p) => n + p[key], 0);

// charts are drawn anew by show.
export function charts() {
  const node = el("div", { class: "charts" });
  let shown = "";
  function show({ since, minutes }) {
    const next = JSON.stringify(minutes.map((p) => [p.stopped, p.micro_usd, p.checks, p.refused]));
    if (next === shown) return;
    shown = next;
    node.replaceChildren(...kinds.map((k) => chart(k, minutes)), el("p", { class: "faint" }, "One bar per minute for at most two hours; refused checks are red. weir started ", ago(since), ", and a restart clears the charts."));
  }
  return { node, show };
}

function chart(kind, minutes) {
  const top = Math.max(...minutes.map(kind.value)), step = width / most;
  const bars = minutes.flatMap((p, i) => {
    const x = width - (minutes.length - i) * step;
    const bar = (value, more) => value > 0 && svg("rect", { x, width: step - 0.5, height: Math.max(1, (value / top) * height), y: height - Math.max(1, (value / top) * height), class: more }, svg("title", {}, `${p.time.slice(11, 16)} UTC: ${kind.text(value)}`));
    return [bar(kind.value(p), kind.red ? "bar-bad" : "bar-all"), bar(kind.bad(p), "bar-bad")];
  });
  const now = kind.now(minutes.at(-1), minutes);
  return el("figure", {}, el("figcaption", {}, el("span", {}, kind.title), el("strong", {}, now)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${kind.title}: ${now}; at most ${kind.text(top)}`, preserveAspectRatio: "none" }, bars, svg("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" })),
    el("span", { class: "faint" }, top > 0 ? `at most ${kind.text(top)}` : "none since the start"));
}
