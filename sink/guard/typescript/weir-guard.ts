/**
 * Honor weir's verdicts in a dispatcher. Nothing but fetch and, where the runtime
 * has it, AsyncLocalStorage.
 *
 *     const guard = await Guard.connect("http://127.0.0.1:8080");
 *     const d = guard.check({ flow, from, to });
 *     if (d.stopped) throw new FlowStopped(d);
 *
 * A Guard follows the standing orders in the background and answers from memory whether a
 * call may be made: check is synchronous. ask asks weir instead, which counts the call in
 * the same step. When weir is away, orders that are known stay in force until they expire,
 * other calls are allowed, and a local limiter holds each flow to three times the limits
 * in force.
 */

import { stopsByHand, typedByHand, understood, type ByHand } from "./byhand.js";
import { beatAgain, beatEvery, beatIdle, beatTimeout, Flights, type Flying, leastBeat, nextBeat } from "./beats.js";
import { argsFields, hashContent, simhash, textOf } from "./hashes.js";

/** What is about to be sent. An order that names something else does not match a call that
 * does not tell it. A call of an agent without from is taken for a person's, which nothing
 * refuses. */
export interface Call {
  flow?: string;
  /** The parties by session or by agent, as the events name them. */
  from?: string;
  to?: string;
  /** The agents beside their sessions. */
  fromAgent?: string;
  toAgent?: string;
  /** Makes it the call of a tool. */
  tool?: string;
  /** algorithm:hex, made as in the events that are reported. */
  argsHash?: string;
  /** simhash64:hex of the arguments, see simArgs. */
  argsSim?: string;
  contentHash?: string;
  turn?: string;
  task?: string;
  conversation?: string;
  project?: string;
  tenant?: string;
  team?: string;
  /** The caller does not wait for the agent that it calls. */
  background?: boolean;
  /** That the call is about, or made for. */
  model?: string;
  /** The program that calls, for orders by hand; default: the name of the guard. */
  service?: string;
  /** Whose token weir knows the guard by, for orders by hand; weir says it. */
  principal?: string;
  /** The first flow of the tree that the flow belongs to, as the events name it. */
  root?: string;
  /** Of the call of a tool; joins it with its result. */
  callId?: string;
  /** For ask: did the caller use tools or make something since it was called. */
  hadWork?: boolean;
  /** For ask: bring what is left of each limit, also where the limits set tell for none. */
  tell?: boolean;
  origin?: "user" | "agent" | "scheduler" | "applet" | "system";
}

/** What a dispatcher knows of what it has handed to an agent: in which flow the agent works
 * and who it is. It travels in the asynchronous context of the dispatcher and in the headers
 * of its requests; the agent does not see it. */
export interface Work {
  flow: string;
  /** Who works, by session or by agent, and the agent beside the session. */
  party?: string;
  agent?: string;
  /** The first flow of the tree that the flow belongs to. */
  root?: string;
}

interface Storage {
  run<R>(work: Work | undefined, fn: () => R): R;
  getStore(): Work | undefined;
}

// Names in variables, so that no bundler looks for them where there are none. Nothing is waited
// for where the runtime can do without, so that require reads this file as import does.
const [hooks, channels] = ["node:async_hooks", "node:diagnostics_channel"];
interface Hooks {
  AsyncLocalStorage: new () => Storage;
}
interface Channels {
  subscribe(name: string, fn: (message: unknown) => void): void;
}
let storage: Storage | undefined;
const streams = new Set<string>(); // where guards follow weir

/** A stream that a guard follows keeps no program alive that has nothing else to do: the fetch
 * of Node tells on this channel by which socket a request goes. */
function letGo(message: unknown): void {
  const { request, socket } = message as { request?: { origin?: unknown; path?: unknown; method?: unknown }; socket?: { unref?: () => void } };
  if (request?.method === "GET" && streams.has(`${request.origin}${request.path}`)) socket?.unref?.();
}

function use(h: Hooks | undefined, c: Channels | undefined): void {
  if (h) storage = new h.AsyncLocalStorage();
  c?.subscribe?.("undici:client:sendHeaders", letGo);
}
const builtin = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process?.getBuiltinModule;
const used: Promise<void> | undefined = builtin
  ? void use(builtin(hooks) as Hooks | undefined, builtin(channels) as Channels | undefined)
  : Promise.allSettled([import(/* @vite-ignore */ hooks), import(/* @vite-ignore */ channels)]).then(([h, c]) =>
      use(h.status === "fulfilled" ? (h.value as Hooks) : undefined, c.status === "fulfilled" ? (c.value as Channels) : undefined),
    );

/** The work that goes on here; undefined for none, and where the runtime has no AsyncLocalStorage. */
export function currentWork(): Work | undefined {
  return storage?.getStore();
}

/** What fn does, also later, is done in the work. */
export function working<R>(work: Work | undefined, fn: () => R): R {
  return storage ? storage.run(work, fn) : fn();
}

const workHeaders = { flow: "x-correlation-id", party: "x-agent-id", agent: "x-agent-name", root: "x-root-correlation-id" } as const;

/** The headers of the work for a request to another dispatcher. */
export function headersOf(work: Work): Record<string, string> {
  const out: Record<string, string> = {};
  for (const name of ["flow", "party", "agent", "root"] as const) {
    const value = work[name];
    if (value) out[workHeaders[name]] = value;
  }
  return out;
}

/** The work that the headers of a request name; undefined when they name no flow. Whoever sends
 * the request can write them: take them from dispatchers alone. */
export function workFrom(headers: Headers): Work | undefined {
  const flow = headers.get(workHeaders.flow);
  const get = (name: "party" | "agent" | "root") => headers.get(workHeaders[name]) ?? undefined;
  return flow ? { flow, party: get("party"), agent: get("agent"), root: get("root") } : undefined;
}

const nameFields = ["flow", "from", "to", "fromAgent", "toAgent", "tool", "callId", "turn", "task", "conversation", "project", "tenant", "team", "model", "service", "root"] as const;
const mostName = 256; // bytes
const sim = /^simhash64:[0-9a-f]{16}$/;
const hash = /^(xxh64|sha256|sha1|md5|blake3|sha512):[0-9a-f]{16,128}$/;

/** Leaves out what no id may hold, and what is longer than an id, as gateways do: weir rejects an
 * event with a name that is no id, and an agent that may choose a name could have each of its calls
 * rejected so. */
function clip(name: string): string {
  // eslint-disable-next-line no-control-regex
  const text = new TextEncoder().encode(name.replace(/[\0-\x1f]|\p{Surrogate}/gu, ""));
  if (text.length <= mostName) return new TextDecoder().decode(text);
  let end = mostName;
  while ((text[end]! & 0xc0) === 0x80) end--; // not in the middle of a character
  return new TextDecoder().decode(text.subarray(0, end));
}

/** Fills in what an agent's call does not say with the work that goes on, and makes ids of its
 * names. */
function inWork(call: Call): Call {
  const filled = filledIn(call);
  const bad = nameFields.filter((name) => !/^[ -~]{0,256}$/.test(filled[name] ?? ""));
  return bad.length === 0 ? filled : { ...filled, ...Object.fromEntries(bad.map((name) => [name, clip(filled[name] ?? "")])) };
}

/** What people, schedulers and applets send belongs to no work. */
function filledIn(call: Call): Call {
  const work = currentWork();
  if (!work || (call.origin && call.origin !== "agent")) return call;
  const filled = { ...call };
  if (!call.flow) [filled.flow, filled.root] = [work.flow, call.root || work.root];
  if (!call.from && !call.fromAgent) [filled.from, filled.fromAgent] = [work.party, work.agent];
  return filled;
}

export type Action = "allow" | "warn" | "throttle" | "deny" | "hold" | "halt";
export type Source = "table" | "weir" | "stale_open" | "stale_closed" | "local_limit" | "error_open";
export type Advice = "" | "back_off" | "ask_user" | "finish_with_partial_work";

/** The limits that the local limiter multiplies; 0 means none. */
export interface Bounds {
  calls: number;
  toolCalls: number;
  rate: number;
  /** Seconds. */
  window: number;
}

export interface Options {
  /** Of the intake, where weir wants one. */
  token?: string;
  /** Refuses calls while the orders may be out of date. */
  failClosed?: boolean;
  bounds?: Bounds;
  /** Of the events that the guard sends. */
  name?: string;
  /** Send no acknowledgements. */
  quiet?: boolean;
  /** Milliseconds without a sign of life after which the orders may be out of date. */
  staleAfter?: number;
  /** Milliseconds of one ask. */
  askTimeout?: number;
  /** Milliseconds that connect waits for the orders that stand. */
  connectTimeout?: number;
  /** Sends requests instead of the global fetch: to trust an authority of one's own or to show
   * a certificate, that of undici with an Agent whose connect has ca, cert and key. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** How many flows the local limiter counts at one time. */
  mostFlows?: number;
  /** How many orders are held at one time; default 200,000. Those beyond it are counted as
   * leftOut, and the guard is stale until there is room and all orders were read again. Stops by
   * an operator have the same room once more. */
  mostOrders?: number;
  /** Secrets by their ids. With them, orders that weir did not sign by one of them are
   * ignored and counted, and so are replays. */
  keys?: Record<string, string>;
  /** Called with every decision that refuses, or that was made while the orders may be out of date. */
  onDecision?: (call: Call, decision: Decision) => void;
  /** Default: warnings go to console.warn. */
  log?: (level: "debug" | "info" | "warn", text: string) => void;
}

interface Match {
  from?: string[];
  to?: string[];
  not_from?: string[];
  not_to?: string[];
  tool?: string[];
  args_hash?: string[];
  content_hash?: string[];
  edges?: { from: string; to: string }[];
  turn_id?: string;
  not_turn_id?: string;
  task_id?: string;
  conversation_id?: string;
  project_id?: string;
  root_correlation_id?: string;
  kind?: string;
  background?: boolean;
}

/** A verdict, as far as a guard reads it. */
export interface Verdict {
  id: string;
  revision?: number;
  mode?: string;
  scope?: { kind: string; id: string };
  action: string;
  effective?: string;
  match?: Match;
  reason_code?: string;
  limit?: number;
  observed?: number;
  unit?: string;
  message?: string;
  agent_message?: string;
  expires_at?: string;
  retry_after_s?: number;
  correlation_id?: string;
  tenant_id?: string;
  remaining?: unknown;
  by_hand?: ByHand;
}

