// Empty states: what to do before there is anything to show.
import { el, button, copy } from "./dom.js";

// loopCommand sends a loop of two agents, which the built-in limits stop.
const loopCommand = () => `for i in $(seq 1 24); do
  curl -sS ${location.origin}/v1/events -H 'Content-Type: application/json' -d '{
    "id": "try-'$i'", "time": "'$(date -u +%Y-%m-%dT%H:%M:%SZ)'", "kind": "agent.call",
    "correlation_id": "first-loop", "from": {"session": "agent-'$((i % 2))'"},
    "to": {"session": "agent-'$(((i + 1) % 2))'"}, "had_work": false}'
done`;

// begin is the empty state of a page: what is missing, and the command that fills the page.
export function begin(missing) {
  const command = loopCommand();
  return el("section", { class: "empty", "aria-label": "First steps" }, el("h2", {}, missing),
    el("p", {}, "Send a loop of 24 calls from a terminal. weir stops it, and this page shows the stop without a reload."),
    el("pre", { tabindex: 0, "aria-label": "Command that sends a loop" }, command),
    el("p", { class: "bar" }, button("Copy the command", (e) => copy(command, e.target)), el("a", { href: "/ui/scenarios" }, "Or watch a recorded scenario")),
    el("p", { class: "faint" }, "If this weir requires a token, add: -H \"Authorization: Bearer TOKEN\"."));
}
