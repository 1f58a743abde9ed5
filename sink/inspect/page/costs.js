// What a flow has spent, as an icicle: each row below a bar is what the bar consists of.
import { el, svg, name, number, many, money, short, button, table, right, plain } from "./dom.js";
import { get, query } from "./api.js";

const [width, high, most, named] = [1000, 22, 600, 90]; // named: from this width on a bar has its name

const usd = (s) => (s.reported_micro_usd + s.priced_micro_usd) / 1e6;
const spent = (s) => [usd(s) > 0 && money(usd(s)), `${number(s.tokens)} tokens`, s.unpriced_tokens > 0 && `${number(s.unpriced_tokens)} without a price`, many(s.calls, "call")].filter(Boolean).join(", ");
const title = (n) => `${n.kind} ${n.name}${n.session ? ` (${n.session})` : ""}`;

// measures are what bars are wide by: money where there is some, else tokens, else calls.
const measures = [usd, (s) => s.tokens, (s) => s.calls];

// bars lays out the nodes, a row per level; each node comes before its parts. What is too narrow to be
// seen is left to the table.
function bars(nodes) {
  const measure = measures.find((m) => m(nodes[0].all) > 0), next = [];
  if (!measure) return [];
  return nodes.flatMap((n, i) => {
    const x = next[n.parent] ?? 0, w = (measure(n.all) / measure(nodes[0].all)) * width;
    next[n.parent] = x + w;
    next[i] = x;
    return w < 1 ? [] : { n, x, w };
  }).slice(0, most);
}

function icicle(tree) {
  const all = bars(tree.nodes), rows = Math.max(0, ...all.map((b) => b.n.depth)) + 1;
  return svg("svg", { class: "icicle", viewBox: `0 0 ${width} ${rows * high}`, role: "img", "aria-label": `Costs of flow ${plain(tree.flow)}: ${spent(tree.nodes[0].all)}` },
    all.map(({ n, x, w }) => svg("g", {}, svg("title", {}, `${plain(title(n))}: ${spent(n.all)}; itself ${spent(n.own)}`),
      svg("rect", { x, y: n.depth * high, width: Math.max(0.5, w - 1), height: high - 2, class: n.kind }), w >= named && svg("text", { x: x + 4, y: n.depth * high + 15 }, short(n.name, Math.floor(w / 8))))));
}

// unpriced names the models whose calls are missing in the money.
const unpriced = (tree) => tree.unpriced_models?.length > 0 && el("details", {}, el("summary", {}, `No price is known for ${many(tree.unpriced_models.length, "model")}`), el("p", {}, plain(tree.unpriced_advice)),
  table("Models without a price", ["Model", "Provider", "Calls", "Tokens"], tree.unpriced_models.map((m) => [el("th", { scope: "row" }, m.model ? name(m.model, 40) : "not reported"), plain(m.provider ?? ""), right(number(m.calls)), right(m.tokens > 0 ? number(m.tokens) : "not reported")])));

// row is a node of the table, which has all figures as text.
const row = (n) => [el("th", { scope: "row" }, "· ".repeat(n.depth), `${n.kind} `, name(n.name, 40), n.session ? [" (", name(n.session, 24), ")"] : ""), right(number(n.all.calls)), right(number(n.own.tokens)), right(number(n.all.tokens)),
  right(money(usd(n.own))), right(money(usd(n.all)))];

// costsOf is the part of the page; the log is read when it is opened.
export function costsOf(flow, signal) {
  const body = el("div", {});
  async function load() {
    body.replaceChildren(el("p", { class: "faint" }, "Reading the log …"));
    try {
      const tree = await get(`/v1/inspect/costs?${query({ flow })}`, signal);
      body.replaceChildren(el("p", {}, spent(tree.nodes[0].all)), icicle(tree), ...(tree.truncated ? [el("p", {}, "The tree has more nodes than are shown. Their costs are in the node above.")] : []), unpriced(tree) || "",
        el("details", {}, el("summary", {}, `${number(tree.nodes.length)} nodes as a table`), table("Costs", ["Spent by", "Calls", "Own tokens", "All tokens", "Own cost", "All cost"], tree.nodes.slice(0, most).map(row))));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(el("p", { class: "fault" }, plain(error.message)), button("Try again", load));
    }
  }
  let opened = false;
  return el("details", { id: "costs", ontoggle: (e) => e.target.open && !opened && ((opened = true), load()) }, el("summary", {}, el("h2", {}, "Cost tree")), body);
}
