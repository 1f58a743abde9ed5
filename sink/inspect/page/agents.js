// Says what is not there yet.
import { el } from "./dom.js";

export default async function ({ main }) {
  main.append(el("h1", {}, "Agents"), el("p", {}, "weir folds flows. It does not fold agents over all their flows yet, so it cannot say here which agent is stuck."),
    el("p", {}, "Until then ", el("a", { href: "/ui/flows?sort=near" }, "the flows nearest to a limit"), " are the ones to look at."));
}
