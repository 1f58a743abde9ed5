// Orders of a person about scopes: all calls, or those of a tenant, an agent, a tool and so on.
import { el, table, clock, plain } from "./dom.js";
import { get, session } from "./api.js";
import { ask, gated, missing, until } from "./act.js";

const kinds = ["agent", "tool", "model", "tenant", "team", "project", "principal", "service", "tree", "flow"];

// text is what an order is about.
const text = (o) => o.scope + (o.within ? ` within ${o.within.join(", ")}` : "") + (o.except ? ` except ${o.except.join(", ")}` : "");

const done = (o) => o.until ? `${text(o)} is not stopped yet: a second person has to confirm it until ${o.until}.` : `${text(o)} is stopped.${o.recorded ? "" : " The order is in force, but it is not recorded yet."}`;
const spans = () => ["Stopped for", until([600, 3600, 86400], 3600)];
const exceptions = () => ["Except (scopes, with spaces between)", el("input", { type: "text", autocomplete: "off", placeholder: "agent:billing tool:ls" })];
const except = (inputs) => ({ except: inputs.except[1].value.split(/\s+/).filter(Boolean) });

// brakes are the buttons that stop all calls, or those of a scope.
export const brakes = (flows, again) => [
  gated(session.no_stop_all, "Stop all flows …", (e) => ask({
    path: "/v1/orders", heading: "Stop all flows", title: "Stop all flows", danger: true, fixed: { scope: "all" }, again, opener: e.target,
    does: [`weir refuses every call from now on, including calls of users and of flows that begin later. It knows ${flows()} flows now.`,
      "Calls continue when you release all, or when the stop expires."],
    confirm: "Stop all flows, also those that do honest work",
    fields: () => ({ for_s: spans(), except: exceptions() }), more: except, done,
  }), true), " ",
  gated(session.no_stop_all, "Stop a scope …", (e) => ask({
    path: "/v1/orders", heading: "Stop a scope", title: "Stop", danger: true, again, opener: e.target,
    does: ["weir refuses every call of the scope from now on, also of flows that begin later. In the value * stands for any text."],
    fields: () => ({ kind: ["Scope", el("select", {}, kinds.map((kind) => el("option", { value: kind }, kind)))],
      value: ["Value", el("input", { type: "text", required: true, autocomplete: "off" })], for_s: spans(), except: exceptions() }),
    more: (inputs) => ({ kind: undefined, value: undefined, scope: `${inputs.kind[1].value}:${inputs.value[1].value}`, ...except(inputs) }), done,
  }), true),
  missing(session.no_stop_all, "Disabled", again),
];

// proved says what a receipt has: who has confirmed the order, and who is missing.
export function proved(r) {
  if (!r) return "no receipt";
  const missing = [...r.missing.map((g) => `${g.guard}: ${g.why}`), ...r.unreached, ...(r.more ? [`${r.more} more guards`] : [])];
  const state = r.complete ? `confirmed by all ${r.guards} guards since ${r.since}` : `${r.guards} of ${r.guards + r.missing.length + (r.more ?? 0)} guards; missing: ${missing.join("; ")}`;
  const f = r.in_flight;
  return state + (f.calls ? `; in flight: ${f.ended} of ${f.calls} ended` : "") + (r.observed_after ? `; calls after the stop: ${r.observed_after}` : "");
}

const receipt = (o, signal) => get(`/v1/orders/${o.id}/receipt`, signal).catch(() => undefined);

// proposed lists the stops that a second person has to confirm.
async function proposed(signal, again) {
  const { proposals } = await get("/v1/order-proposals", signal);
  if (!proposals.length) return [];
  return [el("section", { class: "remark", "aria-labelledby": "proposed" }, el("h2", { id: "proposed" }, "Waits for a second person"),
    table("Stops that a second person has to confirm", ["Scope", "Until", "By", "Reason", ""], proposals.map((o) => [plain(text(o)), clock(o.until), plain(o.by), plain(o.reason),
      gated(session.no_orders, "Confirm …", (e) => ask({ path: `/v1/order-proposals/${o.id}`, heading: `Stop ${plain(text(o))}`, title: "Confirm", danger: true, does: "weir refuses every call of the scope from now on.",
        fields: () => ({}), done, again, opener: e.target }))])))];
}

// standing lists the orders in force, each with its receipt and a button that releases it.
export async function standing(signal, again) {
  const { orders } = await get("/v1/orders", signal), waiting = await proposed(signal, again);
  if (!orders.length) return waiting;
  const receipts = await Promise.all(orders.map((o) => receipt(o, signal)));
  return [...waiting, el("section", { class: "remark", "aria-labelledby": "by-hand" }, el("h2", { id: "by-hand" }, "Stopped by hand"),
    table("The orders of people about scopes that are in force", ["Scope", "Since", "Until", "By", "Reason", "Receipt", ""], orders.map((o, i) => [plain(text(o)), clock(o.since), clock(o.expires_at), plain(o.by), plain(o.reason),
      plain(proved(receipts[i])),
      gated(session.no_orders, "Release …", (e) => ask({ path: `/v1/orders/${o.id}`, method: "DELETE", heading: `Release ${plain(text(o))}`, title: "Release", does: "Calls of the scope may be made again.",
        fields: () => ({}), done: () => `${plain(text(o))} is released.`, again, opener: e.target }))])))];
}
