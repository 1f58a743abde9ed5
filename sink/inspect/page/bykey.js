// Goes on to the flow that a link from a metric means.
import { get } from "./api.js";
import { flowPath } from "./dom.js";

export default async function ({ page, signal, go }) {
  const { flow } = await get(`/v1/inspect/key?key=${page.key}`, signal);
  go(flowPath(flow), { replace: true });
}