/** The expected final spend of a flow, in the unit of its budget. The figures are missing when too few good
 * runs came as far: the final spend is unknown. */
export interface Forecast {
  /** Good runs of the same kind that came as far. */
  runs: number;
  /** One run in twenty spends less. */
  low?: number;
  expected?: number;
  /** One run in twenty spends more. */
  high?: number;
}

/** What is left of one limit after a call that was asked for. */
export interface Remaining {
  rule: string;
  left: number;
  limit: number;
  unit: string;
  /** Of a limit of time: when it is used up. */
  until?: Date;
  /** Of a budget; missing when the limits have no forecasts. */
  forecast?: Forecast;
}

/** A call with what is hashed of it. */
export interface Beginning extends Call {
  /** Of the call of a tool: JSON as the model wrote it, or the values themselves. They are hashed
   * here and do not leave the process, as message. */
  args?: unknown;
  /** What an agent is sent. */
  message?: unknown;
  /** Default: true. With false the call is decided from memory and reported in the background: it
   * waits for nothing, and a loop runs on until the orders about it come. */
  ask?: boolean;
}

/** What was used. */
export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  costUsd?: number;
}

/** What one request to a model has used. Cached tokens and reasoning have prices of their own. */
export interface RequestUsage extends Usage {
  model?: string;
  cacheReadInputTokens?: number;
  cacheCreationInputTokens?: number;
  /** Of cacheCreationInputTokens those that the cache keeps an hour. */
  cacheCreation1hInputTokens?: number;
  reasoningOutputTokens?: number;
  /** Whether inputTokens holds the cached tokens: it does at OpenAI and Google, and not at Anthropic, which the
   * name of the model tells otherwise. */
  cacheInInput?: boolean;
}

/** What came of a call besides its result. */
export interface Outcome extends Usage {
  /** An Error, or a text. */
  error?: unknown;
  status?: "ok" | "error" | "denied" | "cancelled" | "timeout" | "input_required";
  hadWork?: boolean;
}

/** A call that was checked. decision says whether it may be made; finish reports what came of it. */
export class Begun implements Flying<Verdict> {
  private open: boolean;
  private readonly since = performance.now();
  private readonly control = new AbortController();
  /** Whether the call was aborted by an order by hand. */
  cancelled = false;
  private stop: Verdict | undefined; // the order by hand that binds the call
  private cancel: "" | "requested" | "failed" = "";
  private why = "";
  private heeds = false; // the program has taken the signal
  private stops: (() => unknown)[] = []; // of onStop
  constructor(
    readonly call: Call,
    readonly decision: Decision,
    private readonly report: (call: Call, event: () => Record<string, unknown>) => void,
    private readonly ended: (b: Begun) => void = () => {},
    private readonly refused: (v: Verdict) => unknown = () => undefined,
    private readonly changed: () => void = () => {},
  ) {
    this.open = !decision.stopped;
  }

  /** Aborted, with a FlowStopped as its reason, when an order by hand (weir stop) binds the call while
   * it is in flight. */
  get signal(): AbortSignal {
    this.heeds = true;
    this.runCallOff();
    return this.control.signal;
  }

  /** Calls fn when an order by hand (weir stop) binds the call while it is in flight, or at once if one
   * does already: it ends what the call has begun elsewhere, see weir-guard/cancel. The receipt of the
   * order names what fn throws. */
  onStop(fn: () => unknown): void {
    this.stops.push(fn);
    this.runCallOff();
  }

  /** Calls the call off; the guard does so. */
  callOff(v: Verdict): void {
    this.stop = v;
    this.control.abort(this.refused(v));
    this.runCallOff();
  }

  private runCallOff(): void {
    if (!this.stop) return;
    if (this.heeds) [this.cancelled, this.cancel] = [true, this.cancel || "requested"];
    for (const fn of this.stops.splice(0)) {
      [this.cancelled, this.cancel] = [true, this.cancel || "requested"];
      void (async () => fn())().catch((err: unknown) => {
        [this.cancel, this.why] = ["failed", clip(err instanceof Error ? err.message : String(err))];
        this.changed();
      });
    }
  }

  /** Names the call for the receipt of an order. */
  named(): object {
    const { flow, from, fromAgent, to, toAgent, tool } = this.call;
    const name = { flow, from: from || fromAgent, to: to || toAgent, tool, cancel: this.cancel, why: this.why };
    return Object.fromEntries(Object.entries(name).filter(([, value]) => value));
  }

  /** Reports what came of the call, once: later calls of it do nothing, and so does one of a
   * refused call. Only hashes of result and error are sent. */
  finish(result?: unknown, o: Outcome = {}): void {
    if (!this.open) return;
    this.open = false;
    this.ended(this);
    const { call } = this;
    const { error } = o;
    const failed = error !== undefined && error !== null;
    const text = textOf(failed ? (error instanceof Error ? error.message : error) : result);
    const took = performance.now() - this.since;
    const back: Call = call.tool
      ? { ...call, argsHash: "", argsSim: "", contentHash: "" }
      : { ...call, from: call.to, fromAgent: call.toAgent, to: call.from, toAgent: call.fromAgent, contentHash: "", origin: undefined };
    this.report(call, () => {
      const ev = event(back, call.tool ? "tool.result" : "agent.return");
      Object.assign(ev, { status: o.status ?? (failed ? "error" : "ok"), duration_ms: Math.round(took * 1000) / 1000 });
      const more = { content_hash: hashContent(text), content_sim: simhash(text), error_type: failed ? clip(error instanceof Error ? error.name : text) : "" };
      for (const [name, value] of Object.entries(more)) if (value) ev[name] = value;
      if (o.hadWork !== undefined && !call.tool) ev["had_work"] = o.hadWork;
      // What an agent has used may stand in reports of its requests as well.
      const used = usage(o);
      if (Object.keys(used).length > 0) ev["usage"] = call.tool ? used : { ...used, scope: "aggregate" };
      if (call.tool) (ev["tool"] as Record<string, unknown>)["result_bytes"] = new TextEncoder().encode(text).length;
      return ev;
    });
  }
}

function usage(u: RequestUsage): Record<string, number> {
  const given = {
    input_tokens: u.inputTokens ?? 0, output_tokens: u.outputTokens ?? 0, cost_usd: u.costUsd ?? 0,
    cache_read_input_tokens: u.cacheReadInputTokens ?? 0, cache_creation_input_tokens: u.cacheCreationInputTokens ?? 0,
    cache_creation_1h_input_tokens: u.cacheCreation1hInputTokens ?? 0, reasoning_output_tokens: u.reasoningOutputTokens ?? 0,
  };
  return Object.fromEntries(Object.entries(given).filter(([, n]) => n > 0));
}

/** What weir is to hear of. */
interface Report {
  /** Made when it is sent. */
  event: () => Record<string, unknown>;
  flow: string;
  ack: boolean;
}

/** What a guard says of a call. */
export class Decision {
  readonly reason: string = "";
  readonly limit?: number;
  readonly observed?: number;
  /** Seconds; 0: waiting does not help. */
  readonly retryAfter: number = 0;
  /** Of a hold: when it ends without a decision. */
  readonly heldUntil?: Date;
  readonly verdictId: string = "";
  /** For people. */
  readonly message: string = "";
  /** For the model: fixed words and numbers only. */
  readonly agentMessage: string = "";
  /** Told by ask alone. */
  readonly remaining: readonly Remaining[] = [];
  /** For the model, of a call that may be made: little is left. Told by ask alone. */
  readonly note: string = "";

  constructor(
    readonly action: Action,
    readonly source: Source,
    readonly stale: boolean,
    readonly flow: string,
    more: Partial<Pick<Decision, "reason" | "limit" | "observed" | "retryAfter" | "heldUntil" | "verdictId" | "message" | "agentMessage" | "remaining" | "note">> = {},
  ) {
    Object.assign(this, more);
    if (this.action !== "allow") {
      this.message ||= "Agent call rejected: " + this.reason;
    }
    if (this.stopped && !this.agentMessage) {
      this.agentMessage = `The call was refused by the flow guard (${this.reason}). ${this.action === "hold" ? heldAdvice : agentAdvice[this.advice]}`;
    }
  }

  get stopped(): boolean {
    return stops(this.action);
  }

  get advice(): Advice {
    if (!this.stopped) return "";
    if (this.retryAfter > 0 || this.action === "throttle") return "back_off";
    return this.action === "halt" || this.action === "hold" ? "ask_user" : "finish_with_partial_work";
  }
}

/** A call must not be made. decision says why and what to do. */
export class FlowStopped extends Error {
  constructor(readonly decision: Decision) {
    const figures = decision.limit === undefined || decision.observed === undefined ? "" : `, ${decision.observed} of ${decision.limit}`;
    super(`${decision.message} (${decision.reason}${figures})`);
    this.name = "FlowStopped";
  }
}

const agentAdvice: Record<Advice, string> = {
  "": "",
  back_off: "Wait before you call again; do other work meanwhile.",
  ask_user: "Do not try it again. Report what is finished and what is not.",
  finish_with_partial_work: "Do not try it again. Finish with what you have and report back.",
};
const heldAdvice = "The flow waits for a person, who may grant more. What is done is kept. Do not try the call again: end your turn and say what you wait for.";
const armed = [
  ["Limit used up, the next call will be rejected: ", "Agent call rejected: "],
  ["Limit used up, from the next call on the flow waits for a person: ", "Flow held for a person to decide: "],
  ["Limit used up, the next call waits for a person: ", "Call held for a person to decide: "],
] as const;
const uncounted = ["s", "tokens", "usd", "none", ""]; // units to which a call does not add one
const leeway = 3; // how many times over its limits a flow may go while weir is away
const clocksApart = 5_000; // milliseconds: more than what the time in an answer leaves out and what it takes to come
const shortest = 100; // milliseconds between two tries to connect
const longest = 5_000;
const mostReports = 1024;
const forgetUnseen = 60_000; // milliseconds after which a flow with few checks makes room for another one
const heardWithin = 5_000; // milliseconds within which telemetry is expected to report a call that was checked
const mostAsks = 64; // in one request
const mostRequests = 32; // of asks at one time
const mostMessage = (1 << 18) + 4096; // characters of a message of the stream: a verdict, its id and its signature
const mostId = 1024; // characters of the id of a message
const mostAnswer = 1 << 20; // bytes of any other answer
const mostBound = 2 ** 40; // more than any limit of weir
const mostWait = 2 ** 31 - 1; // seconds to wait that are told at most
const mostDepth = 10_000; // of objects and lists within each other
const rfc3339 = /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/; // as weir writes and reads times
const httpDate = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;
const remembered = 3_600_000; // milliseconds for which the last revision of an order is remembered at least

