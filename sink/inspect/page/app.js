// Finds the page for a path. Every filter of a page is in its address.
import { el, say, short } from "./dom.js";
import { whoami } from "./api.js";
import { account, signInForm } from "./account.js";
import now from "./now.js";
import flows from "./flows.js";
import flow from "./flow.js";
import scenarios from "./scenarios.js";
import limits from "./limits.js";
import backtest from "./backtest.js";
import agents from "./agents.js";
import agent from "./agent.js";
import budgets from "./budgets.js";
import bykey from "./bykey.js";

const pages = [
  { path: "/ui/", title: "Now", show: now, listed: true },
  { path: "/ui/flows", title: "Flows", show: flows, listed: true },
  { path: "/ui/flow", title: "Flow", show: flow, of: "/ui/flows" },
  { path: "/ui/flows/by-key", title: "Flow", show: bykey, of: "/ui/flows" },
  { path: "/ui/agents", title: "Agents", show: agents, listed: true },
  { path: "/ui/agent", title: "Agent", show: agent, of: "/ui/agents" },
  { path: "/ui/budgets", title: "Budgets", show: budgets, listed: true },
  { path: "/ui/scenarios", title: "Scenarios", show: scenarios, listed: true },
  { path: "/ui/limits", title: "Limits", show: limits, listed: true },
  { path: "/ui/backtest", title: "Backtest", show: backtest, listed: true },
];

const main = document.getElementById("main");
let current = new AbortController();

function pageAt(path) {
  const key = path.match(/^\/ui\/flows\/by-key\/([0-9a-f]{1,16})$/i);
  if (key) return { ...pages[3], key: key[1] };
  return pages.find((p) => p.path === path) ?? pages.find((p) => p.path === path + "/");
}

async function open() {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  const page = pageAt(location.pathname);
  main.replaceChildren();
  for (const a of document.querySelectorAll("nav a")) {
    const here = a.pathname === page?.path ? "page" : a.pathname === page?.of ? "true" : "";
    here ? a.setAttribute("aria-current", here) : a.removeAttribute("aria-current");
  }
  say("");
  if (!page) return main.append(el("h1", {}, "Page not found"), el("p", {}, el("a", { href: "/ui/" }, "Go to the first page")));
  document.title = `${page.title} · weir`;
  try {
    await whoami();
    if (signal.aborted) return;
    await page.show({ main, signal, page, go, parameters: new URLSearchParams(location.search), remember });
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

const failed = (error) => error.status === 401 || main.prepend(el("div", { class: "fault", role: "alert" }, el("strong", {}, "This did not work: "), short(error.message, 400)));

// A page that needs a token is replaced by the sign-in, and opens again after it.
document.addEventListener("tokenwanted", () => {
  current.abort();
  whoami().catch(() => {});
  if (document.getElementById("token")) return;
  main.replaceChildren(el("h1", {}, "Sign in"), el("p", {}, "This weir needs a token to show its flows."), signInForm(open));
  document.getElementById("token").focus();
});

function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  open();
  if (!replace) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

// remember puts what was chosen into the address, without a new page.
function remember(fields) {
  const parameters = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === "" || value === false) parameters.delete(name);
    else parameters.set(name, value);
  }
  const search = parameters.toString();
  history.replaceState(null, "", location.pathname + (search && "?" + search));
}

document.addEventListener("click", (e) => {
  const a = e.target.closest?.("a[href^='/ui/']");
  if (!a || e.defaultPrevented || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || a.target || a.download) return;
  e.preventDefault();
  go(a.getAttribute("href"));
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  const typing = e.target.matches?.("input:not([type=range]), textarea, select");
  if (e.key === "Escape") {
    if (typing) e.target.blur();
    else if (pageAt(location.pathname)?.of) history.length > 1 ? history.back() : go(pageAt(location.pathname).of);
    return;
  }
  if (typing) return;
  if (e.key === "/") {
    const filter = main.querySelector("input[type=search]");
    if (filter) e.preventDefault();
    filter?.focus();
  } else if (e.key === "j" || e.key === "k") {
    main.dispatchEvent(new CustomEvent("move", { detail: e.key === "j" ? 1 : -1 }));
  }
});

addEventListener("popstate", open);
document.querySelector("nav").append(...pages.filter((p) => p.listed).map((p) => el("a", { href: p.path }, p.title)));
account(document.getElementById("account"), open);
open();
