// What is spent, reserved and left of the budgets over flows.
import { el, name, number, money, moment, badge, usage, table, right, say } from "./dom.js";
import { get, every } from "./api.js";

const most = 1000;
const words = { ok: "active", near: "warned", used_up: "stopped" };
const amount = (v, n) => (n === undefined ? "–" : v.unit === "usd" ? money(n) : `${number(n)} ${v.unit}`);
const heads = ["Budget", "Scope", "Value", "State", "Spent", "Reserved", "Left", "Limit", "Used", "Window", "Ends", "Refused", "Window before"];

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
    list.replaceChildren(found.budgets.length ? table("Budgets", heads, found.budgets.map(row)) : el("p", {}, "Nothing counts for a budget yet. Write budgets in the limits file, and send events that name a tenant, a team or whatever else a budget is for."));
  }
  await load();
  every(() => load().then(() => say(""), () => signal.aborted || say("weir is unreachable; retrying")), signal);
}
