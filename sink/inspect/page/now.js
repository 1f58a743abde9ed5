// What happens at this moment: counts, what is said, and who is nearest to a limit.
import { el, badge, spoken, clock, flowLink, subject, number, many, plain, say, button, table, right } from "./dom.js";
import { urgency, nearest } from "./flows.js";
import { get, follow, every } from "./api.js";
import { begin } from "./begin.js";
import { brakes, standing as standingByHand } from "./byhand.js";
import { waiting } from "./waiting.js";
import { charts } from "./charts.js";

const kept = 100; // verdicts of the feed
const counted = 5000; // verdicts that the counts of the last minutes begin with

const stops = ["deny", "halt", "hold", "throttle"]; // actions that refuse calls

// incident is what verdicts are grouped by; those of an older weir by whom they are about.
const incident = (v) => v.incident_id || v.correlation_id || `${v.scope?.kind} ${v.scope?.id}`;

export default async function ({ main, signal, go }) {
  const cards = {};
  const card = (key, title) => (cards[key] = el("dd", {}, "…"), el("div", { class: "card" }, el("dt", {}, title), cards[key]));
  const feed = el("ol", { class: "feed" });
  const quiet = el("p", { class: "faint" }, "No verdicts yet. weir writes one when a flow comes near a limit.");
  const told = el("p", { class: "unseen", "aria-live": "polite" });
  const state = el("span", { class: "faint" }, "connecting");
  let paused = false;
  const pause = button("Pause", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) draw();
  }, { "aria-pressed": "false" });
  let flows = "0";
  const trend = charts();
  const near = el("div", {}), start = el("div", {}), degraded = el("div", { "aria-live": "polite" }), byHand = el("div", {});
  main.append(el("h1", {}, "Now"), degraded, byHand, start, el("dl", { class: "cards" }, card("flows", "Flows"), card("stopped", "Stopped now"), card("orders", "Stops in 5 min"),
    card("warnings", "Incidents in 5 min"), card("stuck", "Stuck agents"), card("lag", "Events to fold"), card("self", "Self-test")),
  el("div", { class: "bar" }, brakes(() => flows, () => go("/ui/", { replace: true }))), trend.node,
  el("div", { class: "two" }, el("section", { "aria-labelledby": "said" }, el("h2", { id: "said" }, "Verdicts ", state), el("p", {}, pause), quiet, feed, told),
    el("section", { "aria-labelledby": "nearest" }, el("h2", { id: "nearest" }, "Nearest to a limit"), near)));

  // The feed is drawn at most four times a second, however much is said.
  let verdicts = [], fresh = 0, due = 0, spoke = 0;
  const times = { stop: [], warn: [] };
  function draw() {
    due = 0;
    const since = Date.now() - 300_000;
    for (const list of Object.values(times)) while (list.length && list[0].at < since) list.shift();
    const incidents = (...lists) => number(new Set(lists.flat().map((x) => x.incident)).size);
    cards.orders.textContent = incidents(times.stop);
    cards.warnings.textContent = incidents(times.stop, times.warn);
    if (paused || signal.aborted) return;
    drawFeed();
    quiet.hidden = verdicts.length > 0;
    if (fresh && Date.now() - spoke > 5000) {
      told.textContent = `${fresh} new. ${plain(verdicts[0].message ?? verdicts[0].reason_code)}`;
      [fresh, spoke] = [0, Date.now()];
    }
  }
  // The feed has one entry for each incident: its last verdict, with the earlier ones folded.
  const open = new Set();
  function drawFeed() {
    const groups = Map.groupBy(verdicts, incident);
    feed.replaceChildren(...[...groups].map(([key, [last, ...earlier]]) => {
      const entry = line(last);
      if (earlier.length) entry.append(el("details", { open: open.has(key), ontoggle: (e) => (e.target.open ? open.add(key) : open.delete(key)) },
        el("summary", {}, many(earlier.length, "earlier verdict")), el("ol", { class: "feed" }, earlier.map(line))));
      return entry;
    }));
  }
  const line = (v) => el("li", {}, clock(v.time), " ", badge(spoken({ verdict: v })), " ", subject(v, 32),
    v.rule_id && [" ", plain(v.rule_id)], el("br"),
    el("span", { class: "faint" }, plain(v.message ?? v.reason_code)));
  follow(-counted, {
    signal,
    state: (text) => (state.textContent = text),
    verdict(v) {
      fresh++;
      const at = Date.parse(v.time);
      if (v.action !== "allow") times[stops.includes(v.action) ? "stop" : "warn"].push({ at, incident: incident(v) });
      verdicts = [v, ...verdicts.slice(0, kept - 1)];
      due ||= setTimeout(draw, 250);
    },
  }).catch((e) => (state.textContent = plain(e.message)));

  async function load() {
    const [list, agents, minutes] = await Promise.all([get("/v1/flows?sort=near&limit=1000", signal), get("/v1/agents?stuck=1&limit=1", signal), get("/v1/inspect/trend", signal)]);
    trend.show(minutes);
    byHand.replaceChildren(...await standingByHand(signal, load), ...await waiting(signal));
    flows = number(list.scanned) + (list.truncated ? "+" : "");
    cards.stuck.replaceChildren(el("a", { href: "/ui/agents?stuck=1" }, number(agents.stuck) + (agents.truncated ? "+" : "")));
    cards.flows.textContent = number(list.scanned) + (list.truncated ? "+" : "");
    const statuses = list.statuses ?? {};
    // What is held waits for a person; its calls are refused like those of what is stopped.
    const standing = (status, text = "") => el("a", { href: `/ui/flows?status=${status}` }, number(statuses[status] ?? 0) + (list.truncated ? "+" : "") + text);
    cards.stopped.replaceChildren(standing("stopped"), ...(statuses.held ? [" and ", standing("held", " held")] : []));
    const empty = list.flows.length === 0;
    if (!empty) start.replaceChildren();
    else if (!start.firstChild) start.append(begin("No events yet"));
    near.replaceChildren(empty ? el("p", { class: "faint" }, "No flows yet.")
      : table("The flows that have used up most of a limit", ["Flow", "Status", "Limit"],
        list.flows.sort((a, b) => urgency(b) - urgency(a)).slice(0, 20).map((f) => [flowLink(f.flow, 40), badge(f.status), el("span", { class: "whole" }, nearest(f))])));
    // readyz answers 503 when weir is not ready, and says why.
    const ready = await (await fetch("/readyz", { signal })).json();
    cards.lag.textContent = number(ready.lag_records);
    cards.self.textContent = !ready.self_test ? "off" : ready.self_test.ok ? "✓ ok" : "▲ waiting";
    degraded.replaceChildren(...(ready.degraded ?? []).map(mode), ...(ready.misplaced_records ?? []).map(misplaced));
    if (!ready.ready) say(`Not ready: ${ready.why.join("; ")}`);
  }
  // mode says that calls are not judged as in quiet times.
  const mode = (m) => el("p", { class: "remark" }, el("strong", {}, "Degraded mode"), m.since ? [" since ", clock(m.since)] : "", ": ",
    m.reason === "load" ? "there is more to do than load.high, and limits have shrunk (load.percent)."
      : "the fold is behind. Calls that are asked for are answered by what was folded last, with limits of their own (degraded).",
    ` Partitions: ${m.partitions.join(", ")}.`);
  // misplaced says that records of a topic may split flows, and what to change.
  const faults = { no_key: "have no key", other_key: "have a key that is not their correlation_id", other_partition: "are not in the partition of their key" };
  const misplaced = (m) => el("p", { class: "remark" }, el("strong", {}, "Flows may be split"), `: ${many(m.records, "record")} ${faults[m.reason] ?? m.reason}, so weir stops their flows late or never. Fix: ${m.fix}.`);
  draw();
  await load();
  every(() => load().catch(() => say("weir is unreachable; retrying")), signal);
}