interface Message {
  id: string;
  event: string;
  signature: string;
  data: string[];
  /** Of its lines. */
  size: number;
  /** It is passed over. */
  long: boolean;
}

function message(): Message {
  return { id: "", event: "", signature: "", data: [], size: 0, long: false };
}

/** An ask that waits for its answer. */
interface Asking {
  line: string;
  /** When it has waited for too long, by performance.now. */
  late: number;
  answer: (body: unknown) => void;
  fail: (err: unknown) => void;
}

interface Spent {
  calls: number;
  tools: number;
  begun: number;
  inWindow: number;
  before: number;
}

/** Answers whether calls may be made. */
export class Guard {
  readonly counts = {
    allowed: 0,
    refused: 0,
    staleAllowed: 0,
    staleRefused: 0,
    localLimited: 0,
    faults: 0,
    askFailures: 0,
    /** Asks that weir could not read, which refuses the call. */
    askRejected: 0,
    orders: 0,
    /** Orders that there was no room for. */
    leftOut: 0,
    unreadable: 0,
    /** Ignored, because nobody signed them. */
    unsigned: 0,
    /** Because the signature is wrong, or of no key that is known. */
    forged: 0,
    /** Because a later revision of the order was heard before. */
    replayed: 0,
    connections: 0,
    stales: 0,
    acked: 0,
    acksDropped: 0,
    /** Calls and results. */
    reported: 0,
    reportsDropped: 0,
  };
  /** For tests. */
  now: () => number = Date.now;
  private state: "never" | "fresh" | "stale" = "never";
  private readonly urls: string[]; // of weir; one of them is used
  private turn = 0; // how often an address was left
  private bounds: Bounds;
  private readonly name: string;
  private readonly staleAfter: number;
  private readonly askTimeout: number;
  private orders = new Map<string, Verdict[]>();
  /** Orders of persons about scopes. */
  private byHand: Verdict[] = [];
  /** As weir said with the last connection. */
  private principal = "";
  private readonly flights = new Flights<Verdict>();
  private wide = new Map<string, Verdict[]>(); // orders that bind more than one flow, by the id of their scope
  private counted = new Map<string, Spent>();
  private countedBefore = new Map<string, Spent>();
  private reports: Report[] = [];
  private readonly pending = new Map<string, number>(); // reports under way, by flow
  private settling: (() => void)[] = []; // those who wait for some
  private unsent = false; // the last batch of reports did not reach weir
  private dropping = false; // the last batch of reports was dropped, which was logged
  private readonly doubted = new Map<string, { checks: number; since: number }>(); // flows that are only checked
  private doubts = 3; // how many of them are looked up at weir
  private asks: Asking[] = []; // that wait for a request
  private requests = 0; // of asks, under way
  private reporting: Promise<void> | undefined;
  private lastId = "";
  private logName = ""; // the log that lastId is of; "" if weir does not say
  private heard = new Map<string, { revision: number; until: number }>(); // by order: the last revision
  private readonly ignored = new Set<string>(); // what was logged
  private serial = 0;
  private warned = false;
  private unreached = false; // was logged
  private unasked = false; // was logged, since weir answered last
  private alive = 0; // when the last sign of life came, by performance.now
  /** Of the ids of its events: guards of one name would else give one id to two asks, and the
   * second would be taken for the first sent again. */
  private readonly word = Math.random().toString(36).slice(2, 12);
  private readonly closing = new AbortController();
  private known = false;
  private held = 0; // orders
  private full = false; // orders were left out and not read again
  private leftAfter = ""; // the id of the message before the first of them
  private rereadNext = 0; // when they may be read again, by performance.now
  private becameFresh: () => void = () => {};
  private readonly ready = new Promise<void>((resolve) => (this.becameFresh = resolve));

  /** A guard that is not connected; connect makes one that is. The url may be those of several
   * members of a group, with commas between them: the guard uses the next one when one does not
   * answer. */
  constructor(url: string, private readonly o: Options = {}) {
    this.urls = url.split(",").map((one) => one.trim().replace(/\/+$/, ""));
    if (!this.urls.every((one) => /^https?:\/\/[^/]/.test(one))) throw new TypeError(`${url} is no address of weir; want for example http://127.0.0.1:8080`);
    if (Object.keys(o.keys ?? {}).length > 0 && !globalThis.crypto?.subtle) throw new TypeError("signed orders need crypto.subtle; Node 18 has it with --experimental-global-webcrypto");
    this.bounds = o.bounds ?? { calls: 100, toolCalls: 0, rate: 60, window: 60 };
    this.name = o.name ?? "guard/" + Math.random().toString(36).slice(2, 12);
    this.staleAfter = o.staleAfter ?? 5000;
    this.askTimeout = o.askTimeout ?? 3000;
  }

  /** Follows weir. It waits for the orders that stand, yet not for ever: without them calls
   * are decided as when weir is away. */
  static async connect(url: string, o: Options = {}): Promise<Guard> {
    const g = new Guard(url, o);
    await used;
    for (const url of g.urls) streams.add(url + "/v1/verdicts");
    void g.follow();
    g.beating = g.beats();
    await g.wait(o.connectTimeout ?? g.staleAfter);
    return g;
  }

  /** The orders may be out of date. A program that kept the event loop for itself has heard
   * nothing meanwhile, and no timer has said so yet: the time does. */
  get stale(): boolean {
    return this.state !== "fresh" || (this.alive > 0 && performance.now() - this.alive > this.staleAfter);
  }

