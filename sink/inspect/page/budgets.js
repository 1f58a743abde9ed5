// What is spent, reserved and left of the budgets over flows.
import { el, name, number, money, moment, badge, usage, table, right, say, button, copy } from "./dom.js";
import { get, every } from "./api.js";

const most = 1000;
const words = { ok: "active", near: "warned", used_up: "stopped" };
const amount = (v, n) => (n === undefined ? "–" : v.unit === "usd" ? money(n) : `${number(n)} ${v.unit}`);
const heads = ["Budget", "Scope", "Value", "State", "Spent", "Reserved", "Left", "Limit", "Used", "Window", "Ends", "Refused", "Window before"];

const example = `budgets:
- name: team-day
  scope: team        # each team has an account of its own
  window: day
  hard: 50           # US dollars`;

// empty is what to do before a budget has an account.
const empty = () => el("section", { class: "empty", "aria-label": "First steps" }, el("h2", {}, "No budget has an account yet"),
  el("p", {}, "Write a budget in the limits file. An account appears with the first event that names its team, tenant, agent or tool."),
  el("pre", { tabindex: 0, "aria-label": "A budget in the limits file" }, example),
  el("p", { class: "bar" }, button("Copy the example", (e) => copy(example, e.target)), el("a", { href: "/ui/limits" }, "The limits in force")));

const row = (v) => [name(v.budget, 48), v.scope, name(v.value, 44), badge(words[v.state] ?? v.state), right(amount(v, v.spent)), right(amount(v, v.reserved)), right(amount(v, v.left)),
  right([amount(v, v.limit), v.granted ? ` (${amount(v, v.granted)} granted)` : ""]), v.limit ? usage((v.spent + v.reserved) / v.limit, `used of ${v.budget}`) : "–", v.window, v.end ? moment(v.end) : "rolling",
  right(number(v.refused)), right(v.before ? amount(v, v.before.spent) : "–")];

export default async function ({ main, signal }) {
  const count = el("p", { class: "faint", id: "count" }), list = el("div", {});
  main.append(el("h1", {}, "Budgets"), el("p", { class: "faint" }, "What flows spend together, by the budgets of the limits file. weir budgets grant gives an account more."), count, list);
  let said = "";
  async function load() {
    const found = await get(`/v1/budgets?limit=${most}`, signal);
    const now = JSON.stringify(found.budgets);
    if (now === said) return;
    said = now;
    count.textContent = `${number(found.budgets.length)} shown${found.truncated ? ", those of which the greatest share is spent" : ""}`;
    list.replaceChildren(found.budgets.length ? table("Budgets", heads, found.budgets.map(row)) : empty());
  }
  await load();
  every(() => load().then(() => say(""), () => signal.aborted || say("weir is unreachable; retrying")), signal);
}
