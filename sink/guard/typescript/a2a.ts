/** weir's extension of A2A: in which flow a message is sent, how many agents have handed work on before it,
 * and what the flow may still use.
 *
 *     const hop = read(message.metadata) ?? { flow: cid, hops: 0 }; // what the message in hand says
 *     if (refused(hop)) ...                                         // answer with an error
 *     const d = await guard.ask({ flow: hop.flow, from: "planner", to: "coder", tell: true });
 *     put(request.message, next(hop, d.remaining));                 // throws Spent where it must not be sent
 */

import type { Remaining } from "./weir-guard.js";

export const uri = "urn:weir:a2a:flow:v1";
/** X-A2A-Extensions before version 1.0. */
export const header = "A2A-Extensions";

export type Member = "hops" | "calls" | "tokens" | "usd" | "until";

/** A message must not be sent, because of a member. */
export class Spent extends Error {
  constructor(readonly member: Member) {
    super(`the message may not be handed on: ${member} of ${uri}`);
    this.name = "Spent";
  }
}

/** What a message says. */
export interface Hop {
  flow?: string;
  /** The flow that opened this one. */
  parent?: string;
  /** The first flow of the tree. */
  root?: string;
  /** Agents that have handed work on before this message was sent, its sender included. */
  hops: number;
  maxHops?: number;
  /** What the receiver and all that it calls may still use. */
  calls?: number;
  tokens?: number;
  usd?: number;
  until?: Date;
}

/** Why an agent must not work on a message that it received; "" if it may. */
export function refused(hop: Hop, now = new Date()): Member | "" {
  if (hop.maxHops !== undefined && hop.hops > hop.maxHops) return "hops";
  if (hop.tokens !== undefined && hop.tokens <= 0) return "tokens";
  if (hop.usd !== undefined && hop.usd <= 0) return "usd";
  if (hop.until !== undefined && now >= hop.until) return "until";
  return "";
}

/** The Hop for a message that an agent sends while it works on one. remaining are those of the decision about
 * it; card is max_hops of its receiver's card. Throws Spent where it must not be sent. */
export function next(hop: Hop, remaining: readonly Remaining[] = [], card?: number, now = new Date()): Hop {
  if (hop.calls !== undefined && hop.calls < 1) throw new Spent("calls");
  const sent: Hop = { ...hop, hops: hop.hops + 1 };
  if (card !== undefined) sent.maxHops = Math.min(card, hop.maxHops ?? card);
  if (sent.calls !== undefined) sent.calls--; // this message is one of them
  for (const r of remaining) {
    if (r.unit === "calls" || r.unit === "tokens" || r.unit === "usd") sent[r.unit] = Math.min(Math.max(0, r.left), sent[r.unit] ?? Infinity);
    else if (r.until && (!sent.until || r.until < sent.until)) sent.until = r.until;
  }
  const why = refused(sent, now);
  if (why) throw new Spent(why);
  return sent;
}

/** What metadata get under the URI. */
export function value(hop: Hop): Record<string, unknown> {
  const v: Record<string, unknown> = { hops: hop.hops };
  for (const name of ["flow", "parent", "root"] as const) if (hop[name]) v[name] = hop[name];
  if (hop.maxHops !== undefined) v["max_hops"] = hop.maxHops;
  const left: Record<string, unknown> = {};
  for (const name of ["calls", "tokens", "usd"] as const) if (hop[name] !== undefined) left[name] = hop[name];
  if (hop.until) left["until"] = hop.until.toISOString();
  if (Object.keys(left).length) v["remaining"] = left;
  return v;
}

/** Reads the extension from the metadata of a message. A member that cannot be read counts as missing. */
export function read(metadata: unknown): Hop | undefined {
  const v = member(metadata, uri);
  if (!isObject(v)) return undefined;
  const hop: Hop = { hops: count(v["hops"]) ?? 0 };
  for (const name of ["flow", "parent", "root"] as const) {
    const text = word(v[name]);
    if (text) hop[name] = text;
  }
  const most = count(v["max_hops"]);
  if (most !== undefined) hop.maxHops = most;
  for (const name of ["calls", "tokens", "usd"] as const) {
    const left = member(v["remaining"], name);
    if (typeof left === "number" && Number.isFinite(left)) hop[name] = Math.max(0, left);
  }
  const until = member(v["remaining"], "until");
  if (typeof until === "string" && rfc3339.test(until) && !Number.isNaN(Date.parse(until))) hop.until = new Date(until);
  return hop;
}

/** Writes the extension into a message. */
export function put(message: { metadata?: Record<string, unknown>; extensions?: string[] }, hop: Hop): void {
  message.metadata = { ...message.metadata, [uri]: value(hop) };
  if (!message.extensions?.includes(uri)) message.extensions = [...(message.extensions ?? []), uri];
}

/** max_hops of an agent card. */
export function maxHops(card: { capabilities?: { extensions?: readonly { uri: string; params?: unknown }[] } }): number | undefined {
  return count(member(card.capabilities?.extensions?.find((e) => e.uri === uri)?.params, "max_hops"));
}

const rfc3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

function member(of: unknown, name: string): unknown {
  return isObject(of) ? of[name] : undefined;
}

function word(v: unknown): string {
  return typeof v === "string" && new TextEncoder().encode(v).length <= 256 && !/[\u0000-\u001f]/.test(v) ? v : "";
}

function count(v: unknown): number | undefined {
  return typeof v === "number" && Number.isInteger(v) && v >= 0 && v <= 2 ** 31 - 1 ? v : undefined;
}