  /** Waits until the orders that stand are known, for so many milliseconds at most; by
   * default for as long as it takes. It resolves to whether they are known. */
  async wait(ms = Infinity): Promise<boolean> {
    // Somebody waits for this, so that the program must not end meanwhile.
    let end: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      end = ms === Infinity ? (setInterval(() => {}, longest) as typeof end) : setTimeout(resolve, ms);
    });
    try {
      await Promise.race([this.ready, late]);
    } finally {
      clearTimeout(end);
    }
    return this.known;
  }

  /** Ends the stream, after one more try to send what is to be acknowledged. check still
   * answers after that, as when weir is away. */
  async close(): Promise<void> {
    this.closing.abort();
    this.flights.kick();
    await this.beating;
    while (await this.lookUp(true));
    if (this.reports.length > 0 && !this.reporting) this.reporting = this.report();
    await this.reporting;
  }

  /** Says from memory whether the call may be made. What the call does not say of its flow
   * and its caller is that of the work that goes on, see dispatch. */
  check(call: Call): Decision {
    try {
      return this.decide(inWork(call));
    } catch (err) {
      // A guard must not stop what it guards.
      if (++this.counts.faults === 1) this.log("warn", `the guard failed and let a call through, please report this; more faults are only counted: ${err}`);
      return new Decision("allow", "error_open", false, call?.flow ?? "");
    }
  }

  /** Asks weir, which counts the call when it may be made. When weir does not answer in time
   * the call is decided from memory, within the local limiter. A person's call without a
   * flow gets one from weir: Decision.flow. */
  async ask(call: Call): Promise<Decision> {
    return this.asked(inWork(call));
  }

  /** Asks weir about a call and runs fn as the work that it begins: what fn does is done in the
   * flow of the call, by its callee. Of an agent's call the flow and the caller are those of the
   * work that goes on where the call does not say; a call of anybody else that names no flow
   * begins a new one. When the call may not be made nothing begins: fn throws d, or goes on. */
  async dispatch<R>(call: Call, fn: (d: Decision) => R | Promise<R>): Promise<R> {
    const c = { ...inWork(call) };
    const byAgent = c.origin === "agent" || !(c.origin || byPerson(c));
    if (!c.flow && !byAgent) c.flow = flowId();
    const d = await this.asked(c);
    if (d.stopped) return fn(d);
    return working({ flow: c.flow ?? "", party: c.to, agent: c.toAgent, root: c.root }, () => fn(d));
  }

  /** Checks a call and returns it as begun; its finish reports what came of it. Weir counts the
   * call in the same step and hears of the result in the background, so that it finds loops without
   * any telemetry. */
  async begin(beginning: Beginning): Promise<Begun> {
    const { args, message, ask = true, ...given } = beginning;
    if (args !== undefined && given.argsHash === undefined) Object.assign(given, argsFields(args));
    if (message !== undefined && given.contentHash === undefined) given.contentHash = hashContent(message);
    let call = inWork(given);
    if (call.tool && !call.callId) call = { ...call, callId: `${(++this.serial).toString(36)}-${this.word}` };
    const ev = this.stamped({ ...event(call, kind(call)), had_work: call.hadWork });
    const flow = flowKey(call);
    if (ask) await this.settle(flow);
    const d = ask ? await this.asked(call, ev) : this.check(call);
    if (!ask) this.doubted.delete(call.flow ?? "");
    if (!d.stopped && d.source !== "weir") this.queueReport(flow, () => ev); // weir did not count it, or its answer was lost: the id is the same
    if (d.flow && !call.flow) call = { ...call, flow: d.flow };
    const report = (c: Call, event: () => Record<string, unknown>) => {
      const at = this.stamped({});
      this.queueReport(flowKey(c), () => ({ ...event(), ...at }));
    };
    // An order by hand may have come while weir was asked; the call is not made yet.
    const stopped = d.stopped ? undefined : this.stoppedByHand(call);
    if (stopped) return new Begun(call, this.refused(stopped, call.flow ?? "", "table", this.stale), report);
    const begun = new Begun(call, d, report, (b) => this.flights.end(b), (v) => new FlowStopped(this.refused(v, call.flow ?? "", "table", this.stale)), () => this.flights.kick());
    if (!d.stopped) this.flights.begin(begun);
    return begun;
  }

  /** Checks a call, runs it and reports what came of it, see begin. It throws FlowStopped when the
   * call is refused, and what fn throws. What fn does is done in the flow of the call, by its callee
   * if it has one. */
  async run<R>(call: Beginning, fn: (signal: AbortSignal) => R | Promise<R>): Promise<R> {
    const begun = await this.begin(call);
    if (begun.decision.stopped) throw new FlowStopped(begun.decision);
    const c = begun.call;
    const inner = c.flow ? { flow: c.flow, party: c.to || c.from, agent: c.to ? c.toAgent : c.fromAgent, root: c.root } : currentWork();
    try {
      const result = await working(inner, () => fn(begun.signal));
      begun.finish(result);
      return result;
    } catch (error) {
      if (begun.signal.aborted) {
        begun.finish(undefined, { error: error ?? "error", status: "cancelled" });
        throw begun.signal.reason;
      }
      begun.finish(undefined, { error: error ?? "error", status: error instanceof FlowStopped ? "denied" : "error" });
      throw error;
    }
  }

  /** Reports what one request to a model has used, for budgets of tokens and money. */
  spent(about: Call & RequestUsage): void {
    const {
      inputTokens, outputTokens, costUsd, cacheReadInputTokens, cacheCreationInputTokens, cacheCreation1hInputTokens, reasoningOutputTokens, cacheInInput, model, ...given
    } = about;
    const call = inWork({ ...given, from: given.from ?? "agent" });
    const used = usage({ inputTokens, outputTokens, costUsd, cacheReadInputTokens, cacheCreationInputTokens, cacheCreation1hInputTokens, reasoningOutputTokens });
    const ev = this.stamped({
      ...event(call, "llm.call"), usage: cacheInInput === undefined ? used : { ...used, cache_in_input: cacheInInput },
      model: model ? clip(model) : undefined,
    });
    this.queueReport(flowKey(call), () => ev);
  }

  private async asked(call: Call, ev?: Record<string, unknown>): Promise<Decision> {
    let d: Decision;
    this.doubted.delete(call.flow ?? "");
    try {
      d = await this.askWeir(call, ev);
    } catch (err) {
      this.counts.askFailures++;
      if (!this.unasked) this.log("warn", `weir did not answer; calls are decided from memory until it does: ${cause(err)}`);
      this.unasked = true;
      return this.refusing(call) ? this.decide(call) : this.withoutOrders(call);
    }
    this.unasked = false;
    if (d.stopped) {
      this.counts.refused++;
      this.observe(call, d);
    } else {
      this.counts.allowed++;
    }
    return d;
  }

  /** Lifts the orders of a flow. Weir takes it with its admin token alone. */
  async release(flow: string, by: string, reason: string, seconds = 0): Promise<void> {
    const body = JSON.stringify({ reason, by, for_s: Math.trunc(seconds) });
    const path = `/v1/flows/${encodeURIComponent(flow)}/release`;
    await this.call("POST", path, { "content-type": "application/json" }, body, this.askTimeout);
  }

  private decide(call: Call): Decision {
    const v = this.refusing(call);
    if (v) {
      const d = this.refused(v, call.flow ?? "", "table", this.stale);
      this.counts.refused++;
      if (!this.o.quiet) this.acknowledge(call, v.id);
      this.observe(call, d);
      return d;
    }
    if (this.stale) return this.withoutOrders(call);
    this.counts.allowed++;
    if (this.doubts > 0 && call.flow) this.doubt(call.flow);
    return new Decision("allow", "table", false, call.flow ?? "");
  }

  private withoutOrders(call: Call): Decision {
    if (this.state === "never" && !this.warned) {
      this.warned = true;
      this.log("warn", "weir was not reached yet; a call is decided without its active orders");
    }
    const flow = call.flow ?? "";
    let d = new Decision("allow", "stale_open", true, flow);
    if (byPerson(call)) {
      this.counts.staleAllowed++;
    } else if (this.o.failClosed) {
      const message = "Agent call rejected: weir is unreachable, and calls are refused until it is back";
      d = new Decision("deny", "stale_closed", true, flow, { reason: "guard_stale", retryAfter: this.staleAfter / 1000, message });
      this.counts.staleRefused++;
    } else {
      const over = this.limit(call);
      if (over) {
        const message = `Agent call rejected: weir is unreachable, and the flow made ${over.observed} calls (max ${over.limit} meanwhile)`;
        d = new Decision(over.retryAfter > 0 ? "throttle" : "deny", "local_limit", true, flow, { ...over, message });
        this.counts.localLimited++;
      } else {
        this.counts.staleAllowed++;
      }
    }
    this.observe(call, d);
    return d;
  }

  /** Tells of a decision. It stands whatever becomes of that. */
  private observe(call: Call, d: Decision): void {
    const failed = (err: unknown) => {
      if (++this.counts.faults === 1) this.log("warn", `the function that is told of decisions failed; more faults are only counted: ${err}`);
    };
    try {
      const told: unknown = this.o.onDecision?.(call, d);
      if (told instanceof Promise) told.catch(failed);
    } catch (err) {
      failed(err);
    }
  }

  private refused(v: Verdict, flow: string, source: Source, stale = false, asked = false): Decision {
    let { limit, observed } = v;
    if (limit === undefined || observed === undefined) limit = observed = undefined;
    // The call that is refused would have been the one over the limit.
    else if (v.effective === "next" && !uncounted.includes(v.unit ?? "")) observed++;
    let retryAfter = v.retry_after_s ?? 0;
    if ((v.action === "throttle" || retryAfter) && v.expires_at && source === "table") {
      retryAfter = Math.max(1, Math.ceil((Date.parse(v.expires_at) - this.now()) / 1000));
    }
    retryAfter = Math.min(Math.max(0, retryAfter), mostWait);
    let message = v.message ?? "";
    for (const [head, instead] of armed) {
      if (message.startsWith(head)) message = instead + message.slice(head.length);
    }
    return new Decision(v.action as Action, source, stale, flow, {
      reason: v.reason_code ?? "",
      limit,
      observed,
      retryAfter,
      heldUntil: v.action === "hold" && v.expires_at ? new Date(v.expires_at) : undefined,
      verdictId: v.id,
      message,
      agentMessage: v.agent_message ?? "",
      remaining: asked ? remaining(v) : [],
      note: asked && !stops(v.action) ? (v.agent_message ?? "") : "",
    });
  }

  private limit(call: Call): { reason: string; limit: number; observed: number; retryAfter: number } | undefined {
    const b = this.bounds;
    const flow = flowKey(call);
    let s = this.counted.get(flow);
    if (!s) {
      s = this.countedBefore.get(flow) ?? { calls: 0, tools: 0, begun: 0, inWindow: 0, before: 0 };
      if (this.counted.size >= Math.max(1, (this.o.mostFlows ?? 65536) / 2)) {
        this.countedBefore = this.counted;
        this.counted = new Map();
      }
      this.counted.set(flow, s);
    }
    const over = (reason: string, limit: number, observed: number, retryAfter: number) => ({ reason, limit, observed, retryAfter });
    if (call.tool) {
      if (b.toolCalls > 0 && s.tools >= b.toolCalls * leeway) return over("max_tool_calls_exceeded", b.toolCalls * leeway, s.tools + 1, 0);
      s.tools++;
      return undefined;
    }
    if (b.calls > 0 && s.calls >= b.calls * leeway) return over("max_total_calls_exceeded", b.calls * leeway, s.calls + 1, 0);
    const window = (b.window > 0 ? b.window : 60) * 1000;
    const now = this.now();
    const age = now - s.begun;
    if (age < 0 || age >= 2 * window) Object.assign(s, { begun: now, inWindow: 0, before: 0 });
    else if (age >= window) Object.assign(s, { begun: s.begun + window, before: s.inWindow, inWindow: 0 });
    const seen = s.inWindow + Math.trunc(s.before * (1 - (now - s.begun) / window)); // the window slides
    if (b.rate > 0 && seen >= b.rate * leeway) {
      return over("call_rate_exceeded", b.rate * leeway, seen + 1, Math.ceil((window - (now - s.begun)) / 1000));
    }
    s.calls++;
    s.inWindow++;
    return undefined;
  }

  private refusing(call: Call): Verdict | undefined {
    const stopped = this.stoppedByHand(call);
    if (stopped) return stopped;
    if (byPerson(call)) return undefined;
    let found = this.orders.get(flowKey(call)) ?? [];
    if (this.wide.size > 0) {
      const names = ["", call.from, call.fromAgent, call.to, call.toAgent, call.task, call.project, call.tenant, call.tool, call.root, flowKey(call)];
      for (const name of names) if (name !== undefined) found = found.concat(this.wide.get(name) ?? []);
    }
    return this.first(found.filter((v) => matches(v, call)));
  }

  private stoppedByHand(call: Call): Verdict | undefined {
    return this.byHand.length > 0 ? this.first(this.byHand.filter((v) => this.bindsByHand(v, call))) : undefined;
  }

  private bindsByHand(v: Verdict, call: Call): boolean {
    const named = { ...call, service: call.service || this.name, principal: call.principal || this.principal };
    return stopsByHand(v.scope ?? nothing, v.by_hand ?? {}, named, flowKey(call));
  }

  /** The order that was given first, of those that have not expired. */
  private first(orders: Verdict[]): Verdict | undefined {
    let best: Verdict | undefined;
    for (const v of orders) {
      if ((v.expires_at && Date.parse(v.expires_at) <= this.now())) continue;
      if (!best || (v.revision ?? 0) < (best.revision ?? 0) || ((v.revision ?? 0) === (best.revision ?? 0) && v.id < best.id)) best = v;
    }
    return best;
  }

  /** Keeps what a verdict orders, or forgets what it clears. For tests; the stream calls it. */
  take(v: Verdict): boolean {
    const clears = v.action === "allow";
    if (!clears && (!stops(v.action) || v.mode !== "enforce")) return false;
    if (v.by_hand) return this.takeByHand(v);
    const scope = v.scope ?? nothing;
    const ofFlow = !!v.correlation_id || scope.kind === "flow";
    const table = ofFlow ? this.orders : this.wide;
    const key = ofFlow ? v.correlation_id || scope.id : scope.kind === "pair" ? "" : scope.id;
    const list = table.get(key) ?? [];
    const same = (o: Verdict) => sameOrder(o, v);
    const old = list.find(same);
    if ((old && (old.revision ?? 0) > (v.revision ?? 0)) || (clears && !old)) return false;
    if (!old && !this.hasRoom(v)) {
      // One that has expired, of which the log holds many, refuses nothing.
      if (!v.expires_at || Date.parse(v.expires_at) > this.now()) this.leaveOut();
      return false;
    }
    const rest = list.filter((o) => !same(o));
    if (!clears) rest.push(kept(v));
    this.held += rest.length - list.length;
    if (rest.length > 0) table.set(key, rest);
    else table.delete(key);
    return true;
  }

  /** As take, of an order that a person gave about a scope. There is always room for it. */
  private takeByHand(v: Verdict): boolean {
    const clears = v.action === "allow";
    const expired = v.expires_at !== undefined && Date.parse(v.expires_at) <= this.now();
    if (!clears && !expired && !understood(v.scope ?? nothing, v.by_hand ?? {})) {
      this.leaveOut("an order by hand has a scope that this guard does not know; update the guard");
      return false;
    }
    const old = this.byHand.find((o) => sameOrder(o, v));
    if ((clears && !old) || (old && (old.revision ?? 0) > (v.revision ?? 0))) return false;
    const rest = this.byHand.filter((o) => o !== old);
    this.byHand = clears ? rest : [...rest, kept(v)];
    this.flights.byHand(v, (b) => this.bindsByHand(v, (b as Begun).call));
    return true;
  }

  private get mostOrders(): number {
    return this.o.mostOrders ?? 200_000;
  }

  /** Events of a mere sender can fill the table with orders of rules, which must not keep out
   * those of an operator. */
  private hasRoom(v: Verdict): boolean {
    return this.held < this.mostOrders * (v.reason_code === "operator_stop" ? 2 : 1);
  }

  /** Counts an order that there is no room for. Without it the guard does not know all orders, so
   * it is stale until they were read again. */
  private leaveOut(why = ""): void {
    this.counts.leftOut++;
    if (!this.full) this.log("warn", why ? `${why}; it is stale until then` : `more orders are active than the guard holds (mostOrders ${this.mostOrders}); it is stale until there is room`);
    this.full = true;
    this.becomeStale("orders are missing");
  }

  private sweep(): void {
    this.byHand = this.byHand.filter((v) => !v.expires_at || Date.parse(v.expires_at) > this.now());
    for (const [key, last] of this.heard) if (last.until <= this.now()) this.heard.delete(key);
    for (const table of [this.orders, this.wide]) {
      for (const [key, list] of table) {
        const rest = list.filter((v) => !v.expires_at || Date.parse(v.expires_at) > this.now());
        this.held += rest.length - list.length;
        if (rest.length > 0) table.set(key, rest);
        else table.delete(key);
      }
    }
  }

  private async follow(): Promise<void> {
    let span = shortest;
    while (!this.closing.signal.aborted) {
      const before = this.counts.connections;
      const turn = this.turn;
      let rereads = false;
      try {
        await this.readStream();
      } catch (err) {
        rereads = err === room;
        this.log("debug", `the stream of verdicts ended: ${err}`);
        if (this.state === "never" && !this.unreached && !this.closing.signal.aborted) {
          this.unreached = true;
          this.log("warn", `cannot follow weir at ${new URL(String(this.urls[turn % this.urls.length])).host}; the guard tries again: ${cause(err)}`);
        }
      }
      this.becomeStale("weir does not answer");
      if (!rereads && this.urls.length > 1) {
        this.leave(turn);
        [this.lastId, this.full] = ["", false]; // the log of another member is another one
      }
      if (this.counts.connections > before) span = shortest;
      await this.pause(Math.random() * span);
      span = Math.min(2 * span, longest);
    }
  }

  /** Goes by weir's clock from now on where that and the clock of this machine are apart: orders end by it, and by one that is ahead none would stand. */
  private hearTime(date: string | null): void {
    const weirs = httpDate.test(date ?? "") ? Date.parse(date ?? "") : NaN;
    if (Number.isNaN(weirs)) return;
    const begun = performance.now();
    this.now = () => {
      const here = Date.now();
      const there = weirs + performance.now() - begun;
      return Math.abs(here - there) > clocksApart ? there : here;
    };
  }

  private async readStream(): Promise<void> {
    const silent = new AbortController();
    const abort = () => silent.abort();
    this.closing.signal.addEventListener("abort", abort);
    let watch = timer(abort, this.staleAfter);
    const alive = () => {
      this.alive = performance.now();
      clearTimeout(watch);
      watch = timer(abort, this.staleAfter);
    };
    try {
      const headers: Record<string, string> = { accept: "text/event-stream", "weir-guard": `${this.word} ${encodeURIComponent(this.name)}` };
      if (this.lastId) headers["last-event-id"] = this.lastId;
      if (this.lastId && this.logName) headers["weir-log"] = this.logName;
      const resp = await this.fetch("GET", "/v1/verdicts", headers, undefined, silent.signal);
      if (resp.status !== 200 || !resp.body) {
        if (resp.status === 400) [this.lastId, this.full] = ["", false]; // weir has another log than the one that was followed
        throw problem(resp.status, await answered(resp));
      }
      if (!/^text\/event-stream\s*(;|$)/i.test(resp.headers.get("content-type") ?? "") || resp.headers.get("content-encoding")) {
        throw new Error("what answers is no stream of verdicts");
      }
      this.counts.connections++;
      this.hearTime(resp.headers.get("date"));
      this.principal = resp.headers.get("weir-principal") ?? "";
      this.logName = resp.headers.get("weir-log") ?? "";
      void this.learn(); // orders need not wait for the limits
      const reader = resp.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      let m = message();
      let swept = this.now();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Error("weir ended the stream");
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        if (rest.length > mostMessage) {
          rest = rest.slice(0, 1); // enough to tell what the line is not
          this.tooLong(m);
        }
        for (let line of lines) {
          if (line.endsWith("\r")) line = line.slice(0, -1);
          m.size += line.length;
          if (line === "") {
            if (m.data.length > 0) alive(); // a whole message is a sign of life, single bytes are none
            await this.deliver(m);
            m = message();
          } else if (m.long) {
            continue;
          } else if (line.startsWith(":")) {
            m.size = 0;
            alive();
            if (line === ": behind") this.becomeStale("weir is behind its log");
            else this.becomeFresh(); // weir says so when this is all that there is
            // Weir may send much of its log then, so that is done once a minute at most.
            if (this.full && this.held <= Math.trunc(this.mostOrders / 4) * 3 && performance.now() >= this.rereadNext) {
              this.rereadNext = performance.now() + 60_000;
              [this.lastId, this.full] = [this.leftAfter, false];
              throw room;
            }
          } else if (m.size > mostMessage) {
            this.tooLong(m);
          } else {
            const colon = line.indexOf(":");
            const text = line.slice(colon + 1).replace(/^ /, "");
            if (line.startsWith("id:")) m.id = text;
            else if (line.startsWith("event:")) m.event = text;
            else if (line.startsWith("signature:")) m.signature = text;
            else if (line.startsWith("data:")) m.data.push(text);
          }
        }
        if (this.now() - swept > 60_000) {
          swept = this.now();
          this.sweep();
          void this.learn();
        }
      }
    } finally {
      clearTimeout(watch);
      this.closing.signal.removeEventListener("abort", abort);
      silent.abort();
    }
  }

  /** Passes over the rest of a message that is longer than any verdict. */
  private tooLong(m: Message): void {
    if (m.long) return;
    Object.assign(m, { long: true, data: [] });
    this.unreadable(`a message is longer than any verdict (${mostMessage} characters)`);
  }

  /** Counts what is no verdict. The first is logged: who sends one may send many. */
  private unreadable(why: unknown): void {
    if (++this.counts.unreadable === 1) this.log("warn", `what is no verdict came among them, and is passed over; more are only counted: ${why}`);
  }

  private async deliver(m: Message): Promise<void> {
    const [before, full] = [this.lastId, this.full];
    if (m.id.length <= mostId && /^[ -~]+$/.test(m.id)) this.lastId = m.id; // which a request can say
    if (m.data.length === 0 || (m.event && m.event !== "message")) return;
    await this.receive(m.data.join("\n"), m.signature);
    if (this.full && !full) this.leftAfter = before;
  }

  /** Takes in a verdict as it comes. For tests; the stream calls it. */
  async receive(text: string, signature = ""): Promise<void> {
    const keys = this.o.keys ?? {};
    const signed = Object.keys(keys).length > 0;
    let why: "unsigned" | "forged" | "replayed" | undefined = signed ? await unverified(keys, text, signature) : undefined;
    try {
      if (!why) {
        const v = verdict(parse(text));
        if (signed && this.isReplay(v)) why = "replayed";
        else if (this.take(v)) this.counts.orders++;
      }
    } catch (err) {
      this.unreadable(err);
    }
    if (!why) return;
    this.counts[why]++;
    if (!this.ignored.has(why)) this.log("warn", `an order is ignored, because it is ${why}; more of this kind are only counted`);
    this.ignored.add(why);
  }

  /** A replay is an order that weir did sign, heard again after a later revision of it. */
  private isReplay(v: Verdict): boolean {
    const clears = v.action === "allow";
    if (v.mode !== "enforce" || !(clears || stops(v.action))) return false;
    const now = this.now();
    const until = clears ? 0 : v.expires_at ? Date.parse(v.expires_at) : Infinity;
    if (!clears && until <= now) return false; // it refuses nothing, however often it is heard
    const key = orderId(v) || JSON.stringify([v.correlation_id, v.scope?.kind, v.scope?.id, v.reason_code]);
    const last = this.heard.get(key);
    const revision = v.revision ?? 0;
    if (last && revision < last.revision) return true;
    this.heard.set(key, { revision, until: Math.max(until, now + remembered, last?.until ?? 0) });
    return false;
  }

  private becomeFresh(): void {
    if (this.state === "fresh") return;
    if (this.full) {
      this.state = "stale";
      this.known = true;
      this.becameFresh(); // what there is room for is known
      return;
    }
    this.state = "fresh";
    this.flights.kick(); // the member that it follows now has not heard what it enforces
    this.counted = new Map();
    this.countedBefore = new Map();
    this.known = true;
    this.becameFresh();
    this.log("info", "weir is followed");
  }

  private becomeStale(why: string): void {
    if (this.state !== "fresh") return;
    this.state = "stale";
    if (this.closing.signal.aborted) return; // that was asked for
    this.counts.stales++;
    this.log("warn", `${why}; orders that are known stay in force`);
  }

  /** Asks weir for its limits. What goes wrong leaves the bounds as they were. */
  private async learn(): Promise<void> {
    try {
      const answer = parse(await this.call("GET", "/v1/limits", {}, undefined, this.staleAfter)) as { document: { rules: unknown } };
      const rules = object(answer.document.rules, "rules") as Record<string, Rule | undefined>;
      const rule = (name: string) => (rules[name] ? (object(rules[name], name) as Rule) : undefined);
      const rate = rule("call_rate_per_flow");
      const learned = { calls: most(rule("max_total_calls")), toolCalls: most(rule("max_tool_calls")), rate: most(rate), window: seconds(rate?.window) };
      if (Object.values(learned).some((n) => !(n >= 0 && n <= mostBound))) throw new Error("a limit is out of range");
      this.bounds = learned;
    } catch (err) {
      this.log("debug", `the limits are not known: ${err}`);
    }
  }

  private beating: Promise<void> | undefined;

  /** Reports which orders by hand the guard enforces, from when it knows the orders. */
  private async beats(): Promise<void> {
    while (!this.known && !this.closing.signal.aborted) await Promise.race([this.ready, this.pause(beatEvery)]);
    for (let lost = 0; ; ) {
      const kicked = new Promise<void>((resolve) => (this.flights.kick = resolve));
      const closed = this.closing.signal.aborted;
      if (this.known) {
        const wait = await this.sendBeat(closed);
        lost = wait === undefined ? lost + 1 : 0;
        if (!closed) await Promise.race([kicked, this.pause(wait ?? (lost === 1 ? leastBeat : beatEvery))]);
      }
      if (closed) return;
    }
  }

  /** Sends a heartbeat, and returns the milliseconds until the next one; undefined if no answer came. */
  private async sendBeat(closed: boolean): Promise<number | undefined> {
    const now = this.now();
    const held = this.byHand.filter((v) => !v.expires_at || Date.parse(v.expires_at) > now).map((v) => v.id);
    const beat = { guard: this.name, instance: this.word, language: "typescript", held, stale: this.stale, closed, ...this.flights.told() };
    const usual = held.length > 0 ? beatEvery : beatIdle;
    try {
      const answer = await this.call("POST", "/v1/guards", { "content-type": "application/json" }, JSON.stringify(beat), Math.min(this.askTimeout, beatTimeout));
      return nextBeat(answer) ?? usual;
    } catch (err) {
      if (err instanceof StatusError) return [403, 404, 405].includes(err.status) ? beatAgain : beatEvery;
      this.log("debug", `a heartbeat did not arrive: ${err}`);
      return undefined;
    }
  }

  private acknowledge(call: Call, verdictId: string): void {
    const ack = this.stamped({ ...event(call, "verdict.ack"), correlation_id: flowKey(call), ack: { verdict_id: verdictId, applied: true } });
    if (!this.queue({ event: () => ack, flow: "", ack: true })) this.counts.acksDropped++;
  }

  /** Hands a report to what sends them; false when there is no room. */
  private queue(report: Report): boolean {
    if (this.reports.length >= mostReports) return false;
    this.reports.push(report);
    this.reporting ??= Promise.resolve().then(() => this.report());
    return true;
  }

  private queueReport(flow: string, event: () => Record<string, unknown>): void {
    if (!this.queue({ event, flow, ack: false })) {
      this.counts.reportsDropped++;
      return;
    }
    this.pending.set(flow, (this.pending.get(flow) ?? 0) + 1);
  }

  /** Waits until weir has the reports of the flow: a check before them would be judged without the
   * result of the last call. They are mostly there long before the next call. */
  private async settle(flow: string): Promise<void> {
    const late = performance.now() + this.askTimeout / 3;
    while (this.pending.has(flow) && !this.unsent && performance.now() < late) {
      let end: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve) => {
        this.settling.push(resolve);
        end = setTimeout(resolve, late - performance.now());
      });
      clearTimeout(end);
    }
  }

  private async report(): Promise<void> {
    let span = shortest;
    while (this.reports.length > 0) {
      const batch = this.reports.slice(0, 256);
      const acks = batch.filter((r) => r.ack).length;
      try {
        await this.send(batch.map((r) => r.event()));
        this.counts.acked += acks;
        this.counts.reported += batch.length - acks;
        [span, this.unsent, this.dropping] = [shortest, false, false];
      } catch (err) {
        const status = err instanceof StatusError ? err.status : 0;
        const refused = status >= 400 && status < 500 && status !== 408 && status !== 429;
        this.unsent = !refused;
        if (!this.closing.signal.aborted && !refused) {
          this.wake();
          await this.pause(Math.random() * span);
          span = Math.min(2 * span, longest);
          continue;
        }
        this.counts.acksDropped += acks;
        this.counts.reportsDropped += batch.length - acks;
        if (!this.dropping) this.log("warn", `${batch.length} reports are dropped; until one is sent, more are only counted: ${err}`);
        this.dropping = true;
      }
      this.reports.splice(0, batch.length);
      for (const { flow, ack } of batch) {
        const left = (this.pending.get(flow) ?? 0) - 1;
        if (left > 0) this.pending.set(flow, left);
        else if (!ack) this.pending.delete(flow);
      }
      this.wake();
    }
    this.reporting = undefined;
  }

  private wake(): void {
    const waiting = this.settling;
    this.settling = [];
    for (const resolve of waiting) resolve();
  }

  private doubt(flow: string): void {
    const seen = this.doubted.get(flow);
    if (!seen) {
      // A flow with few checks makes room for another one.
      if (this.doubted.size === 3) for (const [name, d] of this.doubted) if (d.checks < 3 && performance.now() - d.since > forgetUnseen) this.doubted.delete(name);
      if (this.doubted.size < 3) this.doubted.set(flow, { checks: 1, since: performance.now() });
    } else if (++seen.checks >= 3 && performance.now() - seen.since > heardWithin) {
      void this.lookUp(false);
    }
  }

  /** Asks weir whether it has heard of a flow that is only checked: orders about a flow of which no
   * event comes never come either. False when no flow is to be looked up. */
  private async lookUp(ends: boolean): Promise<boolean> {
    const [flow] = [...this.doubted].find(([, d]) => d.checks >= 3 && (ends || performance.now() - d.since > heardWithin)) ?? [];
    if (flow === undefined || this.doubts <= 0 || this.state === "never") return false;
    this.doubted.delete(flow);
    this.doubts--;
    try {
      await this.call("GET", `/v1/flows/${encodeURIComponent(flow)}`, {}, undefined, this.askTimeout);
    } catch (err) {
      if (!(err instanceof StatusError) || err.status !== 404) return !ends;
      this.doubts = 0; // said once
      this.log("warn", `orders are asked for flow ${JSON.stringify(flow)}; weir has never seen it. Report its calls (guard.begin, guard.run), or pass the correlation id that your telemetry reports`);
    }
    return true;
  }

  private async send(lines: object[]): Promise<void> {
    const body = lines.map((line) => JSON.stringify(line) + "\n").join("");
    await this.call("POST", "/v1/events", { "content-type": "application/x-ndjson" }, body, this.askTimeout);
  }

  private async askWeir(call: Call, given?: Record<string, unknown>): Promise<Decision> {
    const flow = call.flow ?? "";
    const ev = given ?? this.stamped({ ...event(call, kind(call)), had_work: call.hadWork });
    let answer: unknown;
    try {
      answer = await this.askBy(JSON.stringify({ ...ev, ask: true, tell: call.tell }));
    } catch (err) {
      const p = (err instanceof StatusError ? err.body : {}) as Partial<Verdict> & { instance?: string; detail?: string; held_until?: string };
      if (!p.reason_code) return this.rejected(call, err);
      const id = p.instance?.startsWith("urn:weir:verdict:") ? p.instance.slice("urn:weir:verdict:".length) : "";
      // An action of a later version is a refusal all the same.
      const action = stops(p.action ?? "") ? p.action : "deny";
      return this.refused(typed({ ...p, id, action, message: p.detail, ...(typeof p.held_until === "string" && { expires_at: p.held_until }) }), flow, "weir", false, true);
    }
    const v = verdict((answer as { verdict: unknown }).verdict);
    if (v.mode === "enforce" && (v.action === "warn" || stops(v.action))) return this.refused(v, flow, "weir", false, true);
    return new Decision("allow", "weir", false, flow || v.correlation_id || "", { remaining: remaining(v), note: v.agent_message ?? "" });
  }

  /** Refuses a call that weir cannot read: to let such calls pass would leave them uncounted. Other
   * answers of the four hundreds are about tokens, addresses and load. */
  private rejected(call: Call, err: unknown): Decision {
    const detail = err instanceof StatusError && [400, 413, 422].includes(err.status) ? err.body["detail"] : undefined;
    if (typeof detail !== "string" || !detail || byPerson(call)) throw err;
    if (++this.counts.askRejected === 1) this.log("warn", `weir cannot read a check request, so the call is refused; correct the call, more of them are only counted: ${detail}`);
    const message = "Agent call rejected: weir cannot read the call: " + detail.replace(/\p{Surrogate}/gu, "\ufffd");
    return new Decision("deny", "weir", false, call.flow ?? "", { reason: "check_rejected", message });
  }

  /** Returns what weir answers to a line that asks. Asks of the same moment, as those of parallel
   * calls are, share a request: weir judges each as if it had come alone. */
  private askBy(line: string): Promise<unknown> {
    return new Promise((answer, fail) => {
      if (this.asks.push({ line, late: performance.now() + this.askTimeout, answer, fail }) === 1) queueMicrotask(() => this.sendAsks());
    });
  }

  /** Makes requests of what waits. When many are under way, the others wait for the end of one and
   * share the next: each request needs a connection, of which weir gives an address some hundreds. */
  private sendAsks(): void {
    while (this.asks.length > 0 && this.requests < mostRequests) {
      const asks = this.asks.splice(0, mostAsks);
      this.requests++;
      void this.askTogether(asks).finally(() => {
        this.requests--;
        this.sendAsks();
      });
    }
  }

  private async askTogether(asks: Asking[]): Promise<void> {
    const left = asks[0]!.late - performance.now(); // of the one that has waited for the longest
    const ask = (type: string, body: string) => {
      if (left <= 0) return Promise.reject(new Error(`no answer in ${this.askTimeout} ms`));
      return this.call("POST", "/v1/check", { "content-type": type }, body, Math.ceil(left));
    };
    const alone = (a: Asking) => ask("application/json", a.line).then((text) => a.answer(parse(text))).catch(a.fail);
    if (asks.length === 1) return alone(asks[0]!);
    try {
      const text = await ask("application/x-ndjson", asks.map((a) => a.line + "\n").join(""));
      const answers = text.trimEnd().split("\n").map((line) => object(parse(line), "the answer"));
      if (answers.length !== asks.length) throw new Error(`weir gives ${answers.length} answers to ${asks.length} asks`);
      asks.forEach((a, i) => {
        const { status, body } = answers[i]!;
        if (status === 200) a.answer(body);
        else a.fail(problem(Number(status), JSON.stringify(body)));
      });
    } catch (err) {
      // An older weir takes one at a time, and some are too long together.
      if (err instanceof StatusError && (err.status === 400 || err.status === 413 || err.status === 415)) await Promise.all(asks.map(alone));
      else asks.forEach((a) => a.fail(err));
    }
  }

  private stamped(ev: Record<string, unknown>): Record<string, unknown> {
    const at = this.now();
    return { ...ev, id: `${at.toString(36)}-${(++this.serial).toString(36)}-${this.word}`, source: this.name, time: new Date(at).toISOString() };
  }

  private fetch(method: string, path: string, headers: Record<string, string>, body: string | undefined, signal: AbortSignal): Promise<Response> {
    headers["accept-encoding"] = "identity"; // what is packed may be any size
    if (this.o.token) headers["authorization"] = "Bearer " + this.o.token;
    // Orders come from weir, and from nowhere else.
    return (this.o.fetch ?? fetch)(this.urls[this.turn % this.urls.length] + path, { method, headers, body, signal, cache: "no-store", redirect: "manual" });
  }

  /** Goes on to the next address of weir, unless the one of that turn was left already. */
  private leave(turn: number): void {
    if (this.turn === turn) this.turn++;
  }

  /** Sends a request, to the next address where one does not answer. */
  private async sendOn(send: () => Promise<Response>, late: AbortSignal): Promise<Response> {
    for (let left = this.urls.length - 1; ; left--) {
      const turn = this.turn;
      try {
        const resp = await send();
        if (!unreachable.includes(resp.status)) return resp;
        this.leave(turn);
        if (left === 0) return resp;
        await resp.body?.cancel();
      } catch (err) {
        this.leave(turn);
        if (left === 0 || late.aborted) throw err;
      }
    }
  }

  /** Sends a request and returns what is answered, all of it within a time and a length. */
  private async call(method: string, path: string, headers: Record<string, string>, body: string | undefined, ms: number): Promise<string> {
    const late = new AbortController();
    const end = setTimeout(() => late.abort(new Error(`no answer in ${ms} ms`)), ms);
    try {
      const once = () => this.fetch(method, path, headers, body, late.signal);
      // A connection that is kept may be closed by weir, which gives its place to a newcomer, at the
      // moment of a request. Events and checks have ids, so that weir counts them once.
      const again = method === "GET" || path === "/v1/check" || path === "/v1/events";
      const send = () =>
        once().catch((err: unknown) => {
          if (!again || late.signal.aborted || !wasClosed(err)) throw err;
          return once();
        });
      const resp = await this.sendOn(send, late.signal);
      // What is packed was not asked for, and nobody reads it.
      const text = resp.headers.get("content-encoding") ? "" : await answered(resp);
      if (!resp.ok || (path === "/v1/check" && resp.status !== 200)) throw problem(resp.status, text);
      return text;
    } finally {
      clearTimeout(end);
      late.abort(); // lets go of what was not read
    }
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(end);
        this.closing.signal.removeEventListener("abort", done);
        resolve();
      };
      const end = timer(done, ms);
      this.closing.signal.addEventListener("abort", done);
    });
  }

  private log(level: "debug" | "info" | "warn", text: string): void {
    try {
      if (this.o.log) this.o.log(level, text);
      else if (level === "warn") console.warn("weir guard: " + text);
    } catch {
      this.counts.faults++; // what is said of a decision does not change it
    }
  }
}

