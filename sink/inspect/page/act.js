// Orders of a person about one flow or all flows. Buttons are disabled, with the reason, if this
// browser may not give orders.
import { el, plain, button, say, name } from "./dom.js";
import { order, query, session } from "./api.js";
import { openSignIn } from "./account.js";

const spans = { 600: "10 minutes", 3600: "1 hour", 86400: "1 day" };

const field = (id, label, input) => [el("label", { for: id }, label), Object.assign(input, { id })];
const amount = (step) => el("input", { type: "number", min: 0, step });
export const until = (seconds, chosen) => el("select", {}, seconds.map((s) => el("option", { value: s, selected: s === chosen }, spans[s])));

const acts = {
  stop: {
    title: "Stop", danger: true, does: "weir refuses every call of the flow from now on, including calls of users.",
    fields: () => ({ for_s: ["Stopped for", until([600, 3600, 86400], 86400)] }), done: "The flow is stopped",
  },
  release: {
    title: "Release", does: "weir lifts all orders of the flow and does not stop it again during the time below.",
    fields: () => ({ for_s: ["Not stopped for", until([600, 3600, 86400], 600)] }), done: "The flow is released",
  },
  grant: {
    title: "Grant more", does: "The budgets of the flow grow by these amounts. Rules about loops do not change.",
    fields: () => ({ calls: ["More calls", amount(1)], tokens: ["More tokens", amount(1)], cost_usd: ["More US dollars", amount(0.01)], duration_s: ["More seconds", amount(1)], for_s: ["This holds for", until([600, 3600, 86400], 3600)] }),
    done: "The flow has more room",
  },
};

const pathOf = (act, flow) => `/v1/inspect/${act}?${query({ flow })}`;

// gated is a button that needs a right; reason says why it is missing, if it is.
export const gated = (reason, text, onclick, danger) =>
  button(text, onclick, { "aria-haspopup": "dialog", class: danger ? "danger" : undefined, disabled: Boolean(reason), title: reason || undefined });

// missing is the reason why buttons are disabled, with the way out.
export const missing = (reason, what, again) => reason && el("span", { class: "faint reason" }, `${what}: ${reason}. `, session.sign_in && !session.expires && button("Sign in", () => openSignIn(again), { class: "link" }));

// actions are the buttons for one flow. again is called after an order.
export const actions = (flow, again, more) => [
  ...Object.entries(acts).map(([act, a]) => gated(session.no_orders, `${a.title} …`, (e) => ask({ ...a, path: pathOf(act, flow), heading: [`${a.title}: `, name(flow, 60)], again, opener: e.target }), a.danger)),
  more,
  missing(session.no_orders, "These buttons are disabled", again),
];

// mark is the button that judges the stop of a flow. It changes no order.
export const mark = (flow, again) => gated(session.no_orders, "Mark this stop wrong …", (e) => ask({
  path: pathOf("mark", flow), heading: ["Mark this stop wrong: ", name(flow, 60)], title: "Mark wrong", fixed: { mark: "wrong" }, again, opener: e.target,
  does: ["The flow did honest work. weir keeps the mark in review.jsonl beside its state: weir backtest --marks and weir limits suggest --marks use it.", "The mark changes no order. Release the flow to let it continue."],
  fields: () => ({}), done: () => "The stop is marked wrong.",
}));

let givenName = ""; // as it was typed last, until the page is loaded again

// ask opens the dialog of an act and sends its order.
export function ask({ path, method, heading, title, does, fields, done, danger, again, opener, fixed = {}, confirm, more }) {
  const inputs = fields();
  const reason = el("input", { type: "text", required: true, maxlength: 500, autocomplete: "off" });
  const by = el("input", { type: "text", maxlength: 100, required: true, autocomplete: "username", value: givenName });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const send = el("button", { type: "submit", class: danger ? "danger main" : "main" }, title);
  const sure = confirm && el("input", { type: "checkbox", required: true, id: "act-sure" });
  const dialog = el("dialog", { "aria-labelledby": "act" },
    el("h2", { id: "act" }, heading), [does].flat().map((text) => el("p", {}, text)),
    el("form", { onsubmit: submit, class: "fields" },
      Object.entries(inputs).map(([key, [label, input]]) => field(`act-${key}`, label, input)),
      field("act-reason", "Reason", reason), !session.named && field("act-by", "Your name", by),
      el("p", { class: "faint" }, `The log keeps the reason and ${session.named ? `your name, ${session.name}` : "your name"}.`),
      sure && el("p", {}, sure, " ", el("label", { for: "act-sure" }, confirm)),
      fault, el("div", { class: "bar" }, send, button("Cancel", () => dialog.close()))));
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus();
  });

  async function submit(e) {
    e.preventDefault();
    fault.hidden = true;
    send.disabled = true;
    givenName = by.value.trim();
    const body = { ...fixed, reason: reason.value.trim(), ...(!session.named && { by: givenName }) };
    for (const [key, [, input]] of Object.entries(inputs)) if (Number(input.value)) body[key] = Number(input.value);
    Object.assign(body, more?.(inputs));
    try {
      const answer = await order(path, body, method);
      dialog.close();
      say(plain(done instanceof Function ? done(answer) : answer.verdicts?.length || answer.rules ? `${done}.` : `${done}: the order is in the log and takes effect soon.`));
      again();
    } catch (error) {
      fault.hidden = false;
      fault.textContent = plain(error.message);
      send.disabled = false;
    }
  }
  document.getElementById("main").append(dialog);
  dialog.showModal();
  (Object.values(inputs)[0]?.[1] ?? reason).focus();
}
