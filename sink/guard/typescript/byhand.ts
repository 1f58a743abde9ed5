/** Orders that persons give about scopes (weir stop): which calls they bind. */

/** What an order is about. Its id is a pattern. */
export interface Scope {
  kind: string;
  id: string;
}

/** What an order has that a person gave about a scope. */
export interface ByHand {
  by?: string;
  reason?: string;
  within?: Scope[];
  except?: Scope[];
}

/** What an order by hand looks at in a call. */
export interface Named {
  from?: string;
  to?: string;
  fromAgent?: string;
  toAgent?: string;
  tool?: string;
  project?: string;
  tenant?: string;
  team?: string;
  model?: string;
  service?: string;
  principal?: string;
  root?: string;
}

const kinds = new Set(["all", "tenant", "team", "project", "principal", "service", "agent", "tool", "model", "tree", "flow"]);

/** Whether an order by hand binds the call, however long it lasts. It binds a person's call as well. */
export function stopsByHand(scope: Scope, hand: ByHand, c: Named, flow: string): boolean {
  return fits(scope, c, flow) && (hand.within ?? []).every((s) => fits(s, c, flow)) && !excepted(hand.except ?? [], c, flow);
}

/** Whether the guard can hold a call against the order. Where it cannot, as with a scope of a later
 * version, it does not know what is stopped. */
export function understood(scope: Scope, hand: ByHand): boolean {
  return [scope, ...(hand.within ?? []), ...(hand.except ?? [])].every((s) => kinds.has(s.kind));
}

/** Refuses an order of another form. */
export function typedByHand(hand: unknown): void {
  if (typeof hand !== "object" || hand === null || Array.isArray(hand)) throw new Error("by_hand is no object");
  for (const name of ["within", "except"] as const) {
    const scopes: unknown = (hand as Record<string, unknown>)[name] ?? [];
    const isScope = (s: unknown) => typeof (s as Scope | null)?.kind === "string" && typeof (s as Scope).id === "string";
    if (!Array.isArray(scopes) || !scopes.every(isScope)) throw new Error(`by_hand.${name} has what is no scope`);
  }
}

/** An exception of agents holds for a call of which each party is excepted: a stopped agent does not
 * work because an excepted one calls it. */
function excepted(exceptions: Scope[], c: Named, flow: string): boolean {
  if (exceptions.some((s) => s.kind !== "agent" && fits(s, c, flow))) return true;
  const parties: (string | undefined)[][] = [];
  if (c.from || c.fromAgent) parties.push([c.from, c.fromAgent]);
  if (!c.tool && (c.to || c.toAgent)) parties.push([c.to, c.toAgent]);
  const free = (names: (string | undefined)[]) => exceptions.some((s) => s.kind === "agent" && names.some((name) => glob(s.id, name)));
  return parties.length > 0 && parties.every(free);
}

/** A call that does not name what the scope is about fits no pattern. */
function fits(scope: Scope, c: Named, flow: string): boolean {
  const names: Record<string, (string | undefined)[]> = {
    tenant: [c.tenant],
    team: [c.team],
    project: [c.project],
    principal: [c.principal],
    service: [c.service],
    agent: [c.from, c.fromAgent, c.to, c.toAgent],
    tool: [c.tool],
    model: [c.model],
    tree: [c.root, flow],
    flow: [flow],
  };
  return scope.kind === "all" || (names[scope.kind] ?? []).some((name) => glob(scope.id, name));
}

/** Whether a pattern fits a text that is not empty: a star stands for any text, a question mark for
 * one character. */
export function glob(pattern: string, text: string | undefined): boolean {
  if (!text) return false;
  if (!/[*?]/.test(pattern)) return pattern === text;
  const [p, t] = [Array.from(pattern), Array.from(text)];
  let [i, j, start, star] = [0, 0, 0, -1];
  while (j < t.length) {
    if (p[i] === "*") {
      [star, start] = [i, j];
      i++;
    } else if (i < p.length && (p[i] === "?" || p[i] === t[j])) {
      i++;
      j++;
    } else if (star >= 0) {
      start++; // let the last star stand for one character more
      [i, j] = [star + 1, start];
    } else {
      return false;
    }
  }
  return p.slice(i).every((c) => c === "*");
}
