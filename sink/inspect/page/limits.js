// The limits in force, and the flow that is nearest to each.
import { el, number, plain, usage, flowLink, right, table, copy, button } from "./dom.js";
import { get, text } from "./api.js";

export default async function ({ main, signal, parameters, remember }) {
  const [about, limits, file, list] = await Promise.all([get("/v1/inspect/rules", signal), get("/v1/limits", signal), text("/v1/inspect/limits", signal), get("/v1/flows?sort=near&limit=1000", signal)]);
  const near = new Map();
  for (const f of list.flows) if (f.nearest && !(near.get(f.nearest.rule)?.nearest.near >= f.nearest.near)) near.set(f.nearest.rule, f);
  const reload = limits.last_reload ?? {};
  const rows = Object.entries(limits.document.rules ?? {});
  const search = el("input", { type: "search", "aria-label": "Filter by rule", placeholder: "filter by rule", value: parameters.get("q") ?? "", oninput: () => (remember({ q: search.value }), draw()) });
  const body = el("div", {});
  const show = (v) => (v === undefined ? "–" : typeof v === "number" ? number(v) : plain(v));
  function draw() {
    const fits = rows.filter(([rule]) => rule.includes(search.value.trim()));
    body.replaceChildren(table("Rules", ["Rule", "Mode", "Warn", "Stop", "Window", "Nearest flow"], fits.map(([rule, s]) => {
      const f = near.get(rule);
      return [el("th", { scope: "row" }, rule, about[rule] && el("span", { class: "about" }, plain(about[rule]))), s.mode ?? "enforce", right(show(s.warn)), right(typeof s.max === "number" ? `${show(s.max)} allowed` : show(s.max ?? s.stop)), right(show(s.window)),
        f ? [usage(f.nearest.near, `${rule} used`), " ", flowLink(f.flow, 24)] : "–"];
    })), fits.length ? "" : el("p", {}, "No active rule has this name."));
  }
  main.append(el("h1", {}, "Limits"),
    el("p", {}, "Version ", el("code", {}, limits.version), limits.profile && ` · profile ${limits.profile}`, limits.file ? [" · from ", el("code", {}, plain(limits.file))] : " · built in, no --limits file", limits.pending && ` · ${limits.pending} is read and takes effect soon`),
    reload.error ? el("p", { class: "fault", role: "alert" }, "The last reload failed: ", plain(reload.error)) : "",
    ...(limits.remarks ?? []).map((r) => el("p", { class: "remark" }, plain(r))),
    el("p", { class: "faint" }, "Each flow appears at the one rule of which it used most, so some rules have no flow. Rules that are off are not listed."),
    el("div", { class: "bar" }, search, button("Copy as file", (e) => copy(file, e.target))), body,
    el("details", {}, el("summary", {}, "Limits file"), el("pre", { tabindex: 0, "aria-label": "Limits file" }, file)));
  draw();
}
