// Replays a log with two sets of limits, shows the differences, and collects marks of the stops.
import { el, name, number, many, plain, money, button, table, right, say } from "./dom.js";
import { text, upload } from "./api.js";

const sources = [["", "files, or the text below"], ["1h", "this weir's log: the last hour"], ["24h", "this weir's log: the last day"], ["168h", "this weir's log: the last week"], ["0s", "this weir's log: all of it"]];

export default async function ({ main, signal, parameters, remember }) {
  const inForce = await text("/v1/inspect/limits", signal);
  const area = (id, value, rows = 14) => el("textarea", { id, rows, spellcheck: "false", value });
  const a = area("a", inForce), b = area("b", inForce), log = area("log", "", 8);
  const files = el("input", { type: "file", id: "file", multiple: true });
  const folder = el("input", { type: "file", id: "folder", webkitdirectory: true });
  const marked = el("input", { type: "file", id: "marks", accept: ".jsonl" });
  const since = el("select", { id: "since", onchange: () => (remember({ since: since.value }), own()) }, sources.map(([v, t]) => el("option", { value: v, selected: v === parameters.get("since") }, t)));
  const given = el("div", {}, el("label", { for: "file" }, "Files of any size "), files, el("label", { for: "folder" }, "or a folder "), folder, el("label", { for: "log" }, "or text"), log);
  const own = () => (given.hidden = since.value !== "");
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const result = el("div", {}), progress = el("p", { role: "status" });
  const marks = new Map(); // set on this page, by flow

  async function compare(e) {
    e.target.disabled = true;
    fault.hidden = true;
    result.replaceChildren();
    const form = new FormData();
    form.append("a", a.value);
    form.append("b", b.value);
    const said = (marked.files[0] ? await marked.files[0].text() : "") + lines();
    if (said) form.append("marks", said);
    if (since.value) form.append("since", since.value);
    else {
      for (const f of [...files.files, ...folder.files]) form.append("log", f, f.webkitRelativePath || f.name);
      if (log.value.trim()) form.append("log", new Blob([log.value]), "the text");
    }
    try {
      const told = await upload("/v1/inspect/backtest", form, (share) => (progress.textContent = share < 1 ? `${Math.floor(100 * share)} % sent` : "replaying the log"), signal);
      progress.textContent = "";
      show(told);
    } catch (error) {
      progress.textContent = "";
      if (!signal.aborted) {
        fault.hidden = false;
        fault.textContent = plain(error.message);
      }
    }
    e.target.disabled = false;
  }

  const lines = () => [...marks].map(([flow, mark]) => JSON.stringify({ flow, mark, at: new Date().toISOString() }) + "\n").join("");
  function save() {
    const url = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
    el("a", { href: url, download: "review.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    say(`${many(marks.size, "mark")} saved.`);
  }
  const mark = (flow, was) => {
    const buttons = ["right", "wrong"].map((word) => button(word, () => press(word), { "aria-label": `the stop of ${plain(flow)} is ${word}` }));
    const press = (word) => {
      if (word) marks.set(flow, word);
      buttons.forEach((x) => x.setAttribute("aria-pressed", x.textContent === (marks.get(flow) ?? was)));
    };
    press();
    return el("div", { class: "pair" }, buttons);
  };

  const outcome = (o) => (o.when ? `${o.outcome} by ${plain(o.when.rule)} at call ${number(o.when.call)}` : o.outcome);
  function show({ a, b, differ, differences, logs, stopped_again: again, missed, seconds }) {
    const after = (r) => [`${number(r.calls_after_stop)} of ${number(r.calls)} calls`, r.tokens && `${number(r.tokens_after_stop)} of ${number(r.tokens)} tokens`, r.cost_micro_usd && `${money(r.cost_after_stop_micro_usd / 1e6)} of ${money(r.cost_micro_usd / 1e6)}`].filter(Boolean).join(", ");
    const rules = b.rules.map((x, i) => [a.rules.find((y) => y.rule === x.rule), x]).filter(([x, y]) => [x, y].some((r) => r && (r.flows_stopped || r.flows_warned)));
    const formats = Object.entries(Object.groupBy(logs, (l) => l.format || "skipped: unknown format")).map(([f, list]) => `${number(list.length)} as ${plain(f)}`).join(", ");
    result.replaceChildren(el("h2", {}, differ ? `${number(differ)} of ${number(b.flows)} flows differ` : "No flow differs"),
      el("p", { class: "faint" }, `${number(b.events)} events in ${seconds.toFixed(1)} s · ${formats}${b.bad_records ? ` · ${number(b.bad_records)} records not read` : ""}. A is ${a.config_version}, B is ${b.config_version}.`),
      again?.length ? el("p", { class: "fault", role: "alert" }, "B stops flows that are marked wrong: ", again.map((f, i) => [i ? ", " : "", name(f, 60)])) : "",
      missed?.length ? el("p", {}, "B does not stop flows that are marked right: ", missed.map((f, i) => [i ? ", " : "", name(f, 60)])) : "",
      table("Total", ["Outcome", "A", "B"], [["Flows stopped", right(number(a.flows_stopped)), right(number(b.flows_stopped))], ["Flows warned, including stopped ones", right(number(a.flows_warned)), right(number(b.flows_warned))], ["After a stop", right(after(a)), right(after(b))]].map(([h, ...cells]) => [el("th", { scope: "row" }, h), ...cells])),
      rules.length ? table("Flows that each rule was the first to stop or warn about", ["Rule", "Stopped by A", "by B", "Warned by A", "by B", "p50", "p99", "Greatest"], rules.map(([x, y]) => [el("th", { scope: "row" }, y.rule), right(number(x?.flows_stopped ?? 0)), right(number(y.flows_stopped)), right(number(x?.flows_warned ?? 0)), right(number(y.flows_warned)), right(number(y.p50)), right(number(y.p99)), right(number(y.max))])) : el("p", {}, "Neither set of limits warns about or stops a flow."),
      ...(b.blind ?? []).map((x) => el("p", {}, el("strong", {}, "Not reported: "), `${x.what} in ${number(x.told)} of ${number(x.of)} ${x.in}; ${[x.rules?.length ? `these rules cannot judge: ${x.rules.join(", ")}` : "", x.only_warn ? `these only warn, and late: ${x.only_warn.join(", ")}` : ""].filter(Boolean).join("; ")}`)),
      differ ? table(`Flows that differ${differ > differences.length ? `, the first ${number(differences.length)}` : ""}`, ["Flow", "Calls", "A", "B"], differences.map((d) => [name(d.flow, 60), right(number(d.calls)), outcome(d.was), outcome(d.is)])) : "",
      b.exempted?.length ? table("Allowed by the exemptions of B", ["Flow", "Rule", "At call", "Calls after", "Why"], b.exempted.map((s) => [name(s.flow, 40), plain(s.rule), right(`${number(s.call)} of ${number(s.calls)}`), right(number(s.calls_after)), plain(s.message)])) : "",
      ...(b.stops.length ? [el("h2", {}, "Review the stops of B"), el("p", {}, "The next comparison uses your marks. Save them as the file that ", el("code", {}, "weir backtest --marks"), " and ", el("code", {}, "weir limits suggest --marks"), " read, and as a test: ", el("code", {}, "weir backtest LOG --marks review.jsonl --check"), " fails if a flow that is marked wrong is stopped again."),
        table("Stops, those with the most calls after them first", ["Flow", "Rule", "At call", "Calls after", "Why", "The stop is"], b.stops.map((s) => [name(s.flow, 40), plain(s.rule), right(`${number(s.call)} of ${number(s.calls)}`), right(number(s.calls_after)), plain(s.message), mark(s.flow, s.mark)])), button("Save review.jsonl", save)] : []));
  }
  main.append(el("h1", {}, "Backtest"), el("p", {}, "Compare two sets of limits on the log of this weir, or on files of any format that weir reads. weir does not keep the files."),
    el("div", { class: "three" }, el("div", {}, el("label", { for: "since" }, "Log"), since, given, el("label", { for: "marks" }, "Marks of an earlier review (review.jsonl; GET /v1/marks has those of this weir) "), marked),
      el("div", {}, el("label", { for: "a" }, "Limits A: in force"), a), el("div", {}, el("label", { for: "b" }, "Limits B: edit them"), b)),
    el("div", { class: "bar" }, button("Compare", compare, { class: "main" }), progress), fault, result);
  own();
}