/** Statuses by which an address reaches no weir that can answer. */
const unreachable = [502, 503, 504];

/** Ends the stream of orders, to begin it again. */
const room = new Error("orders are read again, because there is room for those that were left out");

/** Whether a connection was closed before anything of the answer came, as Node says it. */
function wasClosed(err: unknown): boolean {
  const code = (err as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE";
}

/** JSON.parse for what others wrote. It has no depth at which it ends, and who walks through what
 * it gives has one. */
function parse(text: string): unknown {
  let depth = 0;
  if ((text.match(/[[{]/g) ?? []).length > mostDepth) {
    for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
      if (token === "[" || token === "{") depth++;
      else if (token === "]" || token === "}") depth--;
      if (depth > mostDepth) throw new Error(`more than ${mostDepth} lists and objects within each other`);
    }
  }
  return JSON.parse(text);
}

/** What went wrong, with what fetch says is behind it. */
function cause(err: unknown): string {
  const behind = err instanceof Error ? err.cause : undefined;
  return behind ? `${err}: ${behind}` : `${err}`;
}

/** What is wrong with a signature, k=<key id>,v1=<HMAC-SHA256 of the text in hex>. */
async function unverified(keys: Record<string, string>, text: string, signature: string): Promise<"unsigned" | "forged" | undefined> {
  if (!signature) return "unsigned";
  const [, id, code] = /^k=([^,]*),v1=([0-9a-fA-F]{64})$/.exec(signature) ?? [];
  if (!id || !code || !Object.hasOwn(keys, id) || !keys[id]) return "forged";
  const encode = (s: string) => new TextEncoder().encode(s);
  const key = await crypto.subtle.importKey("raw", encode(keys[id]), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const bytes = Uint8Array.from(code.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return (await crypto.subtle.verify("HMAC", key, bytes, encode(text))) ? undefined : "forged";
}

class StatusError extends Error {
  constructor(
    readonly status: number,
    readonly body: Record<string, unknown>,
  ) {
    super(`weir answers with status ${status}: ${JSON.stringify(body["detail"] ?? "").slice(0, 200)}`);
  }
}

function problem(status: number, text: string): StatusError {
  try {
    return new StatusError(status, object(parse(text), "the problem"));
  } catch {
    return new StatusError(status, {});
  }
}

/** What is answered, when that is not more than a guard reads. */
async function answered(resp: Response): Promise<string> {
  const reader = resp.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > mostAnswer) {
      void reader?.cancel().catch(() => {});
      throw new Error(`weir answers with more than ${mostAnswer} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** A verdict, as far as a guard reads it. What is of another form is none, so that nothing
 * goes wrong later when a call is held against it. */
function verdict(v: unknown): Verdict {
  const checked = typed(v);
  if (!checked.id || !checked.action) throw new Error("id and action are needed");
  return checked;
}

const texts = ["id", "mode", "action", "effective", "reason_code", "unit", "message", "agent_message", "expires_at", "correlation_id"];
const matchTexts = ["kind", "turn_id", "not_turn_id", "task_id", "conversation_id", "project_id", "root_correlation_id"];
const matchLists = ["from", "to", "not_from", "not_to", "tool", "args_hash", "content_hash"];

function typed(given: unknown): Verdict {
  const v = object(given, "the verdict");
  for (const name of texts) want(v, name, "string");
  for (const name of ["limit", "observed", "revision", "retry_after_s"]) {
    want(v, name, "number");
    const n = v[name] as number | undefined;
    const whole = name === "revision" || name === "retry_after_s";
    if (n !== undefined && !(whole ? Number.isInteger(n) && Math.abs(n) < 2 ** 63 : Number.isFinite(n))) throw new Error(`${name} is out of range`);
  }
  const expires = v["expires_at"] as string | undefined;
  if (expires !== undefined && !isTime(expires)) throw new Error("expires_at is no time");
  v["scope"] ??= undefined;
  v["match"] ??= undefined;
  v["by_hand"] ??= undefined;
  if (v["by_hand"] !== undefined) typedByHand(v["by_hand"]);
  if (v["scope"] !== undefined) {
    const scope = object(v["scope"], "scope");
    for (const name of ["kind", "id"]) {
      want(scope, name, "string");
      scope[name] ??= "";
    }
  }
  if (v["match"] !== undefined) {
    const match = object(v["match"], "match");
    for (const name of matchTexts) want(match, name, "string");
    for (const name of matchLists) for (const text of list(match, name)) if (typeof text !== "string") throw new Error(`match.${name} has what is no text`);
    want(match, "background", "boolean");
    for (const edge of list(match, "edges")) {
      const { from, to } = object(edge, "an edge");
      if (typeof from !== "string" || typeof to !== "string") throw new Error("an edge needs from and to");
    }
  }
  return v as unknown as Verdict;
}

/** Whether a text is a time from 1970 to 9999 as weir writes it. Date.parse takes much more, and
 * the 30th of February. */
function isTime(text: string): boolean {
  const day = text.slice(0, 10);
  const at = Date.parse(text);
  return rfc3339.test(text) && at >= 0 && at < 253402300800000 && new Date(day).toISOString().startsWith(day);
}

/** What an answer says is left. What is of another form says nothing. */
function remaining(v: Verdict): Remaining[] {
  const left: Remaining[] = [];
  for (const said of Array.isArray(v.remaining) ? (v.remaining as unknown[]) : []) {
    const r = (said ?? {}) as { rule_id?: unknown; left?: unknown; limit?: unknown; unit?: unknown; until?: unknown; forecast?: unknown };
    if (typeof r.rule_id !== "string" || typeof r.left !== "number" || typeof r.limit !== "number" || typeof r.unit !== "string") continue;
    const forecast = readForecast(r.forecast);
    if (forecast === null) continue;
    const until = typeof r.until === "string" ? Date.parse(r.until) : NaN;
    left.push({ rule: r.rule_id, left: r.left, limit: r.limit, unit: r.unit, ...(Number.isNaN(until) ? {} : { until: new Date(until) }), ...(forecast && { forecast }) });
  }
  return left;
}

/** The forecast of a budget: undefined if there is none, null if it has another form. */
function readForecast(said: unknown): Forecast | undefined | null {
  if (said === undefined || said === null) return undefined;
  if (typeof said !== "object" || Array.isArray(said)) return null;
  const figures = said as Record<string, unknown>;
  const f: Forecast = { runs: 0 };
  for (const name of ["runs", "low", "expected", "high"] as const) {
    const value = figures[name] ?? undefined;
    if (value === undefined) continue;
    if (typeof value !== "number" || (name === "runs" && !Number.isInteger(value))) return null;
    f[name] = value;
  }
  return f;
}

const keptFields = ["id", "revision", "mode", "action", "effective", "scope", "match", "reason_code", "limit", "observed", "unit", "message", "agent_message", "expires_at", "retry_after_s", "correlation_id", "by_hand"] as const;

/** What the table keeps of an order. */
function kept(v: Verdict): Verdict {
  return Object.fromEntries(keptFields.filter((name) => v[name] !== undefined).map((name) => [name, v[name]])) as unknown as Verdict;
}

function object(v: unknown, what: string): Record<string, unknown> {
  if (typeof v !== "object" || v === null || Array.isArray(v)) throw new Error(`${what} is no object`);
  return v as Record<string, unknown>;
}

function want(v: Record<string, unknown>, name: string, type: string): void {
  v[name] ??= undefined; // null is as good as nothing
  if (v[name] !== undefined && typeof v[name] !== type) throw new Error(`${name} is ${typeof v[name]}`);
  if (type === "string" && v[name] !== undefined) v[name] = (v[name] as string).replace(/\p{Surrogate}/gu, "\ufffd"); // half a character is none
}

function list(v: Record<string, unknown>, name: string): unknown[] {
  v[name] ??= undefined;
  if (v[name] !== undefined && !Array.isArray(v[name])) throw new Error(`${name} is no list`);
  return (v[name] as unknown[] | undefined) ?? [];
}

/** A timer that does not keep a program alive. */
function timer(fn: () => void, ms: number): ReturnType<typeof setTimeout> {
  const t = setTimeout(fn, ms);
  (t as { unref?: () => void }).unref?.();
  return t;
}

/** A correlation id that nobody else has. Node 18 has crypto only where it is told to. */
function flowId(): string {
  if (globalThis.crypto) return crypto.randomUUID();
  const digits = Array.from({ length: 32 }, () => Math.trunc(Math.random() * 16).toString(16)).join("");
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, "$1-$2-4$3-8$4-$5");
}

function stops(action: string): boolean {
  return action === "throttle" || action === "deny" || action === "hold" || action === "halt";
}

function kind(c: Call): string {
  return c.tool ? "tool.call" : "agent.call";
}

function byPerson(c: Call): boolean {
  return c.origin === "user" || !(c.origin || c.tool || c.from || c.fromAgent);
}

function flowKey(c: Call): string {
  return c.flow || "agent:" + (c.to || c.toAgent || c.from || c.fromAgent || "");
}

function event(c: Call, kind: string): Record<string, unknown> {
  const ev: Record<string, unknown> = { kind };
  const party = (id?: string, agent?: string) => (!agent || agent === id ? { agent: id || agent } : id ? { session: id, agent } : { agent });
  if (c.from || c.fromAgent) ev["from"] = party(c.from, c.fromAgent);
  if (c.to || c.toAgent) ev["to"] = party(c.to, c.toAgent);
  if (c.tool) ev["tool"] = { name: c.tool, call_id: c.callId || undefined, args_hash: hash.test(c.argsHash ?? "") ? c.argsHash : undefined, args_sim: sim.test(c.argsSim ?? "") ? c.argsSim : undefined };
  const more = { correlation_id: c.flow, root_correlation_id: c.root, origin: c.origin, content_hash: hash.test(c.contentHash ?? "") ? c.contentHash : "", turn_id: c.turn, task_id: c.task, conversation_id: c.conversation, project_id: c.project, tenant_id: c.tenant, team_id: c.team, model: c.model, background: c.background };
  for (const [name, value] of Object.entries(more)) if (value) ev[name] = value;
  return ev;
}

/** Weir says by the first part of the id which order a verdict is about; where an id has
 * another form, scope and reason tell. */
function sameOrder(a: Verdict, b: Verdict): boolean {
  const [one, other] = [orderId(a), orderId(b)];
  if (one && other) return one === other;
  return a.scope?.kind === b.scope?.kind && a.scope?.id === b.scope?.id && a.reason_code === b.reason_code;
}

function orderId(v: Verdict): string {
  return /^([0-9a-f]{16})-/.exec(v.id)?.[1] ?? "";
}

function matches(v: Verdict, c: Call): boolean {
  return binds(v, c) && describes(v.match ?? {}, c);
}

/** The scope of a verdict that has none. */
const nothing = { kind: "", id: "" };

function binds(v: Verdict, c: Call): boolean {
  const scope = v.scope ?? { kind: "", id: "" };
  const m = v.match ?? {};
  if (v.correlation_id && v.correlation_id !== flowKey(c)) return false;
  switch (scope.kind) {
    case "flow":
      return !!v.correlation_id || scope.id === flowKey(c);
    case "session":
    case "agent":
      // It is about one conversation of one tenant.
      if (v.reason_code === "repeated_wakes" && (c.tenant ?? "") !== (v.tenant_id ?? "")) return false;
      if (m.from?.length || m.to?.length || m.edges?.length) return true; // which says whose calls
      if (v.reason_code === "agent_message_rate_exceeded") return called(c.to, c.toAgent, scope.id);
      return called(c.from, c.fromAgent, scope.id);
    case "pair": {
      if (m.edges?.length) return true;
      const bar = scope.id.indexOf("|");
      const [a, b] = [scope.id.slice(0, bar), scope.id.slice(bar + 1)];
      return bar >= 0 && (along(c, a, b) || along(c, b, a));
    }
    case "task":
      return (c.task ?? "") === scope.id;
    case "project":
      return (c.project ?? "") === scope.id;
    case "tenant":
      return (c.tenant ?? "") === scope.id;
    case "tool":
      return (c.tool ?? "") === scope.id;
    case "tree":
      return inTree(c, scope.id);
  }
  return false; // a scope that this guard does not know yet
}

function describes(m: Match, c: Call): boolean {
  const caller = (name: string) => called(c.from, c.fromAgent, name);
  const callee = (name: string) => called(c.to, c.toAgent, name);
  return (
    (!m.kind || m.kind === kind(c)) &&
    (!m.background || !!c.background) &&
    (!m.from?.length || m.from.some(caller)) &&
    (!m.to?.length || m.to.some(callee)) &&
    !m.not_from?.some(caller) &&
    !m.not_to?.some(callee) &&
    (!m.tool?.length || m.tool.includes(c.tool ?? "")) &&
    (!m.args_hash?.length || m.args_hash.some((h) => sameHash(h, c.argsHash ?? ""))) &&
    (!m.content_hash?.length || m.content_hash.some((h) => sameHash(h, c.contentHash ?? ""))) &&
    (!m.edges?.length || m.edges.some((e) => along(c, e.from, e.to))) &&
    (!m.turn_id || m.turn_id === c.turn) &&
    (!m.not_turn_id || (!!c.turn && m.not_turn_id !== c.turn)) &&
    (!m.task_id || m.task_id === c.task) &&
    (!m.conversation_id || m.conversation_id === c.conversation) &&
    (!m.project_id || m.project_id === c.project) &&
    (!m.root_correlation_id || inTree(c, m.root_correlation_id))
  );
}

function inTree(c: Call, root: string): boolean {
  return root !== "" && (c.root === root || flowKey(c) === root);
}

function called(id: string | undefined, agent: string | undefined, name: string): boolean {
  return name !== "" && (id === name || agent === name);
}

function along(c: Call, a: string, b: string): boolean {
  return called(c.from, c.fromAgent, a) && called(c.to, c.toAgent, b);
}

/** Compares hashes of which one may have been cut. */
function sameHash(a: string, b: string): boolean {
  const [i, j] = [a.indexOf(":"), b.indexOf(":")];
  const [x, y] = [a.slice(i + 1), b.slice(j + 1)];
  return i >= 0 && j >= 0 && x !== "" && y !== "" && a.slice(0, i) === b.slice(0, j) && (x.startsWith(y) || y.startsWith(x));
}

interface Rule {
  max?: unknown;
  stop?: unknown;
  window?: unknown;
}

function most(rule: Rule | undefined): number {
  if (typeof rule?.max === "number") return Math.trunc(rule.max);
  return typeof rule?.stop === "number" ? Math.max(1, Math.trunc(rule.stop) - 1) : 0;
}

/** The seconds of a duration as limits write it, such as 1h30m or 500ms; a minute where it is
 * none. */
function seconds(text: unknown): number {
  if (typeof text !== "string" || !/^([\d.]+(h|m|s|ms|us|µs|ns))+$/.test(text)) return 60;
  const units: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9 };
  let total = 0;
  for (const [, n, unit] of text.matchAll(/([\d.]+)([a-zµ]+)/g)) total += Number(n) * (units[unit ?? ""] ?? 0);
  return total > 0 ? total : 60;
}
