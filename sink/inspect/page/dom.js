// Makes elements. Text only ever becomes text nodes and attributes, never markup.

const svgSpace = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(svgSpace, tag), attributes, children);

// plain writes what cannot be seen, or turns the direction of what follows, by its number.
export const plain = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// short leaves out the middle of a long text.
export function short(text, most = 48) {
  const s = plain(text);
  return s.length <= most ? s : s.slice(0, most * 0.6) + "…" + s.slice(-most * 0.35);
}

// name shows an id so that it cannot reach beyond itself.
export const name = (text, most) => el("bdi", { title: plain(text).slice(0, 1000) }, short(text, most));

export const flowLink = (flow, most) => el("a", { href: flowPath(flow) }, name(flow, most));
export const flowPath = (flow, more = "") => `/ui/flow?id=${encodeURIComponent(wellFormed(flow))}${more}`;
export const agentLink = (agent, most, kind) => el("a", { href: agentPath(agent, kind) }, name(agent, most));
export const agentPath = (agent, kind) => `/ui/agent?id=${encodeURIComponent(wellFormed(agent))}${kind === "project" ? "&kind=project" : ""}`;
const wellFormed = (s) => (s.toWellFormed ? s.toWellFormed() : s);

const icons = { ok: "✓", expired: "□", warned: "▲", armed: "◆", stopped: "■", allow: "✓", cleared: "✓", warn: "▲", throttle: "◔", deny: "■", hold: "⏸", held: "⏸", halt: "■", refused: "■",
  active: "✓", in_tool: "✓", waiting: "◔", silent: "◌", potentially_stuck: "▲", stuck: "■", archived: "□", unwatched: "·", seen: "·", resume: "▶", review: "◆", archive: "□", notify: "▲" };

// spoken is the one word for what a verdict did; an answer to an ask is no order.
export const spoken = ({ ask, verdict: v }) => (ask ? "refused" : v.action === "allow" ? "cleared" : v.effective === "next" ? "armed" : v.action);

// badge is an icon and a word, so that colour alone says nothing.
export const badge = (word) => el("span", { class: `badge ${icons[word] ? word : ""}` }, el("span", { "aria-hidden": "true" }, icons[word] ?? "•"), " " + called(word));

// called is how people call a state.
export const called = (word) => (word === "expired" ? "was stopped" : plain(word).replaceAll("_", " "));

// subject is whom a verdict is about: a flow, or an agent or project over all flows.
export function subject(v, most) {
  if (v.correlation_id || !wide(v)) return flowLink(v.correlation_id ?? "", most);
  return [plain(v.scope.kind), " ", agentLink(v.scope.id, most, v.scope.kind)];
}

// wide reports whether a verdict binds all flows.
export const wide = (v) => !v.correlation_id && (v.scope?.kind === "agent" || v.scope?.kind === "project");

export const number = (n) => (n === undefined || n === null ? "–" : Number.isInteger(n) ? n.toLocaleString("en") : n.toLocaleString("en", { maximumFractionDigits: 4 }));
export const many = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

export const money = (usd) => "$" + (usd >= 0.01 ? usd.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : number(usd));

// passed is a span of time in its two largest units.
export function passed(seconds) {
  let left = Math.floor(seconds);
  const parts = [];
  for (const [unit, letter] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
    const n = Math.floor(left / unit);
    if (n && parts.length < 2) parts.push(n + letter);
    left -= n * unit;
  }
  return parts.join(" ") || "0s";
}
export const clock = (time) => (time ? el("time", { datetime: time, title: zoned(time) }, time.slice(11, 23)) : "–");

// second is a time of day without its fraction, for tables.
export const second = (time) => (time ? el("time", { datetime: time, title: zoned(time) }, time.slice(11, 19)) : "–");

// zoned is a time with its zone, for titles.
const zoned = (time) => `${time.replace("T", " ").replace("Z", "")} UTC, ${new Date(time).toLocaleString([], { timeZoneName: "short" })}`;

// ago is how long ago a time was. It does not run on: pages draw it again as they load.
export const ago = (time) => (time ? el("time", { datetime: time, title: zoned(time) }, since((Date.now() - Date.parse(time)) / 1000)) : "–");
const since = (s) => (s < -1 ? `in ${passed(-s)}` : s < 5 ? "just now" : `${passed(s)} ago`);

// moment is a time that may be of another day than today.
export const moment = (time) => (time?.slice(0, 10) === new Date().toISOString().slice(0, 10) ? clock(time) : el("time", { datetime: time, title: time && zoned(time) }, time?.slice(0, 19).replace("T", " ")));

// usage shows what is used up of a limit.
export function usage(near, label) {
  const text = `${Math.round(near * 100)} %`;
  return el("span", { class: "usage" }, el("meter", { min: 0, max: 1, low: 0.5, high: 0.99, optimum: 0, value: Math.min(1, near), "aria-label": label ?? "used" }), " " + text);
}

export async function copy(text, button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed to copy";
    say("The browser did not allow to copy.");
  }
  setTimeout(() => (button.textContent = said), 1500);
}

// say tells a screen reader and shows it in the corner.
export const say = (text) => (document.getElementById("state").textContent = text);

export const button = (text, onclick, attributes) => el("button", { type: "button", onclick, ...attributes }, text);

// table is a plain table with a caption for those who do not see it.
export const table = (caption, heads, rows) =>
  el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: (rows[0]?.[i]?.tagName === "TD" && rows[0][i].className) || undefined }, h)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((c) => (c?.tagName === "TH" || c?.tagName === "TD" ? c : el("td", {}, c))))))));

export const right = (content) => el("td", { class: "number" }, content);
