// Judges a log by two limits, and says what would have been different.
import { el, name, number, plain, button, table, right } from "./dom.js";
import { post, text } from "./api.js";

export default async function ({ main, signal }) {
  const inForce = await text("/v1/inspect/limits", signal);
  const area = (id, value) => el("textarea", { id, rows: 14, spellcheck: "false", value });
  const a = area("a", inForce), b = area("b", inForce), log = area("log", "");
  const file = el("input", { type: "file", id: "file", onchange: async () => (log.value = await file.files[0].text()) });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const result = el("div", { role: "status" });

  async function compare(e) {
    e.target.disabled = true;
    fault.hidden = true;
    try {
      show(await post("/v1/inspect/compare", { log: log.value, a: a.value, b: b.value }, signal));
    } catch (error) {
      fault.hidden = false;
      fault.textContent = plain(error.message);
      result.replaceChildren();
    }
    e.target.disabled = false;
  }
  const halted = (h) => (h ? `${h.rule} at call ${number(h.call)}` : "not stopped");
  function show(c) {
    result.replaceChildren(el("h2", {}, c.differ.length ? `${number(c.differ.length + (c.more ?? 0))} of ${number(c.flows)} flows differ` : "No flow differs"),
      el("p", { class: "faint" }, `${number(c.events)} events read as ${c.format}. A is ${c.a}, B is ${c.b}.`),
      c.rules.length ? table("Flows that each rule stopped", ["Rule", "A", "B", "only A", "only B"], c.rules.map((r) => [el("th", { scope: "row" }, r.rule), right(number(r.a)), right(number(r.b)), right(number(r.only_a)), right(number(r.only_b))])) : el("p", {}, "Neither stops anything."),
      c.differ.length ? table("Flows that differ, and their first stop", ["Flow", "A", "B"], c.differ.map((d) => [name(d.flow, 60), halted(d.a), halted(d.b)])) : "");
  }
  main.append(el("h1", {}, "Backtest"), el("p", {}, "Paste a log, or choose a file of up to 8 MB: events that were downloaded here, or a log of any format that weir reads. It is folded in memory and not kept. ", el("code", {}, "weir replay"), " reads more."),
    el("div", { class: "three" }, el("div", {}, el("label", { for: "log" }, "Log"), log, el("label", { for: "file" }, "or a file "), file), el("div", {}, el("label", { for: "a" }, "Limits A: in force"), a), el("div", {}, el("label", { for: "b" }, "Limits B: change them"), b)),
    el("div", { class: "bar" }, button("Compare", compare)), fault, result);
}
