// Stops and releases a flow, or grants it more, when somebody has the admin token.
import { el, plain, button, say, name } from "./dom.js";
import { order, Refused } from "./api.js";

// The token stands in this variable alone: not in the address, not in storage, and gone
// when the page is loaded anew.
let adminToken = "";

const spans = { 600: "10 minutes", 3600: "1 hour", 86400: "1 day" };

const field = (id, label, input) => [el("label", { for: id }, label), Object.assign(input, { id })];
const amount = (step) => el("input", { type: "number", min: 0, step });
const until = (seconds, chosen) => el("select", {}, seconds.map((s) => el("option", { value: s, selected: s === chosen }, spans[s])));

const acts = {
  stop: {
    title: "Stop", does: "weir refuses every call of the flow from now on, also calls of users.",
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

// actions are buttons for each act. again is called when something was ordered.
export const actions = (flow, again) => Object.keys(acts).map((act) => button(`${acts[act].title} …`, (e) => ask(act, flow, again, e.target), { "aria-haspopup": "dialog", class: act === "stop" ? "danger" : undefined }));

function ask(act, flow, again, opener) {
  const { title, does, fields, done } = acts[act];
  const inputs = fields();
  const reason = el("input", { type: "text", required: true, maxlength: 500, autocomplete: "off" });
  const by = el("input", { type: "text", maxlength: 100, required: true, autocomplete: "username" });
  const token = el("input", { type: "password", autocomplete: "off", required: !adminToken, placeholder: adminToken ? "the one that you gave" : "" });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const send = el("button", { type: "submit", class: act === "stop" ? "danger" : undefined }, title);
  const dialog = el("dialog", { "aria-labelledby": "act" },
    el("h2", { id: "act" }, `${title}: `, name(flow, 60)), el("p", {}, does),
    el("form", { onsubmit: submit, class: "fields" },
      Object.entries(inputs).map(([key, [label, input]]) => field(`act-${key}`, label, input)),
      field("act-reason", "Reason, kept in the log", reason), field("act-by", "Your name, kept in the log", by), field("act-token", "Admin token", token),
      el("p", { class: "faint" }, "Use the token from weir's --admin-token-file. The page keeps it in memory until you reload."),
      fault, el("div", { class: "bar" }, send, button("Cancel", () => dialog.close()))));
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus();
  });

  async function submit(e) {
    e.preventDefault();
    fault.hidden = true;
    send.disabled = true;
    const body = { reason: reason.value.trim(), by: by.value.trim() };
    for (const [key, [, input]] of Object.entries(inputs)) if (Number(input.value)) body[key] = Number(input.value);
    const given = token.value.trim() || adminToken;
    try {
      const answer = await order(act, flow, body, given);
      adminToken = given;
      dialog.close();
      say(answer.verdicts?.length || answer.rules ? `${done}.` : `${done}: it is in the log, and will be folded soon.`);
      again();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) [adminToken, token.required] = ["", true];
      fault.hidden = false;
      fault.textContent = plain(error.message);
      send.disabled = false;
    }
  }
  document.getElementById("main").append(dialog);
  dialog.showModal();
  (Object.values(inputs)[0][1] ?? reason).focus();
}
