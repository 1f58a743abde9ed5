// Work that waits for a person: holds whose links weir has sent.
import { el, table, clock, plain, flowLink, name } from "./dom.js";
import { get } from "./api.js";

// asked says how the asking goes.
const asked = (h) => !h.asked ? "not asked yet" : h.lapsed ? "unanswered, waits on" : `tier ${h.asked} asked${h.delivered ? "" : ", message not delivered"}`;

// waiting lists the holds. Proposals of a stop are listed beside the orders.
export async function waiting(signal) {
  const holds = (await get("/v1/approvals", signal)).waiting.filter((h) => h.kind !== "proposal");
  if (!holds.length) return [];
  return [el("section", { class: "remark", "aria-labelledby": "waiting" }, el("h2", { id: "waiting" }, "Waits for a person"),
    table("Work that waits for a person", ["Subject", "Since", "Until", "Asked", "Why"], holds.map((h) => [el("span", {}, `${h.kind} `, h.flow ? flowLink(h.flow) : name(h.subject)),
      clock(h.since), clock(h.until), asked(h), plain(h.text)])))];
}
