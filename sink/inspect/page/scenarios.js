// Plays the cases of the rule book, with other limits if wanted. It never touches the live store.
import { el, plain, button, badge, spoken, short, copy, number } from "./dom.js";
import { get, post, query } from "./api.js";
import { diagram, asList, sentence } from "./diagram.js";

const systems = { gateway: "Gateway", delegation: "Delegation guard", team: "Team loops", task: "Task caps", behaviour: "Behaviour", rule: "Single rules" };
const systemOf = (file) => systems[file.split("_")[0]] ?? "Others";

export default async function ({ main, signal, parameters, remember }) {
  const book = await get("/v1/inspect/scenarios", signal);
  const order = Object.values(systems).concat("Others");
  book.sort((a, b) => order.indexOf(systemOf(a.file)) - order.indexOf(systemOf(b.file)));
  const key = (s) => `${s.file}:${s.line}`;
  let chosen = book.find((s) => key(s) === parameters.get("case")) ?? book.find((s) => s.file === "gateway_s2") ?? book[0];

  const filter = el("input", { type: "search", "aria-label": "Filter scenarios", placeholder: "filter", value: parameters.get("q") ?? "", oninput: () => (remember({ q: filter.value }), list()) });
  const select = el("select", { id: "case", size: 12, onchange: () => choose(book.find((s) => key(s) === select.value)) });
  const events = el("textarea", { id: "events", rows: 12, spellcheck: "false" });
  const limits = el("textarea", { id: "limits", rows: 12, spellcheck: "false" });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const result = el("div", {});

  function list() {
    const text = filter.value.toLowerCase();
    const groups = Map.groupBy ? Map.groupBy(book.filter((s) => (s.title + s.file).toLowerCase().includes(text)), (s) => systemOf(s.file)) : new Map([["All", book]]);
    select.replaceChildren(...[...groups].map(([system, cases]) => el("optgroup", { label: system }, cases.map((s) => el("option", { value: key(s), selected: s === chosen }, short(s.title, 110))))));
  }
  function choose(s) {
    chosen = s;
    remember({ case: key(s) });
    [events.value, limits.value] = [s.text, ""];
    play();
  }

  // An answer that came after another choice is dropped: it would show the limits of one case
  // beside another case.
  let latest = 0;
  async function play() {
    const asked = ++latest;
    fault.hidden = true;
    try {
      const played = await post("/v1/inspect/play", { text: events.value, limits: limits.value }, signal);
      if (asked !== latest) return;
      if (!limits.value) limits.value = played.limits;
      show(played);
    } catch (error) {
      if (signal.aborted || asked !== latest) return;
      fault.hidden = false;
      fault.textContent = plain(error.message);
      result.replaceChildren();
    }
  }

  let timer;
  signal.addEventListener("abort", () => clearInterval(timer));
  function show(played) {
    clearInterval(timer);
    const total = played.steps.length;
    let at = total;
    const picture = diagram(played, { pick: (n) => seek(n) });
    const slider = el("input", { type: "range", id: "step", min: 0, max: total, value: total, oninput: () => seek(Number(slider.value)) });
    slider.value = total;
    const speed = el("select", { "aria-label": "Speed", onchange: () => timer && run() }, [["2", 500], ["5", 200], ["20", 50]].map(([n, ms]) => el("option", { value: ms }, `${n} events a second`)));
    const place = el("output", { for: "step" });
    const toggle = button("Play", () => (timer ? halt() : run(at === total)));
    const said = el("ol", { class: "timeline" });
    const halt = () => (clearInterval(timer), (timer = undefined), (toggle.textContent = "Play"));
    const run = (again) => {
      clearInterval(timer);
      if (again) seek(0);
      toggle.textContent = "Pause";
      timer = setInterval(() => (at < total ? seek(at + 1) : halt()), Number(speed.value));
    };
    function seek(n) {
      at = Math.max(0, Math.min(total, n));
      slider.value = at;
      slider.setAttribute("aria-valuetext", at ? sentence(played.steps[at - 1]) : "before the first event");
      place.textContent = `${number(at)} of ${number(total)}${at ? " · " + sentence(played.steps[at - 1]) : ""}`;
      picture.mark(at);
      said.replaceChildren(...played.said.filter((s) => s.step <= at || at === total).map((s) => el("li", {}, s.step > total ? "later" : `#${s.step}`, " ", badge(spoken(s)), " ", plain(s.verdict.message ?? s.verdict.reason_code))));
    }
    const diff = played.diff?.split("\n").filter(Boolean) ?? [];
    result.replaceChildren(el("h2", {}, plain(played.title)),
      el("div", { class: "scrubber" }, el("label", { for: "step" }, "Event "), toggle, button("Step", () => seek(at + 1)), slider, speed, place),
      el("div", { class: "two wide-left" }, el("div", {}, picture.node, asList(played)), el("div", {}, el("h3", {}, "Verdicts"), said,
        el("h3", {}, diff.length ? "Differs from what the case expects" : "As the case expects"),
        el("pre", { tabindex: 0, "aria-label": "Outcome" }, diff.length ? diff.map((l) => [el(l[0] === "-" ? "del" : l[0] === "+" ? "ins" : "span", {}, plain(l)), "\n"]) : played.got.map((l) => plain(l) + "\n")))));
    seek(total);
  }

  main.append(el("h1", {}, "Scenarios"), el("p", {}, "Cases that describe what weir stops and what it allows. Change the events or the limits and play a case again. It runs in memory, apart from the live flows."),
    el("div", { class: "three" }, el("div", {}, el("label", { for: "case" }, "Scenario"), filter, select), el("div", {}, el("label", { for: "events" }, "Events (.flow)"), events), el("div", {}, el("label", { for: "limits" }, "Limits"), limits)),
    el("div", { class: "bar" }, button("Play it", play), button("Reset", () => choose(chosen)), button("Copy as .flow", (e) => copy(events.value, e.target)), button("Copy link", (e) => copy(location.href, e.target))), fault, result);
  list();
  choose(chosen);
}
