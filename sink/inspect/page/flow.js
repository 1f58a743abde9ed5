// One flow: why it stands as it stands, and how it came to that, event by event.
import { el, name, badge, spoken, number, many, usage, plain, ago, clock, moment, button, copy, short, table, right, say, agentLink, money } from "./dom.js";
import { get, lines, text, query, every } from "./api.js";
import { actions as orders, mark } from "./act.js";
import { diagram, asList, asMermaid, sentence } from "./diagram.js";
import { incidents, whyIncident, explainCommand } from "./why.js";
import { begin } from "./begin.js";
import { costsOf } from "./costs.js";

// A page that was opened before the first event of its flow keeps itself current for this long, in ms, or until
// it shows a stop: its reader waits for events and has nothing to read yet.
const first = 60_000;
let waiting = { flow: "", until: 0 };

export default async function ({ main, signal, parameters, remember, go }) {
  const flow = parameters.get("id") ?? "";
  const all = parameters.get("all") === "1" ? "1" : "";
  const path = `/v1/inspect/timeline?${query({ flow, all })}`;
  const story = await get(path, signal).catch((error) => {
    if (error.status !== 404 || flow.length > 256) throw error; // no event can have a longer id
  });
  if (!story) {
    main.append(el("h1", {}, "Flow ", name(flow, 80)), begin("weir has no event of this flow"),
      el("p", {}, "Check the correlation_id that the producer sends, or look for it in ", el("a", { href: "/ui/flows" }, "all flows"), ". This page shows the flow when its first event arrives."));
    const arrived = ({ flows }) => {
      if (signal.aborted || !flows.some((f) => f.flow === flow)) return;
      waiting = { flow, until: Date.now() + first };
      go(location.pathname + location.search, { replace: true });
    };
    every(() => get(`/v1/flows?${query({ q: flow })}`, signal).then(arrived, () => {}), signal);
    return;
  }
  const total = story.steps.length;
  const wanted = parameters.get("at");
  let at = wanted === null ? total : Math.max(0, Math.min(total, Number(wanted) || 0));

  // The events before the first step were folded, too: their ordinals come first.
  const skipped = Math.max(0, story.view.events - story.counted);
  const byOrdinal = new Map(story.steps.filter((s) => !s.repeat).map((s) => [s.ordinal + skipped, s.n]));
  const link = (ordinal, shift) => {
    const n = byOrdinal.get(ordinal + shift);
    if (!n) return el("span", {}, `#${ordinal}`);
    return button(`#${n}`, () => seek(n), { class: "link", title: sentence(story.steps[n - 1]) });
  };

  const heading = el("h1", {}, "Flow ", name(flow, 80));
  const facts = el("p", {}), told = el("dl", { class: "facts" });
  const reload = () => go(location.pathname + location.search, { replace: true });
  const news = el("span", { role: "status" });
  const reasons = el("section", { "aria-labelledby": "why" });
  const stack = el("nav", { "aria-label": "Call stack", class: "stack" });
  const counters = el("div", {});
  const copyTest = async (e) => {
    const button = e.target;
    try {
      await copy(await text(`/v1/inspect/case?${query({ flow, all })}`, signal), button);
    } catch (error) {
      say(plain(error.message));
    }
  };
  const [about, marks] = await Promise.all([get("/v1/inspect/rules", signal), lines("/v1/marks", signal).catch(() => [])]);
  const judged = marks.findLast((m) => m.flow === flow);
  const stopped = story.view.status === "stopped" || story.view.status === "held" || story.view.offences?.length > 0;
  const acts = el("div", { class: "bar" }, orders(flow, reload, stopped && mark(flow, reload)), judged && el("span", {}, `Marked ${judged.mark} by ${plain(judged.by ?? "")}: ${plain(judged.reason ?? "")}`));
  const actions = el("div", { class: "bar" }, button("Copy link", (e) => copy(location.href, e.target)),
    button("Download events", () => download().catch((error) => say(plain(error.message)))),
    button("Copy as .flow test", copyTest), button("Copy weir explain", (e) => copy(explainCommand(flow), e.target)),
    button("Copy as Mermaid", (e) => copy(asMermaid(story), e.target)), news);

  async function download() {
    const body = await text(`/v1/inspect/events?${query({ flow, limit: 100000, all })}`, signal);
    const url = URL.createObjectURL(new Blob([body], { type: "application/x-ndjson" }));
    el("a", { href: url, download: `${flow.replace(/[^\w.-]+/g, "_").slice(0, 80) || "flow"}.jsonl` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  const slider = el("input", { type: "range", id: "at", min: 0, max: total, step: 1, oninput: () => seek(Number(slider.value)) });
  slider.value = at;
  const place = el("output", { for: "at" });
  const scrubber = el("div", { class: "scrubber" }, el("label", { for: "at" }, "As of event "), button("◀", () => seek(at - 1), { "aria-label": "One event back" }), slider,
    button("▶", () => seek(at + 1), { "aria-label": "One event on" }), button("End", () => seek(total)), place);
  const begun = performance.now();
  const picture = diagram(story, { pick: (n) => seek(n) });
  performance.measure("diagram", { start: begun });
  // One entry for each incident: its last verdict, with its history folded.
  const said = (s) => [button(s.step > total ? "later" : `#${s.step}`, () => seek(Math.min(total, s.step)), { class: "link" }), " ", clock(s.verdict.time), " ",
    badge(spoken(s)), " ", plain(s.verdict.rule_id ?? ""), el("br"), el("span", { class: "faint" }, plain(s.verdict.message ?? s.verdict.reason_code))];
  const timeline = el("ol", { class: "timeline" }, incidents(story.said, (s) => s.verdict).map((list) => el("li", {}, said(list.at(-1)),
    list.length > 1 && el("details", {}, el("summary", {}, many(list.length - 1, "earlier verdict")), el("ol", { class: "timeline" }, list.slice(0, -1).reverse().map((s) => el("li", {}, said(s))))))));

  main.append(heading, facts, told, acts, actions, costsOf(flow, signal), el("div", { class: "two story" },
    el("div", {}, reasons, stack, el("section", { "aria-labelledby": "counters" }, el("h2", { id: "counters" }, "Counters against limits"), counters),
      el("section", { "aria-labelledby": "timeline" }, el("h2", { id: "timeline" }, "Verdicts"), story.said.length ? timeline : el("p", { class: "faint" }, "No verdicts yet."))),
    el("section", { "aria-labelledby": "calls" }, el("h2", { id: "calls" }, "Calls"), scrubber, story.truncated && el("p", {}, `Only the first ${number(total)} events are shown.`), picture.node, asList(story),
      !all && el("p", {}, el("a", { href: `/ui/flow?${query({ id: flow, all: "1" })}` }, "All events in the log, including earlier episodes")))));

  // seek goes to an event. What the flow was then is folded again on the server; while
  // the slider moves only the last place is asked for.
  let asking = false, missed = false;
  function seek(n) {
    at = Math.max(0, Math.min(total, n));
    slider.value = at;
    slider.setAttribute("aria-valuetext", at ? `event ${at}: ${sentence(story.steps[at - 1])}` : "before the first event");
    place.textContent = `${number(at)} of ${number(total)}${at ? " · " + sentence(story.steps[at - 1]) : ""}`;
    remember({ at: at === total ? "" : String(at) });
    picture.mark(at);
    refold();
  }
  async function refold() {
    if (at === total) {
      show(story.view, 0);
      return;
    }
    if (asking) {
      missed = true;
      return;
    }
    asking = true;
    try {
      const asked = at;
      const view = await get(`/v1/inspect/view?${query({ flow, all, at: String(asked) })}`, signal);
      if (at === asked) show(view, skipped);
    } catch (error) {
      if (!signal.aborted) say(plain(error.message));
    }
    asking = false;
    if (missed) {
      missed = false;
      refold();
    }
  }

  function show(view, shift) {
    const then = at < total;
    facts.replaceChildren(badge(view.status), ` · ${many(view.events, "event")} · ${many(view.hops, "call")} between ${many(view.parties?.length ?? 0, "agent")} · ${many(view.tool_calls, "tool call")}`,
      view.episode > 1 ? ` · episode ${view.episode}` : "", view.incomplete ? " · first events are missing" : "",
      then ? el("strong", {}, ` · as of event ${at}, replayed with the limits in force`) : "");
    const rows = [];
    const row = (term, ...content) => content.flat().some(Boolean) && rows.push(el("dt", {}, term), el("dd", {}, content));
    row("Agents", (view.parties ?? []).map((p, i) => [i ? ", " : "", agentLink(p.name, 30)]));
    row("Sources", story.sources.filter(Boolean).map((s, i) => [i ? ", " : "", name(s, 40)]));
    row("Time", view.start && [moment(view.start), " to ", moment(view.last), " (", ago(view.last), ")"]);
    row("Tokens", view.tokens && number(view.tokens));
    row("Cost", view.cost_usd && money(view.cost_usd));
    row("Contexts", (view.parties ?? []).filter((p) => p.context).map(({ name: of, context: c }, i) => [i ? el("br") : "", name(of, 30), `: ${number(c.tokens)} tokens, ${Math.round(c.cached_share * 100)} % from the cache, ${number(c.slope_tokens)} more with each call`,
      c.next_call_usd ? `; the next call costs ${money(c.next_call_usd)}` : "", c.times_first_calls ? `; ${number(c.times_first_calls)} times the first calls` : ""]));
    const limited = (n, most, unit) => `${number(n)}${most ? ` of ${number(most)}` : ""} ${unit}`;
    row("Subagents", (view.parties ?? []).filter((p) => p.subagent).map(({ name: of, subagent: j }, i) => [i ? el("br") : "", name(of, 30), `: ${limited(j.calls, j.max_calls, "calls")}, ${limited(j.tokens, j.max_tokens, "tokens")}, ${limited(j.seconds, j.max_seconds, "s")}`,
      j.cost_usd || j.max_cost_usd ? `, ${money(j.cost_usd)}${j.max_cost_usd ? ` of ${money(j.max_cost_usd)}` : ""}` : "", " since it was called"]));
    const amount = (x, v) => x.unit === "usd" ? money(v) : `${number(v)} tokens`;
    row("Forecast", (view.forecast ?? []).map((x, i) => [i ? el("br") : "", x.high
      ? `${amount(x, x.expected)} in the end, 90 % between ${amount(x, x.low)} and ${amount(x, x.high)}, by ${many(x.runs, "good run")}${x.limit ? `; the budget is ${amount(x, x.limit)}` : ""}`
      : `unknown by ${x.unit}: ${many(x.runs, "good run")} made as many calls`]));
    row("Not reported", plain(story.blind));
    told.replaceChildren(...rows);
    const orders = view.orders ?? [];
    const reasonsOf = incidents(orders).map((list) => whyIncident(list, (o) => ({ about: about[o.rule_id], stepLink: (n) => link(n, shift) }))).toSorted(([a], [b]) => b - a);
    reasons.replaceChildren(el("h2", { id: "why" }, orders.length ? "Why" : "No active order"), ...reasonsOf.map(([, node]) => node),
      ...(!orders.length && view.work_unknown?.length && view.hops > 1 ? [el("p", {}, `Whether work was done before its calls is unknown, so ${view.work_unknown.join(", ")} do not count them.`)] : []),
      ...(view.only_warn && view.hops > 1 ? [el("p", {}, `Whether agents worked is unknown, so these rules only warn, and late: ${view.only_warn.join(", ")}.`)] : []),
      ...(view.stray_answers ? [el("p", {}, `${many(view.stray_answers, "answer")} (agent.return) matched no call: from is the agent that answers, to its caller, each named as in its agent.call.`)] : []),
      ...(view.missing ?? []).map((x) => el("p", {}, `The log does not report ${x.what}: ${x.rules.join(", ")} cannot be judged.`)),
      ...(view.exempt ? [el("p", {}, `Its tags exempt it from ${view.exempt.join(", ")}.`)] : []),
      ...(view.waited_s ? [el("p", {}, `It was held for ${number(Math.round(view.waited_s))} s, waiting for a person. This time does not count as its age.`)] : []),
      ...(view.grants ?? []).map((g) => el("p", {}, `A person ${g.more ? "granted more" : "set another limit"} of ${g.rule}${g.limit ? `: ${g.unit === "usd" ? money(g.limit) : `${number(g.limit)} ${g.unit}`}` : ""}`, ...(g.given ? [", ", moment(g.given)] : []), ", until ", moment(g.until))),
      ...(view.released_until ? [el("p", {}, "Released by an operator until ", moment(view.released_until))] : []),
      ...(view.offences ?? []).filter((o) => !orders.some((x) => x.rule_id === o.rule)).map((o) => el("p", {}, `It was stopped for ${o.rule} before, last `, ago(o.last), ".")));
    stack.replaceChildren(el("span", { class: "faint" }, "Call stack: "), ...(view.stack?.length ? [el("ol", {}, view.stack.map((s) => el("li", {}, name(s, 30))))] : ["empty"]));
    const list = (view.counters ?? []).filter((c) => c.limit || c.warn || c.observed).sort((a, b) => b.near - a.near);
    counters.replaceChildren(table("Counters", ["Rule", "Observed", "Warn", "Limit", "Used"], list.map((c) => [
      el("th", { scope: "row", title: about[c.rule] }, c.rule), right(number(c.observed)), right(c.warn ? number(c.warn) : "–"), right(c.limit ? number(c.limit) : "–"), c.near ? usage(c.near, `${c.rule} used`) : "–"])));
  }
  main.addEventListener("move", (e) => seek(at + e.detail), { signal });
  // The page does not change while it is read; a button announces new events.
  every(async () => {
    const now = await get(`/v1/inspect/flow?${query({ flow })}`, signal).catch(() => story.view);
    const more = now.events - story.view.events;
    if (more > 0 && !signal.aborted && !stopped && at === total && waiting.flow === flow && Date.now() < waiting.until) reload();
    else if (more > 0 && !signal.aborted) news.replaceChildren(button(`${many(more, "new event")}: show ${more === 1 ? "it" : "them"}`, reload));
    // Its tree may be stopped, or granted more, without an event of its own.
    else if (now.status !== story.view.status && !signal.aborted) news.replaceChildren(button(`The flow is ${now.status} now: show why`, reload));
    else news.replaceChildren();
  }, signal);
  document.title = `${short(flow, 30)} · weir`;
  seek(at);
}
